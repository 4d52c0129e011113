"""ScienceWorld: 30 science tasks with their official variations for training, development and test.

make("scienceworld", tasks=["find-plant"], simplifications="easy")
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import Any

from ...errors import ResetNeeded, UnknownName, UnknownTask
from ..contract import Observation, Transition
from .gold import GoldActor
from .packages import need_java, package

SPLITS = ("train", "dev", "test")


class ScienceWorld:
    """ScienceWorld: 30 science tasks with gold paths, scored from 0 to 100 (Java).

    Args:
        task_names: the tasks by their official names (`boil`, `find-plant`, ...); all 30 when left out.
        simplifications: as ScienceWorld writes them: `easy`, or for example `teleportAction,openDoors`.
        num_variations: so many variations of each task and split are listed; 0 lists all.
        max_steps: steps after which an episode is truncated.
    """

    own_process = True
    """Every copy starts Java: it is played in supervised worker processes, and few of them."""
    splits: Sequence[str] = SPLITS

    def __init__(
        self,
        task_names: Iterable[str] | None = None,
        *,
        simplifications: str = "easy",
        num_variations: int = 0,
        max_steps: int = 100,
    ) -> None:
        package("scienceworld", "scienceworld")
        need_java("scienceworld")
        self.names = tuple(task_names) if task_names is not None else None
        self.simplifications, self.count, self.max_steps = simplifications, num_variations, max_steps
        self.steps: int | None = None
        self.loaded = ("", -1, False)

    @functools.cached_property
    def engine(self) -> Any:
        """The world in Java, started when it is first needed."""
        engine = package("scienceworld", "scienceworld").ScienceWorldEnv("", envStepLimit=10**6)
        known = list(engine.get_task_names())
        for name in self.names or ():
            if name not in known:
                engine.close()
                raise UnknownName("ScienceWorld task", name, known)
        return engine

    @functools.cache  # noqa: B019 - an environment lives as long as its process
    def _variations(self, name: str, split: str) -> tuple[int, ...]:
        self._load(name, 0)
        numbers = getattr(self.engine, f"get_variations_{split}")()
        return tuple(int(number) for number in numbers)

    def _load(self, name: str, variation: int, *, gold: bool = False) -> None:
        if self.loaded != (name, variation, gold):
            self.engine.load(name, variation, self.simplifications, generateGoldPath=gold)
            self.loaded = (name, variation, gold)

    def tasks(self, split: str) -> Sequence[str]:
        """`<split>/<task>/<variation>`; the variations of each split are the official ones."""
        if split not in SPLITS:
            raise UnknownName("split", split, SPLITS)
        names = self.names or tuple(self.engine.get_task_names())
        return [
            f"{split}/{name}/{number}"
            for name in names
            for number in self._variations(name, split)[: self.count or None]
        ]

    def _begin(self, task: str, *, gold: bool = False) -> tuple[str, dict[str, Any]]:
        split, name, number = (*task.split("/"), "", "")[:3]
        known = self.names or tuple(self.engine.get_task_names())
        if split not in SPLITS or name not in known or not (number.isascii() and number.isdigit()):
            raise UnknownTask(task, "scienceworld", SPLITS, f"train/{known[0]}/0")
        if int(number) not in self._variations(name, split):
            raise UnknownTask(task, "scienceworld", SPLITS, f"train/{known[0]}/0")
        self._load(name, int(number), gold=gold)
        text, info = self.engine.reset()
        return text, info

    def reset(self, task: str, *, seed: int | None = None) -> Observation:
        """Start a variation; the task decides it alone."""
        text, info = self._begin(task)
        self.steps = 0
        goal = info["taskDesc"].removeprefix("Task Description:").strip()
        return Observation(
            text.strip(), sorted(info["valid"]), {"task": task, "goal": goal, "task_type": info["taskName"]}
        )

    def step(self, action: str) -> Transition:
        """Do one command."""
        if self.steps is None:
            raise ResetNeeded(type(self).__name__)
        self.steps += 1
        text, reward, done, info = self.engine.step(" ".join(action.split()) or "look around")
        score = float(info["score"])
        return Transition(
            text.strip(),
            reward=float(reward) / 100,
            terminated=bool(done),
            truncated=self.steps >= self.max_steps and not done,
            admissible=sorted(info["valid"]),
            success=score >= 100,
            score=min(1.0, max(0.0, score / 100)),
        )

    def expert(self) -> GoldActor:
        """Plays the gold path."""
        return GoldActor(functools.cache(self.solution))

    def solution(self, task: str) -> list[str]:
        """The gold path of a task; its variation starts anew."""
        self._begin(task, gold=True)
        return [str(action) for action in self.engine.get_gold_action_sequence()]

    def close(self) -> None:
        """End Java."""
        if "engine" in self.__dict__:
            self.engine.close()
            del self.__dict__["engine"]
