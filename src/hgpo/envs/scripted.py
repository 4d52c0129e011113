"""Policies that need no model: random, replay, expert.

They test an environment, set the floor and the ceiling of a benchmark, and the expert gives a warm start
something to imitate. One small interface for all:

    policy = scripted("expert")
    seen = env.reset(task)
    policy.reset(seen)
    while not getattr(seen, "done", False):
        seen = env.step(policy.act(seen))
"""

from __future__ import annotations

import importlib
import random
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from ..errors import BadSetting, UnknownName
from .contract import Observation, Transition


class ScriptedPolicy(ABC):
    """Chooses actions from what the agent sees: the texts and the admissible actions, nothing else."""

    @abstractmethod
    def reset(self, observation: Observation) -> None:
        """Begin an episode that opens with `observation`."""

    @abstractmethod
    def act(self, seen: Observation | Transition) -> str:
        """The next action, given the latest thing seen (first the observation given to `reset`)."""


class RandomPolicy(ScriptedPolicy):
    """Any admissible action with equal chance; the seed and the number of the episode decide the draws."""

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed
        self.episode = -1
        self.rng = random.Random(seed)

    def reset(self, observation: Observation) -> None:
        self.episode += 1
        self.rng = random.Random(f"{self.seed} {self.episode}")

    def act(self, seen: Observation | Transition) -> str:
        if not seen.admissible:
            raise BadSetting(
                "The random policy chooses among admissible actions, but the environment lists none. "
                "Fill `admissible` in its observations, or use another policy."
            )
        return seen.admissible[int(self.rng.random() * len(seen.admissible))]


class ReplayPolicy(ScriptedPolicy):
    """Repeats a given list of actions in every episode; the last one again and again once it is used up."""

    def __init__(self, actions: Sequence[str]) -> None:
        if not actions:
            raise BadSetting("A replay needs at least one action, but the list is empty.")
        self.actions = tuple(actions)
        self.step = 0

    def reset(self, observation: Observation) -> None:
        self.step = 0

    def act(self, seen: Observation | Transition) -> str:
        action = self.actions[min(self.step, len(self.actions) - 1)]
        self.step += 1
        return action


# What an episode opens with -> the expert that understands it.
EXPERTS: dict[str, str] = {
    "Your task is to: ": "hgpo.envs.household.expert:HouseholdExpert",
    "Instruction:": "hgpo.envs.webshop.shopper:Shopper",
}


class ExpertPolicy(ScriptedPolicy):
    """The honest expert of whatever environment it finds itself in: the household world or the shop."""

    def __init__(self) -> None:
        self.expert: Any = None

    def reset(self, observation: Observation) -> None:
        for mark, where in EXPERTS.items():
            if mark in observation.text:
                module, _, name = where.partition(":")
                self.expert = getattr(importlib.import_module(module), name)()
                self.expert.reset(observation)
                return
        raise BadSetting(
            f"No expert understands an episode that opens with {observation.text[:60]!r}. There are experts for "
            "the environments household, alfworld, shop and webshop."
        )

    def act(self, seen: Observation | Transition) -> str:
        return str(self.expert.act(seen))

    def slipped(self, action: str) -> None:
        """Pass on that `action` was done in place of what `act` named, to an expert that can use it."""
        if hasattr(self.expert, "slipped"):
            self.expert.slipped(action)


def scripted(name: str, *, seed: int = 0, actions: Sequence[str] = ()) -> ScriptedPolicy:
    """The scripted policy called `name`: `random` (uses `seed`), `expert`, `replay` (uses `actions`)."""
    if name == "random":
        return RandomPolicy(seed)
    if name == "replay":
        return ReplayPolicy(actions)
    if name == "expert":
        return ExpertPolicy()
    raise UnknownName("scripted policy", name, ["random", "expert", "replay"])
