"""Tensors by name, one at a time: a checkpoint of a large model never has to stand in memory whole.

Files are safetensors. torch is only needed by who asks for a tensor.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO


class Tensors(Mapping[str, Any]):
    """Tensors by name, each made or read when it is asked for."""

    @abstractmethod
    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of a tensor, without making or reading it."""


class TensorFile(Tensors):
    """The tensors of a safetensors file.

    Raises:
        OSError, SafetensorError: there is no such file, or it is none.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        with self._open() as file:
            self.shapes = {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118

    def _open(self) -> Any:
        from safetensors import safe_open

        return safe_open(self.path, "pt")

    def __getitem__(self, name: str) -> Any:
        if name not in self.shapes:
            raise KeyError(name)
        # Opened anew: what was read through one opening counts as this process's memory until it is closed.
        with self._open() as file:
            return file.get_tensor(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self.shapes)

    def __len__(self) -> int:
        return len(self.shapes)

    def __contains__(self, name: object) -> bool:
        return name in self.shapes

    def shape(self, name: str) -> tuple[int, ...]:
        """From the head of the file."""
        return self.shapes[name]


KINDS = {
    "float64": "F64",
    "float32": "F32",
    "float16": "F16",
    "bfloat16": "BF16",
    "int64": "I64",
    "int32": "I32",
    "int16": "I16",
    "int8": "I8",
    "uint8": "U8",
    "bool": "BOOL",
}
"""What safetensors calls the types of torch."""
ROOM = 320
"""More bytes than the head of a file needs for a tensor besides its name."""


def write_tensors(path: Path, items: Iterable[tuple[str, Any]], names: Iterable[str]) -> None:
    """Write a safetensors file, holding one tensor at a time.

    Args:
        path: where to.
        items: names and torch tensors, each done with when the next is asked for.
        names: all names that will come, in any order.
    """
    head: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    # Types and shapes are known when the tensors have been made: the head comes first, with room left for it.
    room = len(json.dumps(head)) + sum(len(json.dumps(name)) + ROOM for name in names)
    room += -room % 8
    at = 0
    with open(path, "wb") as file:
        file.seek(8 + room)
        for name, tensor in items:
            tensor = tensor.detach().cpu().contiguous()
            size = tensor.numel() * tensor.element_size()
            kind = KINDS[str(tensor.dtype).removeprefix("torch.")]
            head[name] = {"dtype": kind, "shape": list(tensor.shape), "data_offsets": [at, at + size]}
            _write(file, tensor)
            at += size
        text = json.dumps(head, separators=(",", ":")).encode()
        file.seek(0)
        # The format allows spaces after the head.
        file.write(room.to_bytes(8, "little") + text.ljust(room))


def _write(file: BinaryIO, tensor: Any) -> None:
    import torch

    if tensor.numel():
        file.write(memoryview(tensor.reshape(-1).view(torch.uint8).numpy()))
