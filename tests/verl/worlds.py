"""Environments for the tests of the verl plug-in: a corridor that any reply moves through, and one that breaks."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence

from hgpo.envs import Observation, Transition


class Corridor:
    """Five cells; a reply with an even number of characters steps right, an odd one left. The right end wins.

    Random replies lead to varied returns and to cells seen several times, so the hierarchy has something to do.
    """

    splits: Sequence[str] = ("train", "in-domain")

    def __init__(self, bad: int = 0) -> None:
        self.bad = bad

    def tasks(self, split: str) -> Sequence[str]:
        return [f"{split}/{number}" for number in range(8)]

    def reset(self, task: str, *, seed: int | None = None) -> Observation:
        # The seed moves the start, so rollouts of a group agree only if they were given the same one.
        self.task, self.cell = task, 1 + (seed or 0) % 2
        return self._seen()

    def _seen(self) -> Observation:
        goal = "reach the end."
        return Observation(f"Your task is to: {goal}\ncell {self.cell}", ("left", "right"), {"goal": goal})

    def step(self, action: str) -> Transition:
        self.cell = max(0, min(4, self.cell + (1 if len(action) % 2 == 0 else -1)))
        won = self.cell == 4
        return Transition(
            f"cell {self.cell}",
            reward=1.0 if won else -0.01 * len(action),
            terminated=won,
            admissible=("left", "right"),
            success=won,
            score=float(won),
        )

    def close(self) -> None: ...


class Faulty(Corridor):
    """A corridor in which three of the training tasks never end well: one raises, one hangs, one dies."""

    def step(self, action: str) -> Transition:
        fault = {"train/0": "raise", "train/1": "hang", "train/2": "die"}.get(self.task)
        if fault == "raise":
            raise RuntimeError("the engine lost its game file")
        if fault == "hang":
            time.sleep(3600)
        if fault == "die":
            os._exit(3)
        return super().step(action)
