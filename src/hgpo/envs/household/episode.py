"""One household episode at a time: what generated houses and official games have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from ...errors import BadSetting, ResetNeeded
from ..contract import Observation, Transition
from .house import House
from .world import World


class HouseEnv(ABC):
    """A `TextEnv` over houses; a subclass says which houses there are.

    The reward is `win_reward` at the step that solves the task and 0 otherwise (10 in the published runs).
    An episode is truncated after `max_steps` steps. The world keeps answering after that and after a win,
    as the official game does, with `terminated` and `truncated` as they were.
    """

    def __init__(self, *, max_steps: int = 50, win_reward: float = 10.0) -> None:
        if max_steps < 1:
            raise BadSetting(f"max_steps is {max_steps}; expected at least 1.")
        self.max_steps = max_steps
        self.win_reward = win_reward
        self.world: World | None = None
        self._steps = 0
        self._terminated = False

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
        self.world = World(house)
        self._steps = 0
        self._terminated = self.world.won()
        info = {"task": task, "task_type": house.goal.task_type, "goal": house.task}
        return Observation(self.world.intro(), self.world.admissible(), info)

    def step(self, action: str) -> Transition:
        """Do one command. One that is not admissible is answered with "Nothing happens."."""
        world = self.world
        if world is None:
            raise ResetNeeded(type(self).__name__)
        text = world.act(action)
        won = world.won()
        self._steps += 1
        first_win = won and not self._terminated
        self._terminated |= won
        return Transition(
            text=text,
            reward=self.win_reward if first_win else 0.0,
            terminated=self._terminated,
            truncated=self._steps >= self.max_steps and not self._terminated,
            admissible=world.admissible(),
            success=won,
            score=float(won),
        )

    def close(self) -> None:
        """Forget the episode."""
        self.world = None
