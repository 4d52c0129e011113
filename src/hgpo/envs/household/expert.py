"""An honest expert for the household world (generated houses and official ALFWorld games).

It knows what a person would: how the commands work, and in which furniture a thing is usually found. Where
things are in this house it learns only from the texts it is shown. It searches for the object of the task,
treats it if the task says so, and brings it to its target.
"""

from __future__ import annotations

import re

from ...errors import BadSetting
from ..contract import Observation, Transition
from .catalogue import FITS, LAMP_SURFACES, OPENABLE

_TREATMENTS = {
    "clean": ("clean", ("sinkbasin", "sink")),
    "hot": ("heat", ("microwave",)),
    "heat": ("heat", ("microwave",)),
    "cool": ("cool", ("fridge",)),
}
# The official sentences (two for each of the six task types).
_SENTENCES = (
    (r"(?:look at|examine the) (?P<object>\w+) (?:under|with) the (?P<target>\w+)", "light"),
    (r"(?:put|find) two (?P<object>\w+) (?:and put them )?(?:in|on) (?P<target>\w+)", "two"),
    (r"put an? (?P<how>clean|hot|cool) (?P<object>\w+) (?:in|on) (?P<target>\w+)", "treat"),
    (r"(?P<how>clean|heat|cool) some (?P<object>\w+) and put it (?:in|on) (?P<target>\w+)", "treat"),
    (r"put (?:an?|some) (?P<object>\w+) (?:in|on) (?P<target>\w+)", "place"),
)
_SHOWN = re.compile(r"(?:On the|The) (\w+ \d+)(?:, you see| is open\. In it, you see) (.*)\.$")
_THING = re.compile(r"\ba (\w+ \d+)")


class HouseholdExpert:
    """Solves all six task types from what it has seen. Never looks into the simulation."""

    def reset(self, observation: Observation) -> None:
        """Read the task and the furniture of a new house."""
        text = observation.text
        sentence = text.partition("Your task is to: ")[2].strip()
        matches = ((re.fullmatch(pattern + r"\.?", sentence), kind) for pattern, kind in _SENTENCES)
        match, kind = next(((match, kind) for match, kind in matches if match), (None, ""))
        if match is None:
            raise BadSetting(
                f"The household expert does not understand the task {sentence!r}. It knows ALFWorld's "
                "sentences, for example 'put a mug in cabinet.'; use it with household and alfworld."
            )
        parts = match.groupdict()
        self.kind = kind
        self.object_type, self.target_type = parts["object"], parts["target"]
        self.treatment = _TREATMENTS[parts["how"]] if parts.get("how") else None
        self.receptacles = _THING.findall(text.partition("Your task is to: ")[0])
        self.contents: dict[str, list[str]] = {}
        """Receptacle -> what was last seen in it; receptacles not looked into are missing."""
        self.held = ""
        self.treated = False
        self.placed: dict[str, str] = {}
        """Objects brought to a target -> that receptacle."""
        self.useless: set[str] = set()
        """Commands that turned out not to be possible where they should have been."""
        self.last = ""

    def act(self, seen: Observation | Transition) -> str:
        """The next command."""
        self.learn(seen.text)
        self.last = self._choose(set(seen.admissible))
        return self.last

    def learn(self, text: str) -> None:
        """Take in what the last command was answered with."""
        verb, _, rest = self.last.partition(" ")
        if text.startswith("You pick up") and verb == "take":
            self.held = rest.partition(" from ")[0]
            self.treated = False
            for things in self.contents.values():
                if self.held in things:
                    things.remove(self.held)
        elif text.startswith("You move") and verb == "move":
            name, _, where = rest.partition(" to ")
            self.contents.setdefault(where, []).append(name)
            self.placed[name] = where
            self.held = ""
        elif self.treatment is not None and text.startswith(f"You {self.treatment[0]}"):
            self.treated = True
        shown = _SHOWN.search(text)
        if shown:
            self.contents[shown[1]] = _THING.findall(shown[2])
        elif text == "Nothing happens.":
            self.useless.add(self.last)

    def _choose(self, admissible: set[str]) -> str:
        if self.held:
            if self.kind == "light":
                return self._light(admissible)
            if self.treatment is not None and not self.treated:
                return self._treat(admissible, *self.treatment)
            return self._place(admissible)
        for receptacle, things in self.contents.items():
            for thing in things:
                if _kind(thing) == self.object_type and self._wanted(thing, receptacle):
                    command = self._reach(receptacle, f"take {thing} from {receptacle}", admissible)
                    if command:
                        return command
        return self._search(self.object_type, admissible)

    def _wanted(self, thing: str, receptacle: str) -> bool:
        """Whether an object of the task's type that was seen in `receptacle` is still to be fetched."""
        if thing in self.placed:
            return False
        return self.kind != "two" or receptacle != self._pair_target()

    def _pair_target(self) -> str:
        """The receptacle in which the pair gathers: the one that already has most of it."""
        counts = {
            receptacle: sum(_kind(thing) == self.object_type for thing in things)
            for receptacle, things in self.contents.items()
            if _kind(receptacle) == self.target_type
        }
        best = max(counts, key=lambda receptacle: counts[receptacle], default="")
        return best if best and counts[best] > 0 else ""

    def _light(self, admissible: set[str]) -> str:
        for receptacle, things in self.contents.items():
            for thing in things:
                if _kind(thing) == self.target_type:
                    command = self._reach(receptacle, f"use {thing}", admissible)
                    if command:
                        return command
        return self._search(self.target_type, admissible)

    def _treat(self, admissible: set[str], verb: str, appliances: tuple[str, ...]) -> str:
        for receptacle in self.receptacles:
            if _kind(receptacle) in appliances:
                command = self._reach(receptacle, f"{verb} {self.held} with {receptacle}", admissible)
                if command:
                    return command
        return self._give_up(admissible)

    def _place(self, admissible: set[str]) -> str:
        targets = [r for r in self.receptacles if _kind(r) == self.target_type]
        if self.kind == "two" and self._pair_target():
            targets = [self._pair_target()]
        # A place already seen open is nearer at hand than one that must be opened.
        for receptacle in sorted(targets, key=lambda r: r not in self.contents):
            command = self._reach(receptacle, f"move {self.held} to {receptacle}", admissible)
            if command:
                return command
        return self._give_up(admissible)

    def _reach(self, receptacle: str, command: str, admissible: set[str]) -> str:
        """The next command on the way to doing `command` at `receptacle`; empty if there is no way."""
        go, unlock = f"go to {receptacle}", f"open {receptacle}"
        if command in admissible:
            return command
        if go in admissible:
            return go if command not in self.useless else ""
        if unlock in admissible:
            return unlock
        self.useless.add(command)  # We stand there, it is open, and still it cannot be done.
        return ""

    def _search(self, kind: str, admissible: set[str]) -> str:
        """Look into the next receptacle that has not been looked into, likely ones first."""
        unseen = [r for r in self.receptacles if r not in self.contents]
        here = [r for r in unseen if f"go to {r}" not in admissible]
        for receptacle in sorted(here, key=lambda r: self._unlikely(kind, r)):
            # Other receptacles of the place where we stand can be looked into without a walk.
            for command in (f"open {receptacle}", f"examine {receptacle}"):
                if command in admissible:
                    return command
        for receptacle in sorted(unseen, key=lambda r: self._unlikely(kind, r)):
            if f"go to {receptacle}" in admissible:
                return f"go to {receptacle}"
        return self._give_up(admissible)

    def _unlikely(self, kind: str, receptacle: str) -> tuple[bool, bool, int, int]:
        """Sort key: where such things are found, open surfaces before doors, the rarer kind first."""
        where = _kind(receptacle)
        fits = where in LAMP_SURFACES[kind] if kind in LAMP_SURFACES else kind in FITS.get(where, ())
        alike = sum(_kind(other) == where for other in self.receptacles)
        return not fits, where in OPENABLE, alike, self.receptacles.index(receptacle)

    def _give_up(self, admissible: set[str]) -> str:
        """Everything was searched: forget what was seen and look again."""
        self.contents.clear()
        self.useless.clear()
        return "look"


def _kind(name: str) -> str:
    return name.partition(" ")[0]
