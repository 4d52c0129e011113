"""BabyAI's levels of Minigrid in words: what the agent sees before it, relative to where it stands and looks.

make("babyai", level="GoToRedBallGrey-v0")
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from ...errors import BadSetting, ResetNeeded
from ..contract import Observation, Transition
from .gold import GoldActor
from .packages import package
from .seeds import SeedTasks

ACTIONS = ("turn left", "turn right", "go forward", "pick up", "drop", "toggle")
"""The names of Minigrid's actions 0 to 5; `done` (6) does nothing in BabyAI."""


class BabyAI:
    """Minigrid's BabyAI levels with a text view of the grid and the level's own bot as expert.

    Args:
        level: the level's id without `BabyAI-`, for example `GoToLocal-v0`.
        num_train, num_in_domain: how many tasks; a task is a seed of the level.
        max_steps: steps after which an episode is truncated; the level's own limit when left out.
    """

    def __init__(
        self,
        level: str = "GoToRedBallGrey-v0",
        *,
        num_train: int = 500,
        num_in_domain: int = 100,
        max_steps: int | None = None,
    ) -> None:
        package("minigrid", "babyai")
        gymnasium = package("gymnasium", "babyai")
        self.set = SeedTasks({"train": num_train, "in-domain": num_in_domain}, f"babyai {level}")
        self.level, self.kind = f"BabyAI-{level}", level.partition("-")[0]
        try:
            self.env = gymnasium.make(self.level, **({"max_steps": max_steps} if max_steps else {}))
        except gymnasium.error.Error as error:
            raise BadSetting(f"There is no level {self.level} in Minigrid: {error}") from error
        self.seen: Any = None

    @property
    def splits(self) -> Sequence[str]:
        """`train` and `in-domain`: other seeds of the level."""
        return tuple(self.set.counts)

    def tasks(self, split: str) -> Sequence[str]:
        """`<split>/<number>`."""
        return self.set.tasks(split)

    def reset(self, task: str, *, seed: int | None = None) -> Observation:
        """Start the episode of a seed; the task decides it alone."""
        self.seen, _ = self.env.reset(seed=self.set.seed(task))
        info = {"task": task, "goal": self.seen["mission"], "task_type": self.kind}
        return Observation(self._text(), ACTIONS, info)

    def step(self, action: str) -> Transition:
        """Do one action; one that is none of the names changes nothing."""
        if self.seen is None:
            raise ResetNeeded(type(self).__name__)
        if action not in ACTIONS:
            # It takes a step all the same: `done` does nothing.
            self.seen, reward, terminated, truncated, _ = self.env.step(6)
            text = "Nothing happens."
        else:
            self.seen, reward, terminated, truncated, _ = self.env.step(ACTIONS.index(action))
            text = self._text()
        won = bool(terminated) and float(reward) > 0
        return Transition(
            text,
            reward=float(reward),
            terminated=bool(terminated),
            truncated=bool(truncated) and not terminated,
            admissible=ACTIONS,
            success=won,
            score=float(won),
        )

    def close(self) -> None:
        """Close the environment."""
        self.env.close()

    def _text(self) -> str:
        held = self.env.unwrapped.carrying
        return view(self.seen["image"]) + (f" You hold a {held.color} {held.type}." if held else "")

    def expert(self) -> GoldActor:
        """Plays what the level's bot does."""
        return GoldActor(functools.cache(self.solution))

    def solution(self, task: str) -> list[str]:
        """The actions of the level's bot, played in a copy of the level."""
        gymnasium = package("gymnasium", "babyai")
        bots = package("minigrid.utils.baby_ai_bot", "babyai")
        env = gymnasium.make(self.level)
        env.reset(seed=self.set.seed(task))
        bot, actions, last, done = bots.BabyAIBot(env.unwrapped), list[str](), None, False
        while not done:
            last = bot.replan(last)
            if last is None or int(last) >= len(ACTIONS):
                break
            actions.append(ACTIONS[int(last)])
            _, _, terminated, truncated, _ = env.step(int(last))
            done = terminated or truncated
        env.close()
        return actions


@functools.cache
def _names() -> tuple[dict[int, str], dict[int, str], dict[int, str]]:
    constants = package("minigrid.core.constants", "babyai")
    return constants.IDX_TO_OBJECT, constants.IDX_TO_COLOR, {v: k for k, v in constants.STATE_TO_IDX.items()}


def view(image: Any) -> str:
    """An egocentric view [columns, rows, (object, colour, state)] in words; the agent stands in the last row, middle.

    Things are listed from near to far, and the wall straight ahead with its distance.
    """
    objects, colours, states = _names()
    width, height = image.shape[:2]
    things = []
    for column in range(width):
        for row in range(height):
            kind = objects[int(image[column, row, 0])]
            if kind in ("unseen", "empty", "wall", "floor", "agent"):
                continue
            forward, side = height - 1 - row, column - width // 2
            state = f"{states[int(image[column, row, 2])]} " if kind == "door" else ""
            name = f"a {state}{colours[int(image[column, row, 1])]} {kind}"
            where = [f"{forward} forward"] if forward else []
            where += [f"{abs(side)} {'right' if side > 0 else 'left'}"] if side else []
            things.append((forward + abs(side), f"{name} {' and '.join(where) or 'here'}"))
    ahead = next(
        (
            step
            for step in range(1, height)
            if objects[int(image[width // 2, height - 1 - step, 0])] == "wall"
        ),
        0,
    )
    seen = [text for _, text in sorted(things)] + ([f"a wall {ahead} forward"] if ahead else [])
    return f"You see {', '.join(seen)}." if seen else "You see nothing."
