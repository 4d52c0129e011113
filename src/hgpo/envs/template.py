"""A cave with three tunnels: find the one that holds the treasure and take it."""

from __future__ import annotations

import random

from hgpo.envs import Observation, Transition
from hgpo.errors import UnknownName


class Cave:
    """An environment of your own: `hgpo env check` plays it, `hgpo train` trains a model in it."""

    splits = ("train", "in-domain")  # sets of tasks: one to train on, one that is held out
    treasures = ("Gold Cup", "Red Ruby", "Old Map", "Silver Ring", "Iron Key", "Black Pearl")
    tunnels = ("North", "East", "West")

    def tasks(self, split: str) -> list[str]:
        """Task ids, always in the same order. An id decides the whole episode."""
        if split not in self.splits:
            raise UnknownName("split", split, self.splits)
        return [f"{split}/{number}" for number in range(200 if split == "train" else 60)]

    def reset(self, task: str, *, seed: int | None = None) -> Observation:
        """The start of an episode: what the agent sees, and the commands that work now (none if you cannot say)."""
        if not any(task in self.tasks(split) for split in self.splits):
            raise UnknownName("task", task, self.tasks("train")[:3])
        draw = random.Random(task)
        self.rooms = dict(zip(self.tunnels, draw.sample(self.treasures, 3)))
        self.wanted, self.place, self.steps = draw.choice(list(self.rooms.values())), "Hall", 0
        # `goal` stands in every prompt of the episode.
        return Observation(self.look(), self.commands(), {"goal": f"Take the {self.wanted}."})

    def look(self) -> str:
        if self.place == "Hall":
            return "You are in the Hall. Tunnels lead North, East and West."
        return f"You are in the {self.place} Tunnel. You see a {self.rooms[self.place]}."

    def commands(self) -> list[str]:
        """Any text can be a command: capitals, JSON, several lines."""
        if self.place == "Hall":
            return [f"Go {tunnel}" for tunnel in self.tunnels]
        return [f"Take the {self.rooms[self.place]}", "Go Back"]

    def step(self, action: str) -> Transition:
        """One action. What makes no sense is answered in words, never with an exception."""
        self.steps += 1
        known, text = action in self.commands(), "Nothing happens."
        taken = known and action.startswith("Take")
        won = taken and action == f"Take the {self.wanted}"
        if taken:
            text = "It is yours."
        elif known:
            self.place = "Hall" if action == "Go Back" else action.removeprefix("Go ")
            text = self.look()
        return Transition(
            text,
            reward=float(won),  # what training sees
            terminated=taken,  # the episode ended because of what happened in it
            truncated=not taken and self.steps >= 10,  # time ran out
            admissible=self.commands(),
            success=won,  # what evaluation reports
            score=float(won),
        )

    def close(self) -> None:
        """Release what the environment holds."""
