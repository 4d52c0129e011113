"""A small real environment for tests of training: fetch the asked fruit and hand it over."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path

from hgpo.envs import Observation, Transition

FRUITS = ("apple", "pear", "plum", "fig", "lime", "kiwi")
SHELVES = ("left", "middle", "right")


class Fetch:
    """Three shelves hold a fruit each; the asked one must be taken and then given.

    A task id reads `fetch-<number>`; the number decides shelves and wish.
    """

    splits = ("train", "in-domain")

    def __init__(self, tasks: int = 40) -> None:
        self.count = tasks

    def tasks(self, split: str) -> Sequence[str]:
        start = {"train": 0, "in-domain": 10_000}[split]
        return [f"fetch-{start + number}" for number in range(self.count)]

    def reset(self, task: str, *, seed: int | None = None) -> Observation:
        number = int(task.split("-")[1]) * 7919 % 100_003
        first, stride = number % 6, (1, 5)[number // 6 % 2]
        self.shelves = [FRUITS[(first + place * stride) % 6] for place in range(3)]
        self.wish = self.shelves[number // 12 % 3]
        self.hand, self.steps = "", 0
        seen = ", ".join(f"{shelf} {fruit}" for shelf, fruit in zip(SHELVES, self.shelves))
        text = f"you see {seen}. your task is to: bring {self.wish}"
        return Observation(text, self._can(), {"task_type": "fetch", "goal": f"bring {self.wish}"})

    def _can(self) -> list[str]:
        return ["give"] if self.hand else [f"take {shelf}" for shelf in SHELVES]

    def step(self, action: str) -> Transition:
        self.steps += 1
        won = done = False
        text = "nothing happens."
        if action in self._can():
            if action == "give":
                won, done = self.hand == self.wish, True
                text = "thanks." if won else "no."
            else:
                self.hand = self.shelves[SHELVES.index(action.split()[1])]
                text = f"you hold {self.hand}."
        return Transition(
            text,
            reward=10.0 if won else 0.0,
            terminated=done,
            truncated=self.steps >= 6 and not done,
            admissible=self._can(),
            success=won,
            score=float(won),
        )

    def close(self) -> None:
        pass

    def expert(self) -> Expert:
        return Expert()


class Expert:
    """Takes the asked fruit from its shelf and gives it; knows only what it reads."""

    def reset(self, observation: Observation) -> None:
        words = observation.text.replace(",", "").replace(".", "").split()
        self.shelf = words[words.index(words[-1]) - 1]

    def act(self, seen: Observation | Transition) -> str:
        return "give" if "give" in seen.admissible else f"take {self.shelf}"


class Flaky(Fetch):
    """A `Fetch` that breaks on every third task, `times` times each; the folder `marks` remembers across processes.

    `mode`: `kill` ends the process the hard way, `hang` never answers, `raise` raises.
    """

    def __init__(self, marks: str, mode: str, times: int = 1, tasks: int = 40) -> None:
        super().__init__(tasks)
        self.marks, self.mode, self.times = Path(marks), mode, times

    def reset(self, task: str, *, seed: int | None = None) -> Observation:
        self.task = task
        return super().reset(task, seed=seed)

    def step(self, action: str) -> Transition:
        if int(self.task.split("-")[1]) % 3 == 0:
            for number in range(self.times):
                try:
                    # Exclusive creation: exactly one process gets each mark.
                    (self.marks / f"{self.task}.{number}").touch(exist_ok=False)
                except FileExistsError:
                    continue
                if self.mode == "kill":
                    os.kill(os.getpid(), signal.SIGKILL)
                if self.mode == "hang":
                    time.sleep(3600)
                raise RuntimeError("the world fell over")
        return super().step(action)


WORLD = "tests.worlds:Fetch"
"""Where the world is: what `--allow-env` has to name to read a run in it."""
FETCH = str(Path(__file__).with_name("fetch.toml"))
"""A preset of a few seconds in this world."""
