"""Environments as other people write them: no expert, no types, commands of every shape."""

from __future__ import annotations

import json
import random
from typing import Any

from hgpo.envs import Observation, Transition

COLOURS = ("Red", "Green", "Blue", "Amber")
NAMES = ("Ada", "Bob", "Cleo", "Dan", "Eve")


class _World:
    splits: tuple[str, ...] = ("train", "test")
    limit = 6

    def tasks(self, split: str) -> list[str]:
        counts = dict(zip(self.splits, (150, 40)))
        return [f"{split}-{number}" for number in range(counts[split])]

    def reset(self, task: str, *, seed: int | None = None) -> Observation:
        split, _, number = task.rpartition("-")
        if split not in self.splits or not number.isdecimal():
            raise KeyError(task)
        self.draw, self.steps = random.Random(task), 0
        return self.begin()

    def step(self, action: str) -> Transition:
        self.steps += 1
        text, done, won = self.act(action)
        return Transition(
            text,
            reward=float(won),
            terminated=done,
            truncated=not done and self.steps >= self.limit,
            admissible=self.can(),
            success=won,
            score=float(won),
        )

    def begin(self) -> Observation:
        raise NotImplementedError

    def act(self, action: str) -> tuple[str, bool, bool]:
        raise NotImplementedError

    def can(self) -> list[str]:
        return []

    def close(self) -> None: ...


class Switches(_World):
    """No list of commands: the text names the switches, the agent has to say which to press."""

    def begin(self) -> Observation:
        shown = self.draw.sample(COLOURS, 3)
        self.right = self.draw.choice(shown)
        listed = ", ".join(f"Press {colour} Switch" for colour in shown)
        return Observation(f"The {self.right} Lamp is out. You can: {listed}.")

    def act(self, action: str) -> tuple[str, bool, bool]:
        if not action.startswith("Press "):
            return "Say what to press.", False, False
        won = action == f"Press {self.right} Switch"
        return "Light!" if won else "Nothing.", True, won


class Desk(_World):
    """Commands are JSON with capitals, spaces and lists."""

    def begin(self) -> Observation:
        self.drawers = dict(zip("ABC", self.draw.sample(NAMES, 3)))
        self.wanted, self.open = self.draw.choice(list(self.drawers.values())), ""
        return Observation(
            "A desk with the drawers A, B and C.", self.can(), {"goal": f"Find {self.wanted}'s Letter"}
        )

    def can(self) -> list[str]:
        calls: list[dict[str, Any]] = [{"tool": "Open", "args": [drawer]} for drawer in "ABC"]
        if self.open:
            calls.append({"tool": "Hand Over", "args": [self.open, 1]})
        return [json.dumps(call) for call in calls]

    def act(self, action: str) -> tuple[str, bool, bool]:
        if action not in self.can():
            return "ERROR: no such call.", False, False
        call = json.loads(action)
        if call["tool"] == "Open":
            self.open = call["args"][0]
            return f"Drawer {self.open}: a letter of {self.drawers[self.open]}.", False, False
        won = self.drawers[self.open] == self.wanted
        return "Thanks." if won else "Wrong.", True, won


class Archive(_World):
    """Long observations, one split, commands of two lines in SQL."""

    splits = ("train",)

    def begin(self) -> Observation:
        self.wanted = self.draw.choice(NAMES)
        dust = " ".join(
            f"Shelf {number} holds {self.draw.choice(COLOURS)} Folders." for number in range(1, 60)
        )
        return Observation(f"{dust}\nThe request: all rows of {self.wanted}.", self.can())

    def can(self) -> list[str]:
        return [f"SELECT *\n  FROM people WHERE name = '{name}';" for name in NAMES]

    def act(self, action: str) -> tuple[str, bool, bool]:
        if action not in self.can():
            return "syntax error", False, False
        won = f"'{self.wanted}'" in action
        return "1 row" if won else "0 rows", True, won
