"""Any Gymnasium environment that speaks: with text observations, or with `render_mode="ansi"`.

    make("gym", id="FrozenLake-v1", options={"is_slippery": False})
    make("gym", id="Taxi-v4")

A coloured letter of a rendered picture, which is where the agent stands, is written in brackets with its colour.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ...errors import BadSetting, ResetNeeded
from ..contract import Observation, Transition
from .packages import package
from .seeds import SeedTasks

ACTIONS: Mapping[str, Sequence[str]] = {
    "FrozenLake": ("left", "down", "right", "up"),
    "Taxi": ("south", "north", "east", "west", "pickup", "dropoff"),
    "CliffWalking": ("up", "right", "down", "left"),
}
"""What the numbered actions of environments mean, where their documentation says so."""

_COLOURED = re.compile(r"\x1b\[([0-9;]*)m(.*?)\x1b\[0m", re.DOTALL)
_ESCAPE = re.compile(r"\x1b\[[0-9;]*m")
_COLOURS = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")


def readable(picture: str) -> str:
    """A rendered picture without terminal codes; what was coloured is written as `[letter colour]`.

    >>> readable("\\x1b[41mS\\x1b[0mFF")
    '[S red]FF'
    """

    def plain(match: re.Match[str]) -> str:
        codes = [int(code) for code in match[1].split(";") if code]
        colour = next((_COLOURS[code % 10] for code in codes if 30 <= code <= 47 and code % 10 < 8), "")
        inside = _ESCAPE.sub("", match[2]).strip() or "_"
        return f"[{inside} {colour}]" if colour else inside

    return _ESCAPE.sub("", _COLOURED.sub(plain, picture)).strip("\n")


class GymEnv:
    """Any Gymnasium environment with text observations or an ANSI picture (`id=FrozenLake-v1`).

    Args:
        id: the environment's registered id; `module:id` imports a module first.
        options: keyword arguments of `gymnasium.make`.
        actions: names of the numbered actions; those of FrozenLake, Taxi and CliffWalking are known.
        goal: the task in words, for every prompt.
        num_train, num_in_domain: how many tasks; a task is a seed of the reset.
        max_steps: steps after which an episode is truncated.
        win: the least reward of the last step that counts as success.
    """

    def __init__(
        self,
        id: str = "FrozenLake-v1",
        *,
        options: dict[str, Any] | None = None,
        actions: Sequence[str] | None = None,
        goal: str = "",
        num_train: int = 200,
        num_in_domain: int = 50,
        max_steps: int = 100,
        win: float = 1e-9,
    ) -> None:
        gymnasium = package("gymnasium", "gym")
        self.set = SeedTasks({"train": num_train, "in-domain": num_in_domain}, f"gym {id}")
        self.max_steps, self.win, self.goal = max_steps, win, goal
        options = dict(options or {})
        try:
            self.env = gymnasium.make(id, **options)
            self.speaks = isinstance(self.env.observation_space, gymnasium.spaces.Text)
            if not self.speaks:
                self.env = gymnasium.make(id, **{"render_mode": "ansi", **options})
                if "ansi" not in self.env.metadata.get("render_modes", ()):
                    raise BadSetting(
                        f"{id} has neither text observations nor render_mode='ansi', so an agent of words cannot see "
                        f"it; it renders {', '.join(self.env.metadata.get('render_modes', ())) or 'nothing'}."
                    )
        except BadSetting:
            raise
        except Exception as error:
            raise BadSetting(f"Gymnasium cannot make {id}: {type(error).__name__}: {error}") from error
        space = self.env.action_space
        self.writes = isinstance(space, gymnasium.spaces.Text)
        if not self.writes and not isinstance(space, gymnasium.spaces.Discrete):
            raise BadSetting(f"{id} takes {space}; expected numbered actions (Discrete) or Text.")
        self.actions: Sequence[str] = ()
        if not self.writes:
            known = next((names for name, names in ACTIONS.items() if id.startswith(name)), None)
            self.actions = tuple(actions or known or map(str, range(int(space.n))))
            if len(self.actions) != int(space.n):
                raise BadSetting(f"{len(self.actions)} names of actions were given; {id} has {space.n}.")
        self.first = 0 if self.writes else int(space.start)
        self.steps: int | None = None

    @property
    def splits(self) -> Sequence[str]:
        """`train` and `in-domain`: other seeds."""
        return tuple(self.set.counts)

    def tasks(self, split: str) -> Sequence[str]:
        """`<split>/<number>`."""
        return self.set.tasks(split)

    def reset(self, task: str, *, seed: int | None = None) -> Observation:
        """Start the episode of a seed; the task decides it alone."""
        seen, _ = self.env.reset(seed=self.set.seed(task))
        self.steps = 0
        info = {"task": task, "goal": self.goal} if self.goal else {"task": task}
        return Observation(self._text(seen), self.actions, info)

    def step(self, action: str) -> Transition:
        """Do one action; one that is none of the names changes nothing."""
        if self.steps is None:
            raise ResetNeeded(type(self).__name__)
        self.steps += 1
        late = self.steps >= self.max_steps
        if not self.writes and action not in self.actions:
            return Transition(f"There is no action {action[:40]!r}.", truncated=late, admissible=self.actions)
        given = action if self.writes else self.first + self.actions.index(action)
        seen, reward, terminated, truncated, _ = self.env.step(given)
        won = bool(terminated) and float(reward) >= self.win
        return Transition(
            self._text(seen),
            reward=float(reward),
            terminated=bool(terminated),
            truncated=bool(truncated or late) and not terminated,
            admissible=self.actions,
            success=won,
            score=float(won),
        )

    def close(self) -> None:
        """Close the environment."""
        self.env.close()

    def _text(self, seen: Any) -> str:
        return str(seen) if self.speaks else readable(str(self.env.render()))
