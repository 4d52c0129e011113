"""An environment with scripted faults, for the tests of the supervisor."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path

from hgpo.envs import Observation, Transition
from hgpo.errors import UnknownTask


class FaultyEnv:
    """Counts steps aloud. `fault` happens at step `at` of an episode, `times` times over all processes.

    Faults: `hang`, `crash`, `raise`, `garbage` (writes nonsense to its output), `forget` (goes differently
    after a crash), `start` (crashes when made). The file `tally` remembers across processes.
    """

    splits: Sequence[str] = ("train",)

    def __init__(self, tally: str, fault: str = "", at: int = 2, times: int = 1) -> None:
        self.tally, self.fault, self.at, self.times = Path(tally), fault, at, times
        self.task, self.count = "", 0
        if fault == "start":
            self._maybe()

    def tasks(self, split: str) -> Sequence[str]:
        return ["a", "b"]

    def reset(self, task: str, *, seed: int | None = None) -> Observation:
        if task not in ("a", "b"):
            raise UnknownTask(task, "the faulty environment", self.splits)
        self.task, self.count = task, 0
        print("reset", task, "noise on standard output")
        return Observation(f"task {task} seed {seed}", ["count"], {"pid": os.getpid()})

    def step(self, action: str) -> Transition:
        self.count += 1
        if self.fault and self.count == self.at:
            self._maybe()
        text = f"{self.task} {self.count} {action}"
        if self.fault == "forget" and self.tally.exists():
            text += " differently"
        return Transition(text, reward=0.5, admissible=["count"], info={"pid": os.getpid()})

    def close(self) -> None: ...

    def _maybe(self) -> None:
        happened = len(self.tally.read_text()) if self.tally.exists() else 0
        if happened >= self.times:
            return
        self.tally.write_text("x" * (happened + 1))
        if self.fault == "hang":
            time.sleep(60)
        elif self.fault == "raise":
            raise RuntimeError("the engine is upset")
        elif self.fault == "garbage":
            os.write(1, b"this is no answer\n")
        else:
            os._exit(3)
