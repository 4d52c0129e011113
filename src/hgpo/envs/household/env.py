"""The embedded default environment: generated houses, nothing to download.

env = make("household", size="tiny")
obs = env.reset("tiny/train/00000")
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from ...errors import BadSetting, UnknownName, UnknownTask
from .episode import HouseEnv
from .generate import SIZES, SPLITS, generate
from .house import TASK_TYPES, House
from .solution import solution


class HouseholdEnv(HouseEnv):
    """Generated houses in the household engine.

    Task ids read `<size>/<split>/<index>`, with `<size>-<seed>` for a seed other than 0; an id decides the
    whole episode. `tasks` lists the first ones of a split, but any index can be played: there is no end.

    Args:
        size: `tiny` (4 or 5 receptacles), `small`, `medium` or `alfworld` (as large as the official games).
        seed: another family of houses.
        task_types: list only these of the six task types.
        num_train, num_in_domain, num_out_of_domain: how many tasks each split lists.
        max_steps: steps after which an episode is truncated; by size (20, 30, 40, 50) when left out.
        win_reward: reward of the step that solves the task.
    """

    world_version: int = 1
    """Raised when the same actions in the same task get other answers; part of every panel's digest."""

    def __init__(
        self,
        *,
        size: str = "small",
        seed: int = 0,
        task_types: Iterable[str] | None = None,
        num_train: int = 3000,
        num_in_domain: int = 140,
        num_out_of_domain: int = 134,
        max_steps: int | None = None,
        win_reward: float = 10.0,
    ) -> None:
        if size not in SIZES:
            raise UnknownName("house size", size, SIZES)
        super().__init__(
            max_steps=SIZES[size].max_steps if max_steps is None else max_steps, win_reward=win_reward
        )
        if seed < 0:
            raise BadSetting(f"seed is {seed}; expected 0 or more.")
        self.size, self.seed = size, seed
        self.family = size if seed == 0 else f"{size}-{seed}"
        self.counts = dict(zip(SPLITS, (num_train, num_in_domain, num_out_of_domain)))
        for split, count in self.counts.items():
            if count < 1:
                raise BadSetting(f"The number of {split} tasks is {count}; expected at least 1.")
        self.task_types = TASK_TYPES if task_types is None else tuple(task_types)
        for kind in self.task_types:
            if kind not in TASK_TYPES:
                raise UnknownName("task type", kind, TASK_TYPES)
        if not self.task_types:
            raise BadSetting(f"task_types is empty; expected some of {', '.join(TASK_TYPES)}.")
        self._id = re.compile(rf"{re.escape(self.family)}/({'|'.join(SPLITS)})/(\d{{5,9}})")

    @property
    def splits(self) -> Sequence[str]:
        """`train`, `in-domain` (rooms of train, other episodes), `out-of-domain` (unseen rooms)."""
        return SPLITS

    def tasks(self, split: str) -> Sequence[str]:
        """The first task ids of a split; types take turns."""
        if split not in self.counts:
            raise UnknownName("split", split, SPLITS)
        ids: list[str] = []
        index = 0
        while len(ids) < self.counts[split]:
            if TASK_TYPES[index % len(TASK_TYPES)] in self.task_types:
                ids.append(f"{self.family}/{split}/{index:05d}")
            index += 1
        return ids

    def house(self, task: str) -> House:
        """The generated house that a task id names."""
        match = self._id.fullmatch(task) if isinstance(task, str) else None
        if match is None:
            example = f"{self.family}/train/00000"
            raise UnknownTask(task, f"household houses of size {self.size!r}", self.splits, example)
        return generate(self.size, self.seed, match[1], int(match[2]))

    def walkthrough(self, task: str) -> list[str]:
        """Commands that solve a task, from someone who knows where everything is."""
        return solution(self.house(task))
