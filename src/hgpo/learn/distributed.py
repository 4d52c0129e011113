"""One process or several under torchrun: the few operations the trainer needs, plain when alone.

Several processes shard weights, gradients and optimiser state with FSDP2. Each plays its share of the groups
with an ordinary (unsharded) copy of the policy, because episodes end at different times and a sharded forward
needs all processes at once.
"""

from __future__ import annotations

import os
import pickle
from typing import Any, TypeVar

import torch
import torch.distributed as dist

T = TypeVar("T")


class Processes:
    """Rank and size of this run's process group, and what its members exchange."""

    def __init__(self, device: torch.device) -> None:
        self.size = int(os.environ.get("WORLD_SIZE", "1"))
        self.rank = int(os.environ.get("RANK", "0"))
        self.device = device
        self.started = False
        if self.size > 1:
            if device.type == "cuda":
                self.device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
                torch.cuda.set_device(self.device)
            if not dist.is_initialized():
                dist.init_process_group("cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo")
                self.started = True

    @property
    def first(self) -> bool:
        """This process writes the files and talks."""
        return self.rank == 0

    def barrier(self) -> None:
        """Wait for all."""
        if self.size > 1:
            dist.barrier()

    def add(self, values: torch.Tensor) -> torch.Tensor:
        """Sum over processes, in place."""
        if self.size > 1:
            dist.all_reduce(values)
        return values

    def any(self, flag: bool) -> bool:
        """True when any process says so."""
        if self.size == 1:
            return flag
        value = torch.tensor([float(flag)])
        dist.all_reduce(value)
        return bool(value.item() > 0)

    def gather(self, value: T) -> list[T]:
        """A value (anything that pickles) from every process, in rank order, at every process."""
        if self.size == 1:
            return [value]
        raw = torch.frombuffer(bytearray(pickle.dumps(value, pickle.HIGHEST_PROTOCOL)), dtype=torch.uint8)
        sizes = [torch.zeros(1, dtype=torch.int64) for _ in range(self.size)]
        dist.all_gather(sizes, torch.tensor([len(raw)], dtype=torch.int64))
        longest = int(max(size.item() for size in sizes))
        padded = torch.zeros(longest, dtype=torch.uint8)
        padded[: len(raw)] = raw
        parts = [torch.zeros(longest, dtype=torch.uint8) for _ in range(self.size)]
        dist.all_gather(parts, padded)
        return [pickle.loads(part[: int(size.item())].numpy().tobytes()) for part, size in zip(parts, sizes)]

    def close(self) -> None:
        """Leave the process group if this object made it."""
        if self.started and dist.is_initialized():
            dist.destroy_process_group()


def shard(model: Any, processes: Processes) -> Any:
    """Shard the model in place with FSDP2, one unit per transformer layer."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh(processes.device.type, (processes.size,))
    layers = [module for name, module in model.named_modules() if _is_layer(name)]
    for layer in layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model


def _is_layer(name: str) -> bool:
    head, _, last = name.rpartition(".")
    return last.isdigit() and head.endswith(("layers", ".h"))


def full(tensor: torch.Tensor) -> torch.Tensor:
    """The whole of a (perhaps sharded) tensor; a collective when it is sharded."""
    whole = getattr(tensor, "full_tensor", None)
    return whole() if whole is not None else tensor


def put(target: torch.Tensor, value: torch.Tensor) -> None:
    """Copy a whole tensor into a (perhaps sharded) one."""
    if hasattr(target, "device_mesh"):
        from torch.distributed.tensor import distribute_tensor

        value = distribute_tensor(
            value.to(target.device, target.dtype), target.device_mesh, target.placements
        )
        target.copy_(value)
    else:
        target.copy_(value.to(target.device, target.dtype))
