"""Task ids of worlds whose episodes are seeds: `<split>/<number>`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...errors import BadSetting, UnknownName, UnknownTask


class SeedTasks:
    """So many tasks a split, no seed in two of them.

    Args:
        counts: how many tasks each split has.
        world: what the environment is called in messages.
    """

    SPREAD = 1_000_000

    def __init__(self, counts: Mapping[str, int], world: str) -> None:
        for split, count in counts.items():
            if not 1 <= count <= self.SPREAD:
                raise BadSetting(f"The number of {split} tasks is {count}; expected from 1 to {self.SPREAD}.")
        self.counts, self.world = dict(counts), world

    def tasks(self, split: str) -> Sequence[str]:
        """The task ids of a split."""
        if split not in self.counts:
            raise UnknownName("split", split, self.counts)
        return [f"{split}/{number}" for number in range(self.counts[split])]

    def seed(self, task: str) -> int:
        """The seed of a task."""
        split, _, number = task.partition("/")
        if (
            split not in self.counts
            or not (number.isascii() and number.isdigit())
            or int(number) >= self.SPREAD
        ):
            raise UnknownTask(task, self.world, list(self.counts), f"{next(iter(self.counts))}/0")
        return list(self.counts).index(split) * self.SPREAD + int(number)
