"""Tensors written and read one at a time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from hgpo.models.tensors import TensorFile, write_tensors

GIVEN = {
    'weight/"a" ü.b': torch.arange(12, dtype=torch.float32).reshape(3, 4).T,
    "half": torch.tensor([1.5, -2.0, float("inf")], dtype=torch.bfloat16),
    "number": torch.tensor(7, dtype=torch.int64),
    "nothing": torch.empty(0, 5),
    "flags": torch.tensor([True, False, True]),
}


def test_files_are_those_of_safetensors(tmp_path: Path) -> None:
    write_tensors(tmp_path / "ours", GIVEN.items(), GIVEN)
    save_file({name: tensor.contiguous() for name, tensor in GIVEN.items()}, tmp_path / "theirs")
    for found in (
        load_file(tmp_path / "ours"),
        TensorFile(tmp_path / "ours"),
        TensorFile(tmp_path / "theirs"),
    ):
        assert sorted(found) == sorted(GIVEN)
        for name, tensor in GIVEN.items():
            assert found[name].dtype == tensor.dtype
            assert torch.equal(found[name], tensor)


def test_one_tensor_at_a_time(tmp_path: Path) -> None:
    made: list[str] = []
    path = tmp_path / "file"

    def items() -> Iterator[tuple[str, torch.Tensor]]:
        for number in range(3):
            if made:
                assert path.stat().st_size >= number * 4_000_000, "the one before is in the file already"
            made.append(f"tensor {number}")
            yield made[-1], torch.full((1_000_000,), float(number))

    write_tensors(path, items(), [f"tensor {number}" for number in range(3)])
    file = TensorFile(path)
    assert list(file) == made
    assert file.shape("tensor 2") == (1_000_000,)
    assert float(file["tensor 2"].mean()) == 2.0
    assert "tensor 3" not in file
    with pytest.raises(KeyError):
        file["tensor 3"]
