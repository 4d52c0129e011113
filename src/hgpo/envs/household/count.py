"""What an agent that keeps count knows of itself: what it carries, what it did to things, and what it put where.

Read from the game's own words, so it is honest: nothing here was not seen or done. The present observation says none
of it, and an agent that remembers K steps has forgotten it after K steps.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

NOTHING_HELD = "nothing"
SAID = 3
"""So many of the things that were put somewhere are told, the last ones: no task needs more than two."""

_TAKEN = re.compile(r"You pick up the (.+?) from the ")
_PUT = re.compile(r"You (?:move|put) the (.+?) (?:to|in/on) the (.+?)\.")
_TREATED = re.compile(r"You (heat|cool|clean) the (.+?) using the ")
_LIT = re.compile(r"You turn on the (.+?)\.")
_MADE = {"heat": "hot", "cool": "cold", "clean": "clean"}
_UNDONE = {"hot": "cold", "cold": "hot"}


@dataclass(frozen=True)
class Count:
    """What was done so far."""

    carried: str = NOTHING_HELD
    made: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Thing -> what it was made: hot, cold, clean; in alphabetical order."""
    put: Mapping[str, str] = field(default_factory=dict)
    """Thing -> where the agent put it down, the latest last."""
    lit: tuple[str, ...] = ()
    """The lamps that were switched on, in alphabetical order; they stay on."""

    def after(self, text: str) -> Count:
        """What it is after an action that the game answered with `text`."""
        if not text.startswith("You ") or text.startswith("You arrive "):
            return self  # most of what the game says, in less time than four patterns take
        if taken := _TAKEN.match(text):
            return replace(self, carried=taken[1], put=_without(self.put, taken[1]))
        if put := _PUT.match(text):
            return replace(self, carried=NOTHING_HELD, put={**_without(self.put, put[1]), put[1]: put[2]})
        if treated := _TREATED.match(text):
            now = _MADE[treated[1]]
            before = set(self.made.get(treated[2], ())) - {_UNDONE.get(now)}
            return replace(self, made={**self.made, treated[2]: tuple(sorted({*before, now}))})
        if lit := _LIT.match(text):
            return replace(self, lit=tuple(sorted({*self.lit, lit[1]})))
        return self

    def words(self) -> str:
        """For a prompt: `carrying apple 1 (clean, hot), having put mug 2 in cabinet 1, having lit desklamp 1`.

        The things are in alphabetical order, so that the same state has the same words however it came about.
        """
        words = [f"carrying {self._named(self.carried)}"]
        if self.put:
            last = sorted([*self.put.items()][-SAID:])
            words.append(
                "having put " + ", ".join(f"{self._named(thing)} in {place}" for thing, place in last)
            )
        if self.lit:
            words.append(f"having lit {', '.join(self.lit)}")
        return ", ".join(words)

    def _named(self, thing: str) -> str:
        made = self.made.get(thing)
        return f"{thing} ({', '.join(made)})" if made else thing


def _without(put: Mapping[str, str], thing: str) -> dict[str, str]:
    return {one: place for one, place in put.items() if one != thing}


def state_key(admissible: Sequence[str], known: str) -> str:
    """What tells the agent's state apart from others, by all that it can see and knows: the same for the same state.

    That is what can be done where it stands, of all `admissible` commands those that do not go elsewhere, and what it
    knows of itself. Observations are no such thing: coming to a shelf, opening it and a command that fails there are
    answered by three texts, and none of them says what the agent holds.
    """
    commands = sorted(admissible)
    # Those that go elsewhere, the most of them, stand together: "!" is the character after the space.
    here = commands[: bisect_left(commands, "go to ")] + commands[bisect_left(commands, "go to!") :]
    return "; ".join([*here, known])
