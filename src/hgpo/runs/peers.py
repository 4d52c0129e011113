"""The processes of a run, as those who play see them; needs no torch."""

from __future__ import annotations

from typing import Protocol, TypeVar

T = TypeVar("T")


class Peers(Protocol):
    """The processes of a run, as `learn.distributed.Processes` offers them."""

    size: int
    rank: int

    def gather(self, value: T) -> list[T]:
        """A value from every process, in rank order, at every process."""
        ...


class Alone:
    """One process."""

    size = 1
    rank = 0

    def gather(self, value: T) -> list[T]:
        """The value."""
        return [value]
