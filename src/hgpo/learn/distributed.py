"""One process or several under torchrun: the few operations the trainer needs, plain when alone.

Several processes shard weights, gradients and optimiser state (`shards.py`). Each plays its share of the groups
with an ordinary (unsharded) copy of the policy, because episodes end at different times and a sharded forward
needs all processes at once.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from typing import TypeVar, cast

import torch
import torch.distributed as dist

T = TypeVar("T")


class PeerOutOfMemory(torch.OutOfMemoryError):  # type: ignore[misc]
    """Another process of the run has no memory for its part of a pass."""


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

    def tell(self, value: T | None) -> T:
        """The first process's value (anything that pickles) at every process; what others give is not looked at."""
        told = self.gather(value if self.first else None)[0]
        return cast(T, told)

    def together(self, work: Callable[[], T]) -> T:
        """What `work` returns, at all processes, or an out-of-memory error at all of them.

        A process without memory for its part would leave the others waiting for it for ever. So `work` calls
        `check` before everything that all processes do together, and the one that fails answers the next such
        question, which the others ask.

        Raises:
            torch.OutOfMemoryError: this process has no memory; or another, then it is `PeerOutOfMemory`.
        """
        try:
            result = work()
            self.check()
        except torch.OutOfMemoryError as error:
            if not isinstance(error, PeerOutOfMemory):
                self.any(True)
            raise
        return result

    def check(self) -> None:
        """Go on only if no process has run out of memory; see `together`."""
        if self.any(False):
            raise PeerOutOfMemory("Another process of this run has no memory for its part of the pass.")

    def close(self) -> None:
        """Leave the process group if this object made it."""
        if self.started and dist.is_initialized():
            dist.destroy_process_group()
