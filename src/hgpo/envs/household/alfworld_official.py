"""The official ALFWorld engine behind our contract: `make("alfworld", data=PATH, engine="official")`.

Slow (about a second a reset, a tenth of a second a step) and one process an environment; it is the judge of
what the native engine must say. Needs the extra `alfworld`.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ...errors import MissingExtra, ResetNeeded
from ..contract import Observation, Transition
from ..prompt import Situation
from ..supervised import SupervisedEnv
from .alfworld import AlfworldEnv, GameSet
from .episode import EpisodeRules
from .expert import HouseholdExpert
from .prompt import lasting_first


def supervised(
    data: str | os.PathLike[str] | None,
    *,
    task_types: Iterable[str] | None,
    validation_rooms: int,
    max_steps: int,
    win_reward: float,
    step_timeout: float,
    python: str | None = None,
) -> SupervisedEnv:
    """The official engine in a supervised worker process."""
    games = GameSet(data, task_types, validation_rooms)  # Here, so that a wrong path is told at once.
    if python is None:
        _need_packages()
    settings = {
        "data": str(games.games.path),
        "task_types": games.task_types,
        "validation_rooms": validation_rooms,
        "max_steps": max_steps,
        "win_reward": win_reward,
    }
    factory = f"{__name__}:OfficialEnv"
    # The engine's C library keeps what it loads; a new process now and then keeps memory flat.
    return OfficialGames(factory, settings, step_timeout=step_timeout, recycle_after=200, python=python)


class OfficialGames(SupervisedEnv):
    """The official engine in its worker; the expert stays in this process."""

    world_version: int = AlfworldEnv.world_version
    """The native engine's: both give the same answers."""

    action_form: str = "lower"
    """The game knows lower-case commands of one line."""

    def expert(self) -> HouseholdExpert:
        """A fresh expert."""
        return HouseholdExpert()

    def prompt(self, situation: Situation) -> str:
        """The style `env`; see `lasting_first`."""
        return lasting_first(situation)


def _need_packages() -> None:
    for package in ("textworld", "alfworld"):
        if importlib.util.find_spec(package) is None:
            raise MissingExtra(package, "alfworld", "The official ALFWorld engine")


class OfficialEnv:
    """Official games in the official engine, in this process."""

    action_form: str = "lower"
    """The game knows lower-case commands of one line."""

    def __init__(
        self,
        data: str | os.PathLike[str] | None = None,
        *,
        task_types: Iterable[str] | None = None,
        validation_rooms: int = 0,
        max_steps: int = 50,
        win_reward: float = 10.0,
    ) -> None:
        _need_packages()
        self.set = GameSet(data, task_types, validation_rooms)
        self.rules = EpisodeRules(max_steps, win_reward)
        self.engine: Any = None

    @property
    def splits(self) -> Sequence[str]:
        """The splits that have games."""
        return self.set.splits

    def tasks(self, split: str) -> Sequence[str]:
        """The sorted task ids of a split."""
        return self.set.tasks(split)

    def reset(self, task: str, *, seed: int | None = None) -> Observation:
        """Load a game and start it."""
        self.set.check(task)
        game = self.set.games.game(task)
        with _own_arguments():
            from alfworld.agents.environment.alfred_tw_env import AlfredDemangler
            from textworld import EnvInfos
            from textworld.envs import PddlEnv

            self.close()
            self.engine = AlfredDemangler(
                PddlEnv(EnvInfos(won=True, admissible_commands=True)), shuffle=False
            )
            self.engine.load(
                {"pddl_domain": game.domain, "grammar": game.grammar, "pddl_problem": game.problem}
            )
            state = self.engine.reset()
        self.rules.begin(bool(state["won"]))
        kind = task.split("/")[1].split("-")[0]
        admissible = list(state["admissible_commands"])
        info = {"task": task, "task_type": kind, "goal": game.task, **self.rules.state(admissible)}
        return Observation(state.feedback, admissible, info)

    def step(self, action: str) -> Transition:
        """Do one command."""
        if self.engine is None:
            raise ResetNeeded(type(self).__name__)
        with _own_arguments():
            state, _, _ = self.engine.step(action)
        return self.rules.after(state.feedback, list(state["admissible_commands"]), bool(state["won"]))

    def close(self) -> None:
        """Let the engine go."""
        if self.engine is not None:
            self.engine.close()
        self.engine = None


@contextlib.contextmanager
def _own_arguments() -> Iterator[None]:
    """Keep sys.argv: the planner's library overwrites it."""
    arguments = list(sys.argv)
    try:
        yield
    finally:
        sys.argv[:] = arguments
