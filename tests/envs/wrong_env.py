"""An environment that does one thing wrong, for the tests of what foreign code may do to a run."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from hgpo.envs import Observation, Transition
from hgpo.errors import BadSetting, EnvironmentFailed, UnknownTask

from ..worlds import Fetch


class Unspeakable(Exception):
    """An exception without words."""

    def __str__(self) -> str:
        raise RuntimeError("not even this")


class Unstoppable(BaseException):
    """Not even an `Exception`."""


def _raise(error: BaseException) -> Callable[[Any], Any]:
    def action(_: Any) -> Any:
        raise error

    return action


def _with(**values: Any) -> Callable[[Any], Any]:
    return lambda seen: replace(seen, **values)


ANYWHERE: dict[str, tuple[Callable[[Any], Any], str]] = {
    "text-none": (_with(text=None), "text is None"),
    "text-number": (_with(text=3), "text is 3"),
    "text-bytes": (_with(text=b"a"), "expected a text"),
    "text-surrogate": (_with(text="a\ud800"), "lone surrogates"),
    "admissible-text": (_with(admissible="look"), "admissible is 'look'"),
    "admissible-none": (_with(admissible=None), "admissible is None"),
    "admissible-numbers": (_with(admissible=[1, 2]), "an item of admissible is 1"),
    "admissible-generator": (
        lambda seen: replace(seen, admissible=(a for a in "ab")),
        "expected a list of texts",
    ),
    "info-list": (_with(info=[]), "info is"),
    "info-object": (_with(info={"made": {"by": [Unspeakable]}}), "expected plain values"),
    "info-keys": (_with(info={1: 2}), "a name in info is 1"),
    "returns-none": (lambda _: None, "returned None"),
    "returns-text": (lambda _: "text", "returned 'text'"),
    "raises": (_raise(RuntimeError("it fell over")), "RuntimeError: it fell over"),
    "raises-setting": (_raise(BadSetting("no such data")), "no such data"),
    "raises-failed": (_raise(EnvironmentFailed("its own failure")), "its own failure"),
    "raises-task": (_raise(UnknownTask("x", "nowhere", ["train"])), "Unknown task 'x'"),
    "raises-unspeakable": (_raise(Unspeakable()), "Unspeakable"),
    "raises-at-length": (_raise(RuntimeError("long " * 100_000)), "long long"),
    "raises-own": (_raise(Unstoppable("out of here")), "Unstoppable: out of here"),
    "raises-cancelled": (_raise(asyncio.CancelledError()), "CancelledError"),
    "raises-exit": (_raise(GeneratorExit()), "GeneratorExit"),
    "recursion": (lambda seen: _endless(seen), "RecursionError"),
    "reads": (lambda _: input(), ""),
}
"""Faults of `reset` and `step`, and what is said about them."""
STEP: dict[str, tuple[Callable[[Any], Any], str]] = {
    "reward-text": (_with(reward="3"), "reward is '3'"),
    "reward-none": (_with(reward=None), "reward is None"),
    "reward-array": (_with(reward=np.ones(1)), "reward is array"),
    "reward-nan": (_with(reward=float("nan")), "reward is nan"),
    "reward-infinite": (_with(reward=-float("inf")), "reward is -inf"),
    "reward-huge": (_with(reward=1e300), "reward is 1e+300"),
    "reward-endless": (_with(reward=10**400), "OverflowError"),
    "reward-complex": (_with(reward=1j), "reward is 1j"),
    "terminated-number": (_with(terminated=0), "terminated is 0"),
    "terminated-text": (_with(terminated="False"), "terminated is 'False'"),
    "truncated-none": (_with(truncated=None), "truncated is None"),
    "success-array": (_with(success=np.zeros(2)), "success is array"),
    "score-none": (_with(score=None), "score is None"),
    "score-nan": (_with(score=np.float32("nan")), "score is"),
}
"""Faults of `step` alone."""
MODE = {**ANYWHERE, **STEP}
LISTS: dict[str, Any] = {
    "none": None,
    "text": "fetch-1",
    "numbers": [1, 2],
    "dict": {"fetch-1": 1},
    "mixed": ["fetch-1", None],
}
"""What `tasks` returns that is no list of task ids."""


def _endless(seen: Any) -> Any:
    return _endless(seen)


class Wrong(Fetch):
    """A `Fetch` that goes wrong on the task `on`, in `where` (`reset` or `step`), `times` times over all copies.

    Args:
        fault: a name in `MODE`; `exit` ends the program; `hang` never answers; `child` starts a process that sleeps.
        where: `reset`, `step`, `made` (the constructor) or `tasks`.
        on: the task, any where it is empty.
        times: how often; the folder `marks` remembers.
        marks: a folder.
        tasks: how many tasks there are.
    """

    def __init__(
        self,
        fault: str,
        where: str = "step",
        on: str = "",
        times: int = 1000,
        marks: str = "",
        tasks: int = 4,
    ) -> None:
        super().__init__(tasks)
        self.fault, self.where, self.on, self.times, self.marks = fault, where, on, times, marks
        self.task = ""
        if where == "made":
            self._strike(None)

    def tasks(self, split: str) -> Sequence[str]:
        if self.where == "tasks" and self._strikes():
            return LISTS[self.fault] if self.fault in LISTS else self._act(None)  # type: ignore[no-any-return]
        return super().tasks(split)

    def reset(self, task: str, *, seed: int | None = None) -> Observation:
        self.task = task
        seen = super().reset(task, seed=seed)
        return self._strike(seen) if self.where == "reset" else seen

    def step(self, action: str) -> Transition:
        seen = super().step(action)
        return self._strike(seen) if self.where == "step" else seen

    def _strikes(self) -> bool:
        if self.on and self.task != self.on:
            return False
        if not self.marks:
            return True
        for number in range(self.times):
            try:
                (Path(self.marks) / str(number)).touch(exist_ok=False)
            except FileExistsError:
                continue
            return True
        return False

    def _strike(self, seen: Any) -> Any:
        return self._act(seen) if self._strikes() else seen

    def _act(self, seen: Any) -> Any:
        if self.fault == "exit":
            sys.exit(7)
        if self.fault == "hang":
            time.sleep(3600)
        if self.fault == "child":
            child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
            return replace(seen, info={"child": child.pid})
        return MODE[self.fault][0](seen)
