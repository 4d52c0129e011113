"""A house as it is when an episode begins: what is where, what can be done with it, what the task is.

Everything is numbered. Receptacles and objects are numbered in the order in which texts list them, so a
sorted tuple of numbers is already in the order of the text. A house never changes; `Simulation` holds what an
episode changes, and many worlds share one house.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

# What has happened to an object, as bits.
CLEAN, HOT, COOL, SLICED, TOGGLED = 1, 2, 4, 8, 16

TASK_TYPES = (
    "pick_and_place_simple",
    "look_at_obj_in_light",
    "pick_clean_then_place_in_recep",
    "pick_heat_then_place_in_recep",
    "pick_cool_then_place_in_recep",
    "pick_two_obj_and_place",
)
"""The six kinds of task, by their official names."""


@dataclass(frozen=True)
class Goal:
    """When the task is solved.

    Place tasks: `count` different objects of a type, each with all of `flags`, lie in one receptacle of a
    type. The light task: the agent holds such an object where a lamp of a type has been switched on.
    """

    object_type: str
    target_type: str
    """The type of the receptacle; for the light task the type of the lamp."""
    flags: int = 0
    count: int = 1
    light: bool = False

    @property
    def task_type(self) -> str:
        """One of `TASK_TYPES`."""
        if self.light:
            return "look_at_obj_in_light"
        if self.count == 2:
            return "pick_two_obj_and_place"
        by_flag = {CLEAN: "clean", HOT: "heat", COOL: "cool"}
        treated = by_flag.get(self.flags & (CLEAN | HOT | COOL))
        return f"pick_{treated}_then_place_in_recep" if treated else "pick_and_place_simple"


@dataclass(frozen=True, eq=False)
class House:
    """The fixed part of an episode, and its first state."""

    receptacles: tuple[str, ...]
    """Names such as `cabinet 3`, in listing order."""
    receptacle_types: tuple[str, ...]
    locations: tuple[int, ...]
    """Where each receptacle stands; several may share a place."""
    start: int
    """Where the agent begins; usually no receptacle stands there."""
    fits: tuple[frozenset[str], ...]
    """Per receptacle, the types of objects it takes."""
    openable: frozenset[int]
    opened: frozenset[int]
    contents: tuple[tuple[int, ...], ...]
    """Per receptacle, its objects in listing order. An object may be listed in more than one."""
    objects: tuple[str, ...]
    """Names such as `mug 2`, in listing order."""
    object_types: tuple[str, ...]
    places: tuple[frozenset[int], ...]
    """Per object, the places where it can be reached with a knife."""
    pickupable: frozenset[int]
    cleanable: frozenset[int]
    heatable: frozenset[int]
    coolable: frozenset[int]
    sliceable: tuple[int, ...]
    toggleable: frozenset[int]
    inside: Mapping[int, tuple[int, ...]]
    """For objects that are vessels, what they are described to hold."""
    flags: Mapping[int, int]
    """Objects that begin clean, hot, cool, sliced or toggled."""
    goal: Goal
    task: str
    """The sentence after "Your task is to: "."""
    # Tables derived from the above, for speed.
    receptacle_ids: dict[str, int] = field(init=False, repr=False)
    object_ids: dict[str, int] = field(init=False, repr=False)
    at: dict[int, tuple[int, ...]] = field(init=False, repr=False)
    """Place -> the receptacles that stand there, in listing order."""
    knives: frozenset[int] = field(init=False, repr=False)
    goal_objects: frozenset[int] = field(init=False, repr=False)
    goal_targets: tuple[int, ...] = field(init=False, repr=False)
    """Receptacles of the goal's type, or lamps for the light task."""
    fixed_commands: dict[int, list[str]] = field(init=False, repr=False)
    """Place -> the commands that are always possible there; filled when first needed."""

    def __post_init__(self) -> None:
        put = object.__setattr__
        put(self, "receptacle_ids", {name: i for i, name in enumerate(self.receptacles)})
        put(self, "object_ids", {name: i for i, name in enumerate(self.objects)})
        at: dict[int, tuple[int, ...]] = {}
        for receptacle, place in enumerate(self.locations):
            at[place] = (*at.get(place, ()), receptacle)
        put(self, "at", at)
        types = self.object_types
        put(self, "knives", frozenset(o for o, kind in enumerate(types) if kind in ("knife", "butterknife")))
        goal = self.goal
        allowed = {CLEAN: self.cleanable, HOT: self.heatable, COOL: self.coolable}
        wanted = {o for o, kind in enumerate(types) if kind == goal.object_type}
        for flag, able in allowed.items():
            if goal.flags & flag:
                wanted &= able
        put(self, "goal_objects", frozenset(wanted))
        if goal.light:
            targets = [o for o, kind in enumerate(types) if kind == goal.target_type and o in self.toggleable]
        else:
            targets = [r for r, kind in enumerate(self.receptacle_types) if kind == goal.target_type]
        put(self, "goal_targets", tuple(targets))
        put(self, "fixed_commands", {})

    def commands_at(self, place: int) -> list[str]:
        """The commands that are possible at `place` whatever has happened, sorted."""
        commands = self.fixed_commands.get(place)
        if commands is None:
            commands = ["help", "inventory", "look"]
            for receptacle, name in enumerate(self.receptacles):
                # Going to where one stands changes nothing, so the official game does not offer it.
                verb = "examine" if self.locations[receptacle] == place else "go to"
                commands.append(f"{verb} {name}")
            commands.sort()
            self.fixed_commands[place] = commands
        return commands
