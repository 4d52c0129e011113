"""TextWorldExpress: eight fast text games (cooking, coin, map reading, ...), with its own splits and gold paths.

make("textworld-express", game="coin", params="numLocations=3,includeDoors=0,numDistractorItems=0")
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from ...errors import BadSetting, ResetNeeded, UnknownName, UnknownTask
from ..contract import Observation, Transition
from .gold import GoldActor
from .packages import need_java, package

GAMES = ("cookingworld", "twc", "coin", "mapreader", "arithmetic", "sorting", "simonsays", "peckingorder")
FOLDS = {"train": 0, "dev": 10_000, "test": 20_000}
"""The splits of the games and their first seeds; each has a thousand."""
SEEDS = 1000


class TextWorldExpress:
    """TextWorldExpress: eight fast text games with gold paths (Java).

    Args:
        game: one of cookingworld, twc, coin, mapreader, arithmetic, sorting, simonsays, peckingorder.
        params: the game's parameters as TextWorldExpress writes them (`numLocations=3,includeDoors=0`).
        num_tasks: so many tasks of each split are listed, at most 1000.
        max_steps: steps after which an episode is truncated.
    """

    own_process = True
    """Every copy starts Java: it is played in supervised worker processes, and few of them."""
    splits: Sequence[str] = tuple(FOLDS)

    def __init__(
        self, game: str = "coin", *, params: str = "", num_tasks: int = 200, max_steps: int = 50
    ) -> None:
        if game not in GAMES:
            raise UnknownName("game", game, GAMES)
        if not 1 <= num_tasks <= SEEDS:
            raise BadSetting(f"num_tasks is {num_tasks}; expected from 1 to {SEEDS}.")
        package("textworld_express", "textworld-express")
        need_java("textworld-express")
        self.game, self.params, self.count, self.max_steps = game, params, num_tasks, max_steps
        self.steps: int | None = None

    @functools.cached_property
    def engine(self) -> Any:
        """The game in Java, started when it is first needed."""
        engine = package("textworld_express", "textworld-express").TextWorldExpressEnv(envStepLimit=10**6)
        engine.load(gameName=self.game, gameParams=self.params)
        return engine

    def tasks(self, split: str) -> Sequence[str]:
        """`<split>/<seed>`."""
        if split not in FOLDS:
            raise UnknownName("split", split, FOLDS)
        return [f"{split}/{FOLDS[split] + number}" for number in range(self.count)]

    def _begin(self, task: str, *, gold: bool = False) -> tuple[str, dict[str, Any]]:
        fold, _, seed = task.partition("/")
        number = int(seed) if seed.isascii() and seed.isdigit() else -1
        if fold not in FOLDS or not FOLDS[fold] <= number < FOLDS[fold] + SEEDS:
            raise UnknownTask(task, f"textworld-express {self.game}", self.splits, "train/0")
        text, info = self.engine.reset(seed=number, gameFold=fold, generateGoldPath=gold)
        if text.startswith("ERROR") or "validActions" not in info:
            raise BadSetting(f"TextWorldExpress cannot make {self.game} with params={self.params!r}: {text}")
        return text, info

    def reset(self, task: str, *, seed: int | None = None) -> Observation:
        """Start the game of a seed; the task decides it alone."""
        text, info = self._begin(task)
        self.steps = 0
        said = {"task": task, "goal": info["taskDescription"].strip(), "task_type": self.game}
        return Observation(text.strip(), sorted(info["validActions"]), said)

    def step(self, action: str) -> Transition:
        """Do one command."""
        if self.steps is None:
            raise ResetNeeded(type(self).__name__)
        self.steps += 1
        # A line end would end the command that Java reads.
        text, reward, _, info = self.engine.step(" ".join(action.split()) or "look around")
        won, lost = bool(info["tasksuccess"]), bool(info["taskfailure"])
        return Transition(
            text.strip(),
            reward=float(reward),
            terminated=won or lost,
            truncated=self.steps >= self.max_steps and not (won or lost),
            admissible=sorted(info["validActions"]),
            success=won,
            score=min(1.0, max(0.0, float(info["score"]))),
        )

    def expert(self) -> GoldActor:
        """Plays the game's gold path."""
        return GoldActor(functools.cache(self.solution))

    def solution(self, task: str) -> list[str]:
        """The gold path of a task; the game of that task starts anew."""
        self._begin(task, gold=True)
        return [str(action) for action in self.engine.getGoldActionSequence()]

    def close(self) -> None:
        """End Java."""
        if "engine" in self.__dict__:
            self.engine.close()
            del self.__dict__["engine"]
