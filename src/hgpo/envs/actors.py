"""Actors: programs that play an episode without a model (random, replay, an environment's own expert).

They test an environment, set the floor and the ceiling of a benchmark, and the expert gives a warm start
something to imitate. One small interface for all:

    actor = expert(env)
    seen = env.reset(task)
    actor.reset(seen)
    while not getattr(seen, "done", False):
        seen = env.step(actor.act(seen))
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from ..errors import BadSetting, UnknownName
from ..seeds import generator
from .contract import Observation, TextEnv, Transition


class Actor(Protocol):
    """Chooses actions from what the agent sees: the texts and the admissible actions, nothing else.

    An actor may have a third method, `slipped(action)`: it is told when `action` was done in place of what `act`
    named last. An attribute `by_heart` that is true says that it plays a list, which such a slip would spoil.
    """

    def reset(self, observation: Observation) -> None:
        """Begin an episode that opens with `observation`."""
        ...

    def act(self, seen: Observation | Transition) -> str:
        """The next action, given the latest thing seen (first the observation given to `reset`)."""
        ...


class RandomActor:
    """Any admissible action with equal chance; seed, opening text and number of the step decide the draw.

    Args:
        seed: another seed gives other draws.
        otherwise: the action where the environment lists none; without one that is an error.
    """

    def __init__(self, seed: int = 0, otherwise: str = "") -> None:
        self.seed, self.otherwise = seed, otherwise
        self.count, self.start = 0, ""

    def reset(self, observation: Observation) -> None:
        """Begin an episode; equal openings lead to equal draws."""
        self.count, self.start = 0, observation.text

    def act(self, seen: Observation | Transition) -> str:
        """One of the admissible actions."""
        self.count += 1
        if not seen.admissible:
            if self.otherwise:
                return self.otherwise
            raise BadSetting(
                "The random actor chooses among admissible actions, but the environment lists none. "
                "Fill `admissible` in its observations, or use another policy."
            )
        random = generator("random actor", self.seed, self.start, self.count)
        return seen.admissible[int(random.integers(len(seen.admissible)))]


_PIECES = re.compile(
    r"""["'`]([^"'`\n]{1,80})["'`]|(?<=[\n:,;])\s*(?:[-*]\s+)?([^\n:,;]{1,80})(?=[\n,;.]|$)"""
)


def explored(texts: Sequence[str], admissible: Sequence[str], random: np.random.Generator) -> str:
    """A command worth trying: an admissible one, its `...` filled, or a piece of what was read where none is listed.

    Pieces are what stands in quotes, lines, items of lists, and runs of one to four words.

    >>> from hgpo.seeds import generator
    >>> explored(["A lamp."], ["search[...]"], generator("docs", 1))[:7]
    'search['
    """

    def one(choices: Sequence[str]) -> str:
        return choices[int(random.integers(len(choices)))]

    def words() -> str:
        text = one(texts).split() or ["look"]
        length = int(random.integers(1, min(4, len(text)) + 1))
        start = int(random.integers(len(text) - length + 1))
        return " ".join(text[start : start + length])

    if admissible:
        head, dots, tail = one(admissible).partition("...")
        return f"{head}{words()}{tail}" if dots else head
    pieces = [(match[1] or match[2]).strip() for text in texts for match in _PIECES.finditer(text)]
    pieces = [piece for piece in pieces if piece]
    return one(pieces) if pieces and random.random() < 0.7 else words()


class ReplayActor:
    """Repeats a given list of actions in every episode; the last one again and again once it is used up."""

    def __init__(self, actions: Sequence[str]) -> None:
        if not actions:
            raise BadSetting("A replay needs at least one action, but the list is empty.")
        self.actions = tuple(actions)
        self.step = 0

    def reset(self, observation: Observation) -> None:
        """Begin again with the first action."""
        self.step = 0

    def act(self, seen: Observation | Transition) -> str:
        """The next action of the list, whatever is seen."""
        action = self.actions[min(self.step, len(self.actions) - 1)]
        self.step += 1
        return action


def expert(env: TextEnv) -> Actor:
    """A fresh expert of this environment, from its own method `expert()`."""
    make = getattr(env, "expert", None)
    if not callable(make):
        raise BadSetting(
            f"{type(env).__name__} has no expert. Give it a method `expert()` that returns an object with "
            "reset(observation) and act(seen), or play without one: choose another policy, or train with "
            "warm.episodes=0 and model=PATH."
        )
    made: Actor = make()
    return made


def actor(name: str, env: TextEnv, *, seed: int = 0) -> Actor:
    """The actor called `name` for `env`: `random` (uses `seed`) or `expert`."""
    if name == "random":
        return RandomActor(seed)
    if name == "expert":
        return expert(env)
    raise UnknownName("scripted policy", name, ["random", "expert"])
