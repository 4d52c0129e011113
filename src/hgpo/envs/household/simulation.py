"""The household simulation: one episode's state, its commands and its texts.

Rules and texts are those of the official ALFWorld game (alfworld 0.4.2, one PDDL domain and one text grammar
for all games), written out natively: no solver, no grammar engine. Three of its habits look odd and are kept:

- only the thing in hand can be examined besides receptacles;
- a lamp that was switched on once counts as on for good, and using it again says so again;
- `look` names a thing "next to" a receptacle only after it was moved between receptacles of one place.
"""

from __future__ import annotations

import copy
from bisect import insort
from collections.abc import Callable

from .house import CLEAN, COOL, HOT, SLICED, TOGGLED, House
from .texts import HELP, LOOKS, NOTHING, listing

SINKS = frozenset({"sink", "sinkbasin"})
MICROWAVES = frozenset({"microwave"})
FRIDGES = frozenset({"fridge"})


class Simulation:
    """One live episode in a house. Starts in the house's first state; `act` changes it."""

    __slots__ = ("contents", "flags", "held", "house", "left", "location", "opened", "places")

    def __init__(self, house: House) -> None:
        self.house = house
        self.location = house.start
        self.held: int | None = None
        # Tuples are shared with the house until something moves; then that one is replaced.
        self.contents: list[tuple[int, ...]] = list(house.contents)
        self.opened = house.opened
        self.flags: dict[int, int] = dict(house.flags)
        self.places: dict[int, frozenset[int]] = {}
        self.left: frozenset[tuple[int, int]] = frozenset()
        """(object, receptacle) pairs: taken from there and not put back."""

    def clone(self) -> Simulation:
        """A copy that goes its own way; what cannot change is shared."""
        other = copy.copy(self)
        other.contents, other.flags, other.places = list(self.contents), dict(self.flags), dict(self.places)
        return other

    def intro(self) -> str:
        """The text that opens the episode."""
        house = self.house
        if self.location in house.at:
            seen = self.look()
        else:
            around = listing([f"a {name}" for name in house.receptacles])
            seen = f"You are in the middle of a room. Looking quickly around you, you see {around}."
        return f"-= Welcome to TextWorld, ALFRED! =-\n\n{seen}\n\nYour task is to: {house.task}"

    def act(self, command: str) -> str:
        """Carry out `command` and say what happened; `NOTHING` if it is not admissible."""
        verb, _, rest = command.strip().partition(" ")
        action = _ACTIONS.get(verb)
        return (action(self, rest) if action is not None else None) or NOTHING

    def won(self) -> bool:
        """Whether the goal holds now."""
        house = self.house
        goal = house.goal
        if goal.light:
            if self.held not in house.goal_objects:
                return False
            lit = [lamp for lamp in house.goal_targets if self.flags.get(lamp, 0) & TOGGLED]
            return any(lamp in self.contents[r] for r in house.at.get(self.location, ()) for lamp in lit)
        wanted, flags, count = house.goal_objects, goal.flags, goal.count
        for receptacle in house.goal_targets:
            fulfilling = 0
            for thing in self.contents[receptacle]:
                if thing in wanted and self.flags.get(thing, 0) & flags == flags:
                    fulfilling += 1
            if fulfilling >= count:
                return True
        return False

    def admissible(self) -> list[str]:
        """Every command that does something now, sorted, each once.

        Only what stands at the agent's place and what it holds is looked at; the commands that depend on
        the place alone come ready made from the house.
        """
        house = self.house
        commands = house.commands_at(self.location)[:]
        add = commands.append
        held = self.held
        held_name = house.objects[held] if held is not None else ""
        if held is not None:
            add(f"examine {held_name}")
            if held in house.knives:
                for thing in house.sliceable:
                    if self.location in self.places.get(thing, house.places[thing]):
                        add(f"slice {house.objects[thing]} with {held_name}")
        lamps: set[int] = set()
        for receptacle in house.at.get(self.location, ()):
            name = house.receptacles[receptacle]
            things = self.contents[receptacle]
            if house.toggleable:
                lamps.update(house.toggleable.intersection(things))
            if receptacle in house.openable:
                is_open = receptacle in self.opened
                add(f"close {name}" if is_open else f"open {name}")
            else:
                is_open = True
            if held is None:
                if is_open:
                    for thing in things:
                        if thing in house.pickupable:
                            add(f"take {house.objects[thing]} from {name}")
                continue
            if is_open and house.object_types[held] in house.fits[receptacle]:
                add(f"move {held_name} to {name}")
            kind = house.receptacle_types[receptacle]
            if kind in SINKS and held in house.cleanable:
                add(f"clean {held_name} with {name}")
            elif kind in MICROWAVES and held in house.heatable:
                add(f"heat {held_name} with {name}")
            elif kind in FRIDGES and held in house.coolable:
                add(f"cool {held_name} with {name}")
        for lamp in lamps:
            add(f"use {house.objects[lamp]}")
        commands.sort()
        return commands

    # Texts.

    def look(self) -> str:
        house = self.house
        here = house.at.get(self.location, ())
        if not here:
            return "You are in the middle of a room. Looking quickly around you, you see nothing."
        beside = []
        if self.left:
            for thing in sorted({o for o, r in self.left if r in here}):
                if self.location in self.places.get(thing, house.places[thing]):
                    # Named once for every receptacle here that it was taken from.
                    beside += [f"a {house.objects[thing]}" for r in here if (thing, r) in self.left]
        facing = listing([house.receptacles[r] for r in here])
        return f"You are facing the {facing}. Next to it, you see {listing(beside)}."

    def describe(self, receptacle: int) -> str:
        """What a receptacle looks like, and what is seen in or on it."""
        house = self.house
        name = house.receptacles[receptacle]
        if receptacle in house.openable:
            if receptacle not in self.opened:
                return f"The {name} is closed."
            start = f"The {name} is open. In it, you see "
        else:
            start = f"On the {name}, you see "
        objects = house.objects
        return f"{start}{listing(['a ' + objects[o] for o in self.contents[receptacle]])}."

    def _describe_object(self, thing: int) -> str:
        house = self.house
        name = house.objects[thing]
        if thing in house.inside:
            within = listing([f"a {house.objects[o]}" for o in house.inside[thing]])
            return f"This is a normal {name}. In it, you see {within}."
        flags = self.flags.get(thing, 0)
        for bits, text in LOOKS:
            if flags & bits == bits:
                return text.format(name)
        return f"There's nothing special about {name}."

    # Actions: the words after the verb -> what happened, or None when the command is not admissible.

    def _here(self, name: str) -> int | None:
        """The receptacle called `name` if the agent stands at it."""
        receptacle = self.house.receptacle_ids.get(name)
        if receptacle is None or self.house.locations[receptacle] != self.location:
            return None
        return receptacle

    def _is_open(self, receptacle: int) -> bool:
        return receptacle in self.opened or receptacle not in self.house.openable

    def _help(self, rest: str) -> str | None:
        return None if rest else HELP

    def _look(self, rest: str) -> str | None:
        return None if rest else self.look()

    def _inventory(self, rest: str) -> str | None:
        if rest:
            return None
        if self.held is None:
            return "You are not carrying anything."
        return f"You are carrying: a {self.house.objects[self.held]}."

    def _go(self, rest: str) -> str | None:
        if rest[:3] != "to ":
            return None
        receptacle = self.house.receptacle_ids.get(rest[3:])
        if receptacle is None or self.house.locations[receptacle] == self.location:
            return None
        self.location = self.house.locations[receptacle]
        return f"You arrive at {rest[3:]}. {self.describe(receptacle)}"

    def _examine(self, rest: str) -> str | None:
        receptacle = self._here(rest)
        if receptacle is not None:
            return self.describe(receptacle)
        if self.held is not None and rest == self.house.objects[self.held]:
            return self._describe_object(self.held)
        return None

    def _open(self, rest: str) -> str | None:
        receptacle = self._here(rest)
        if receptacle is None or self._is_open(receptacle):
            return None
        self.opened |= {receptacle}
        return f"You open the {rest}. {self.describe(receptacle)}"

    def _close(self, rest: str) -> str | None:
        receptacle = self._here(rest)
        if receptacle is None or receptacle not in self.house.openable or receptacle not in self.opened:
            return None
        self.opened -= {receptacle}
        return f"You close the {rest}."

    def _take(self, rest: str) -> str | None:
        name, _, where = rest.partition(" from ")
        thing, receptacle = self.house.object_ids.get(name), self._here(where)
        if (
            thing is None
            or receptacle is None
            or self.held is not None
            or thing not in self.contents[receptacle]
            or thing not in self.house.pickupable
            or not self._is_open(receptacle)
        ):
            return None
        self.contents[receptacle] = tuple(o for o in self.contents[receptacle] if o != thing)
        self.places[thing] = self.places.get(thing, self.house.places[thing]) - {self.location}
        self.left |= {(thing, receptacle)}
        self.held = thing
        return f"You pick up the {name} from the {where}."

    def _move(self, rest: str) -> str | None:
        name, _, where = rest.partition(" to ")
        receptacle = self._here(where)
        if (
            receptacle is None
            or self.held is None
            or self.house.objects[self.held] != name
            or not self._is_open(receptacle)
            or self.house.object_types[self.held] not in self.house.fits[receptacle]
        ):
            return None
        thing = self.held
        if thing not in self.contents[receptacle]:
            things = list(self.contents[receptacle])
            insort(things, thing)
            self.contents[receptacle] = tuple(things)
        self.places[thing] = self.places.get(thing, self.house.places[thing]) | {self.location}
        self.left -= {(thing, receptacle)}
        self.held = None
        return f"You move the {name} to the {where}."

    def _treat(self, rest: str, able: frozenset[int], kinds: frozenset[str]) -> tuple[int, str, str] | None:
        """The held object, its name and the appliance, if the agent can treat it with that here."""
        name, _, where = rest.partition(" with ")
        receptacle = self._here(where)
        if (
            receptacle is None
            or self.held is None
            or self.held not in able
            or self.house.objects[self.held] != name
            or self.house.receptacle_types[receptacle] not in kinds
        ):
            return None
        return self.held, name, where

    def _clean(self, rest: str) -> str | None:
        treated = self._treat(rest, self.house.cleanable, SINKS)
        if treated is None:
            return None
        thing, name, where = treated
        self.flags[thing] = self.flags.get(thing, 0) | CLEAN
        return f"You clean the {name} using the {where}."

    def _heat(self, rest: str) -> str | None:
        treated = self._treat(rest, self.house.heatable, MICROWAVES)
        if treated is None:
            return None
        thing, name, where = treated
        self.flags[thing] = self.flags.get(thing, 0) & ~COOL | HOT
        return f"You heat the {name} using the {where}."

    def _cool(self, rest: str) -> str | None:
        treated = self._treat(rest, self.house.coolable, FRIDGES)
        if treated is None:
            return None
        thing, name, where = treated
        self.flags[thing] = self.flags.get(thing, 0) & ~HOT | COOL
        return f"You cool the {name} using the {where}."

    def _use(self, rest: str) -> str | None:
        thing = self.house.object_ids.get(rest)
        if thing is None or thing not in self.house.toggleable:
            return None
        if not any(thing in self.contents[r] for r in self.house.at.get(self.location, ())):
            return None
        self.flags[thing] = self.flags.get(thing, 0) | TOGGLED
        return f"You turn on the {rest}."

    def _slice(self, rest: str) -> str | None:
        name, _, tool = rest.partition(" with ")
        house = self.house
        thing = house.object_ids.get(name)
        if (
            thing is None
            or self.held is None
            or self.held not in house.knives
            or house.objects[self.held] != tool
            or thing not in house.sliceable
            or self.location not in self.places.get(thing, house.places[thing])
        ):
            return None
        self.flags[thing] = self.flags.get(thing, 0) | SLICED
        return f"You sliced the {name} with the {tool}."


_ACTIONS: dict[str, Callable[[Simulation, str], str | None]] = {
    "go": Simulation._go,
    "look": Simulation._look,
    "inventory": Simulation._inventory,
    "help": Simulation._help,
    "examine": Simulation._examine,
    "open": Simulation._open,
    "close": Simulation._close,
    "take": Simulation._take,
    "move": Simulation._move,
    "clean": Simulation._clean,
    "heat": Simulation._heat,
    "cool": Simulation._cool,
    "use": Simulation._use,
    "slice": Simulation._slice,
}
