"""TextWorld's generated games: rooms, objects and quests, made from a seed and compiled once.

make("textworld", rooms=2, objects=4, quest=2)
"""

from __future__ import annotations

import functools
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ...errors import BadSetting, ResetNeeded
from ..contract import Observation, Transition
from .gold import GoldActor
from .packages import package
from .seeds import SeedTasks


class TextWorld:
    """TextWorld's generated games, made from a seed and compiled once (seconds a game).

    Args:
        rooms, objects, quest: how many rooms, objects, and commands of the quest.
        num_train, num_in_domain: how many games; a task is a seed.
        max_steps: steps after which an episode is truncated.
        folder: where compiled games are kept; `~/.cache/hgpo/textworld` when left out.
    """

    own_process = True
    """The interpreter of the games is a library of C: it is played in supervised worker processes."""
    splits: Sequence[str] = ("train", "in-domain")

    def __init__(
        self,
        *,
        rooms: int = 2,
        objects: int = 4,
        quest: int = 2,
        num_train: int = 30,
        num_in_domain: int = 10,
        max_steps: int = 30,
        folder: str | None = None,
    ) -> None:
        if min(rooms, objects, quest) < 1:
            raise BadSetting(f"rooms={rooms}, objects={objects}, quest={quest}: expected 1 or more of each.")
        package("textworld", "textworld")
        self.set = SeedTasks({"train": num_train, "in-domain": num_in_domain}, "textworld")
        self.sizes, self.max_steps = (rooms, objects, quest), max_steps
        self.folder = Path(folder or "~/.cache/hgpo/textworld").expanduser()
        self.env: Any = None
        self.playing: Path | None = None
        self.steps: int | None = None

    def tasks(self, split: str) -> Sequence[str]:
        """`<split>/<number>`."""
        return self.set.tasks(split)

    def _game(self, task: str) -> Path:
        """The compiled game of a task; made if it is not there."""
        import textworld

        rooms, objects, quest = self.sizes
        name = f"r{rooms}-o{objects}-q{quest}-s{self.set.seed(task)}"
        path = self.folder / name / "game.z8"
        if not path.exists():
            options = textworld.GameOptions()
            options.seeds, options.nb_rooms, options.nb_objects = self.set.seed(task), rooms, objects
            options.quest_length = quest
            # Compiled beside its place and then moved there: several workers may want the same game.
            partial = self.folder / f"{name}.{os.getpid()}"
            partial.mkdir(parents=True, exist_ok=True)
            options.path = str(partial / "game.z8")
            arguments = sys.argv
            try:
                textworld.make(options)
            finally:
                sys.argv = arguments
            if path.exists():
                for file in partial.iterdir():
                    file.unlink()
                partial.rmdir()
            else:
                partial.rename(path.parent)
        return path

    def _begin(self, task: str) -> Any:
        import textworld

        path = self._game(task)
        if path != self.playing:
            self.close()
            asked = textworld.EnvInfos(
                feedback=True,
                admissible_commands=True,
                policy_commands=True,
                objective=True,
                won=True,
                lost=True,
            )
            self.env, self.playing = textworld.start(str(path), asked), path
        return self.env.reset()

    def reset(self, task: str, *, seed: int | None = None) -> Observation:
        """Start the game of a seed; the task decides it alone."""
        state = self._begin(task)
        self.steps = 0
        return Observation(
            _told(state.feedback),
            list(state["admissible_commands"]),
            {"task": task, "goal": state["objective"]},
        )

    def step(self, action: str) -> Transition:
        """Do one command."""
        if self.steps is None:
            raise ResetNeeded(type(self).__name__)
        self.steps += 1
        state, _, _ = self.env.step(" ".join(action.split()) or "look")
        won, lost = bool(state["won"]), bool(state["lost"])
        return Transition(
            _told(state.feedback),
            reward=float(won),
            terminated=won or lost,
            truncated=self.steps >= self.max_steps and not (won or lost),
            admissible=list(state["admissible_commands"]),
            success=won,
            score=float(won),
        )

    def expert(self) -> GoldActor:
        """Plays the quest's own commands."""
        return GoldActor(functools.cache(self.solution))

    def solution(self, task: str) -> list[str]:
        """The commands of the quest; the game of that task starts anew."""
        return list(self._begin(task)["policy_commands"])

    def close(self) -> None:
        """Let the game go."""
        if self.env is not None:
            self.env.close()
            self.env, self.playing = None, None


def _told(feedback: str) -> str:
    """What the game says, without its banner, status line and prompt."""
    said = feedback.split("\n>")[0]
    # The banner is drawn with dollars; the objective comes after it.
    said = said[said.rfind("$$") + 2 :] if "$$" in said else said
    return "\n".join(line.rstrip() for line in said.splitlines() if re.search(r"\w", line)).strip()
