"""A dark cave: take the lamp, light it, follow the sign and dig."""

from __future__ import annotations

import random

from hgpo.envs import Observation, Transition
from hgpo.errors import UnknownName


class Cave:
    """An environment of your own: `hgpo env check` plays it, `hgpo train` trains a model in it."""

    splits = ("train", "in-domain")  # sets of tasks: one to train on, one that is held out
    tunnels = ("North", "East", "West")
    treasures = ("Gold Cup", "Red Ruby", "Old Map", "Silver Ring", "Iron Key", "Black Pearl")

    def tasks(self, split: str) -> list[str]:
        """Task ids, always in the same order. An id decides the whole episode."""
        if split not in self.splits:
            raise UnknownName("split", split, self.splits)
        return [f"{split}/{number}" for number in range(200 if split == "train" else 100)]

    def reset(self, task: str, *, seed: int | None = None) -> Observation:
        """The start of an episode: what the agent sees, and the commands that work now (none if you cannot say)."""
        if not any(task in self.tasks(split) for split in self.splits):
            raise UnknownName("task", task, self.tasks("train")[:3])
        draw = random.Random(task)
        self.where, self.treasure = draw.choice(self.tunnels), draw.choice(self.treasures)
        self.place, self.lamp, self.steps = "Hall", "on the floor", 0
        # `goal` stands in every prompt of the episode.
        return Observation(self.look(), self.commands(), {"goal": f"Find the {self.treasure}."})

    def look(self) -> str:
        if self.place == "Hall":
            return f"You are in the Hall. A lamp is {self.lamp}. A sign says: {self.treasure}, {self.where}."
        return f"You are in the {self.place} Tunnel."

    def commands(self) -> list[str]:
        """Any text can be a command: capitals, JSON, several lines."""
        if self.place != "Hall":
            return ["Dig Here", "Go Back"]
        use = {"on the floor": ["Take the Lamp"], "in your hand": ["Light the Lamp"], "burning": []}[
            self.lamp
        ]
        return [*use, *(f"Go {tunnel}" for tunnel in self.tunnels), "Sit Down"]

    def step(self, action: str) -> Transition:
        """One action. What makes no sense is answered in words, never with an exception."""
        self.steps += 1
        known, dug = action in self.commands(), action == "Dig Here" and self.place != "Hall"
        won, text = dug and self.place == self.where, "Nothing happens."
        if dug:
            text = f"You found the {self.treasure}!" if won else "There is nothing, and your spade breaks."
        elif known and action.startswith("Go ") and action != "Go Back" and self.lamp != "burning":
            text = f"It is too dark there. {self.look()}"
        elif known and action != "Sit Down":
            self.lamp = {"Take the Lamp": "in your hand", "Light the Lamp": "burning"}.get(action, self.lamp)
            if action.startswith("Go "):
                self.place = "Hall" if action == "Go Back" else action.removeprefix("Go ")
            text = self.look()
        return Transition(
            text,
            reward=float(won),  # what training sees
            terminated=dug,  # the episode ended because of what happened in it
            truncated=not dug and self.steps >= 8,  # time ran out
            admissible=self.commands(),
            success=won,  # what evaluation reports
            score=float(won),
        )

    def close(self) -> None:
        """Release what the environment holds."""
