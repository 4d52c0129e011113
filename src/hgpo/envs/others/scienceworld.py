"""ScienceWorld: 30 science tasks with their official variations for training, development and test.

make("scienceworld", tasks=["find-plant"], simplifications="easy")
"""

from __future__ import annotations

import functools
import itertools
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
        list_commands: list the commands that work now: hundreds, at ten times the time of a step, and by names that the
            world draws anew each time, so an episode is not repeated word for word.
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
        list_commands: bool = False,
        max_steps: int = 100,
    ) -> None:
        package("scienceworld", "scienceworld")
        need_java("scienceworld")
        self.names = tuple(task_names) if task_names is not None else None
        self.simplifications, self.count, self.max_steps = simplifications, num_variations, max_steps
        self.list_commands = list_commands
        self.steps: int | None = None
        self.score = 0
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

    def _begin(self, task: str, *, gold: bool = False) -> None:
        split, name, number = (*task.split("/"), "", "")[:3]
        known = self.names or tuple(self.engine.get_task_names())
        if split not in SPLITS or name not in known or not (number.isascii() and number.isdigit()):
            raise UnknownTask(task, "scienceworld", SPLITS, f"train/{known[0]}/0")
        if int(number) not in self._variations(name, split):
            raise UnknownTask(task, "scienceworld", SPLITS, f"train/{known[0]}/0")
        self._load(name, int(number), gold=gold)

    def reset(self, task: str, *, seed: int | None = None) -> Observation:
        """Start a variation; the task decides it alone."""
        self._begin(task)
        self.steps, self.score = 0, 0
        # The engine's own reset and step look for all commands that work, whether they are wanted or not.
        self.engine.server.reset()
        text = self.engine.server.step("look around")
        goal = self.engine.get_task_description().removeprefix("Task Description:").strip()
        said = {"task": task, "goal": goal, "task_type": task.split("/")[1]}
        return Observation(ordered(text), self._commands(), said)

    def _commands(self) -> list[str]:
        if not self.list_commands:
            return []
        return sorted(self.engine.get_valid_action_object_combinations())

    def step(self, action: str) -> Transition:
        """Do one command."""
        if self.steps is None:
            raise ResetNeeded(type(self).__name__)
        self.steps += 1
        text = self.engine.server.step(" ".join(action.split()) or "look around")
        before, self.score = self.score, round(100 * self.engine.server.getScore())
        # A score below zero is the world's way to say that the task can no longer be done.
        done = bool(self.engine.server.getCompleted()) or self.score < 0
        return Transition(
            ordered(text),
            reward=(self.score - before) / 100,
            terminated=done,
            truncated=self.steps >= self.max_steps and not done,
            admissible=self._commands(),
            success=self.score >= 100,
            score=min(1.0, max(0.0, self.score / 100)),
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


def ordered(text: str) -> str:
    """A text with the things of each list in order of the alphabet: the world lists them in any order, each time anew.

    >>> ordered("You see:\\n\\ta pot\\n\\ta cup\\nA door.").splitlines()
    ['You see:', '\\ta cup', '\\ta pot', 'A door.']
    """
    lines: list[str] = []
    for indented, group in itertools.groupby(text.strip().splitlines(), lambda line: line.startswith("\t")):
        block = list(group)
        lines += sorted(block) if indented else block
    return "\n".join(lines)
