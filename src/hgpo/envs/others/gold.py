"""Experts that know the solution: they play a list of actions that the world itself says solves the task."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...errors import BadSetting
from ..contract import Observation, Transition


class GoldActor:
    """Plays the solution of its task, whatever it sees; the last action again once it is used up.

    Args:
        solution: the actions that solve a task, by its id.
    """

    by_heart = True
    """It cannot recover from a mistake."""

    def __init__(self, solution: Callable[[str], Sequence[str]]) -> None:
        self.solution = solution
        self.actions: Sequence[str] = ()
        self.step = 0

    def reset(self, observation: Observation) -> None:
        """Look the solution up; `info` of the first observation names the task."""
        task = str(observation.info.get("task") or "")
        self.actions, self.step = self.solution(task), 0
        if not self.actions:
            raise BadSetting(f"There is no solution of the task {task!r} to play.")

    def act(self, seen: Observation | Transition) -> str:
        """The next action of the solution."""
        action = self.actions[min(self.step, len(self.actions) - 1)]
        self.step += 1
        return action
