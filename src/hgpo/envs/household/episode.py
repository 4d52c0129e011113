"""One household episode at a time: what generated houses and official games have in common."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Sequence

from ...errors import BadSetting, ResetNeeded
from ..contract import Observation, Transition
from ..prompt import Situation
from .count import Count, state_key
from .expert import HouseholdExpert
from .house import House
from .prompt import lasting_first
from .simulation import Simulation


class EpisodeRules:
    """Turns what a household game says into transitions: the reward, the end, the step limit.

    `status` in their info is what an agent that keeps count knows of itself, and `state_key` says by what it did and
    by what can be done where it stands which state it is in (`count.py`).

    The reward is `win_reward` at the step that solves the task and 0 otherwise (10 in the published runs).
    An episode is truncated after `max_steps` steps. The game keeps answering after that and after a win, as
    the official one does; `terminated` stays and no second reward is given.
    """

    __slots__ = ("count", "max_steps", "steps", "terminated", "win_reward")

    def __init__(self, max_steps: int, win_reward: float) -> None:
        if max_steps < 1:
            raise BadSetting(f"max_steps is {max_steps}; expected at least 1.")
        self.max_steps = max_steps
        self.win_reward = win_reward
        self.begin(False)

    def begin(self, won: bool) -> None:
        """A new episode, already `won` or not."""
        self.steps = 0
        self.terminated = won
        self.count = Count()

    def state(self, admissible: Sequence[str]) -> dict[str, str]:
        """What the agent knows of itself and which state it is in, for the info of an observation."""
        return {"status": self.count.words(), "state_key": state_key(admissible, self.count.deeds())}

    def after(self, text: str, admissible: list[str], won: bool) -> Transition:
        """The transition of a step that was answered with `text`."""
        self.steps += 1
        self.count = self.count.after(text)
        first_win = won and not self.terminated
        self.terminated = self.terminated or won
        return Transition(
            text=text,
            reward=self.win_reward if first_win else 0.0,
            terminated=self.terminated,
            truncated=self.steps >= self.max_steps and not self.terminated,
            admissible=admissible,
            success=won,
            score=1.0 if won else 0.0,
            info=self.state(admissible),
        )


class HouseEnv(ABC):
    """A `TextEnv` over houses in the native engine; a subclass says which houses there are."""

    action_form = "lower"
    """The game knows lower-case commands of one line."""

    def __init__(self, *, max_steps: int = 50, win_reward: float = 10.0) -> None:
        self.rules = EpisodeRules(max_steps, win_reward)
        self.simulation: Simulation | None = None

    @property
    def max_steps(self) -> int:
        """Steps after which an episode is truncated."""
        return self.rules.max_steps

    @property
    @abstractmethod
    def splits(self) -> Sequence[str]:
        """Names of the task sets."""

    @abstractmethod
    def tasks(self, split: str) -> Sequence[str]:
        """The task ids of a split, always in the same order."""

    @abstractmethod
    def house(self, task: str) -> House:
        """The house that `task` names."""

    def reset(self, task: str, *, seed: int | None = None) -> Observation:
        """Start the episode of `task`. Nothing here is random, so the seed changes nothing."""
        house = self.house(task)
        self.simulation = Simulation(house)
        self.rules.begin(self.simulation.won())
        admissible = self.simulation.admissible()
        info = {"task": task, "task_type": house.goal.task_type, "goal": house.task}
        return Observation(self.simulation.intro(), admissible, {**info, **self.rules.state(admissible)})

    def step(self, action: str) -> Transition:
        """Do one command. One that is not admissible is answered with "Nothing happens."."""
        simulation = self.simulation
        if simulation is None:
            raise ResetNeeded(type(self).__name__)
        text = simulation.act(action)
        return self.rules.after(text, simulation.admissible(), simulation.won())

    def expert(self) -> HouseholdExpert:
        """A fresh expert; it knows the texts only, not this environment."""
        return HouseholdExpert()

    def prompt(self, situation: Situation) -> str:
        """The style `env`; see `lasting_first`."""
        return lasting_first(situation)

    def clone(self) -> HouseEnv:
        """An independent copy in the middle of the same episode; houses and games are shared."""
        other = copy.copy(self)
        other.rules = copy.copy(self.rules)
        other.simulation = None if self.simulation is None else self.simulation.clone()
        return other

    def close(self) -> None:
        """Forget the episode."""
        self.simulation = None
