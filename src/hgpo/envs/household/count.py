"""What an agent that keeps count knows of itself: what it carries, what it did to things, where it looked.

Read from the game's own words, so it is honest: nothing here was not seen or done. The present observation says none
of it, and an agent that remembers K steps has forgotten it after K steps. With it the expert needs no memory at all
(`benchmarks/household_expert.py --memory`); without it an agent that searches like the expert and remembers four steps
goes in circles in one unseen game of nine.
"""

from __future__ import annotations

import functools
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
_SEEN = re.compile(r"(?:On the|The) ([a-z]+ \d+)(?:, you see| is open\. In it, you see)")
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
    lit: frozenset[str] = frozenset()
    """The lamps that were switched on; they stay on."""
    looked: frozenset[str] = frozenset()
    """Where it looked since it last took or put something; before that it was after something else."""

    def after(self, text: str) -> Count:
        """What it is after an action that the game answered with `text`."""
        if "you see " in text:
            return replace(self, looked=self.looked.union(_SEEN.findall(text)))
        if taken := _TAKEN.match(text):
            return replace(self, carried=taken[1], put=_without(self.put, taken[1]), looked=frozenset())
        if put := _PUT.match(text):
            where = {**_without(self.put, put[1]), put[1]: put[2]}
            return replace(self, carried=NOTHING_HELD, put=where, looked=frozenset())
        if treated := _TREATED.match(text):
            now = _MADE[treated[1]]
            before = set(self.made.get(treated[2], ())) - {_UNDONE.get(now)}
            return replace(self, made={**self.made, treated[2]: tuple(sorted({*before, now}))})
        if lit := _LIT.match(text):
            return replace(self, lit=self.lit | {lit[1]})
        return self

    def words(self) -> str:
        """For a prompt: `carrying apple 1 (hot), having put mug 2 in cabinet 1, having looked in drawer 1 2, shelf 1`.

        Names are in order, so that the same state has the same words however it came about.
        """
        return f"{self.deeds()}, having looked in {_grouped(self.looked)}" if self.looked else self.deeds()

    def deeds(self) -> str:
        """The same without where it looked: what it changed."""
        words = [f"carrying {self._named(self.carried)}"]
        if self.put:
            last = sorted([*self.put.items()][-SAID:])
            words.append(
                "having put " + ", ".join(f"{self._named(thing)} in {place}" for thing, place in last)
            )
        if self.lit:
            words.append(f"having lit {_grouped(self.lit)}")
        return ", ".join(words)

    def _named(self, thing: str) -> str:
        made = self.made.get(thing)
        return f"{thing} ({', '.join(made)})" if made else thing


def _without(put: Mapping[str, str], thing: str) -> dict[str, str]:
    return {one: place for one, place in put.items() if one != thing}


@functools.lru_cache(4096)  # most steps look nowhere new
def _grouped(names: frozenset[str]) -> str:
    """Names with a number, by kind.

    >>> _grouped(frozenset({"drawer 10", "shelf 1", "drawer 2"}))
    'drawer 2 10, shelf 1'
    """
    kinds: dict[str, list[int]] = {}
    for name in names:
        kind, _, number = name.rpartition(" ")
        kinds.setdefault(kind, []).append(int(number))
    return ", ".join(f"{kind} {' '.join(map(str, sorted(kinds[kind])))}" for kind in sorted(kinds))


def state_key(admissible: Sequence[str], deeds: str) -> str:
    """What tells the agent's state apart from others, by what it can see and what it did: the same for the same state.

    That is what can be done where it stands, of all `admissible` commands those that do not go elsewhere, and its
    `deeds`. Observations are no such thing: coming to a shelf, opening it and a command that fails there are answered
    by three texts, and none of them says what the agent holds. Where it looked before is left out: hardly two rollouts
    looked in the same places, and a state that is not met again cannot be compared.
    """
    commands = sorted(admissible)
    # Those that go elsewhere, the most of them, stand together: "!" is the character after the space.
    here = commands[: bisect_left(commands, "go to ")] + commands[bisect_left(commands, "go to!") :]
    return "; ".join([*here, deeds])
