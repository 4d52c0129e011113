"""Generated houses: any number of them, each decided by a size, a seed, a split and an index.

Rooms and splits. A room is a kind (kitchen, ...) and the furniture in it. The digest of a room's furniture
decides on which side it falls: rooms of `train` and `in-domain` are never rooms of `out-of-domain`. Within
the shared rooms the digest of the whole episode (furniture, contents, goal) decides between `train` and
`in-domain`, so no episode of one occurs in the other. Index i has the task type `TASK_TYPES[i % 6]`.

Every task can be solved: the goal's objects are placed outside its target, somewhere the agent can reach, and
the target takes them. Draws use `Random.random()` alone, the one method whose sequence Python guarantees.
"""

from __future__ import annotations

import functools
import hashlib
import random
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from typing import TypeVar

from . import catalogue
from .house import CLEAN, COOL, HOT, TASK_TYPES, Goal, House

T = TypeVar("T")

SPLITS = ("train", "in-domain", "out-of-domain")
_ROOMS_OF: dict[str, tuple[str, ...]] = {
    "pick_and_place_simple": ("kitchen", "livingroom", "bedroom", "bathroom"),
    "look_at_obj_in_light": ("livingroom", "bedroom"),
    "pick_clean_then_place_in_recep": ("kitchen", "bathroom"),
    "pick_heat_then_place_in_recep": ("kitchen",),
    "pick_cool_then_place_in_recep": ("kitchen",),
    "pick_two_obj_and_place": ("kitchen", "livingroom", "bedroom", "bathroom"),
}
_TREATMENTS: dict[str, tuple[int, frozenset[str], str]] = {
    "pick_clean_then_place_in_recep": (CLEAN, catalogue.CLEANABLE, "sinkbasin"),
    "pick_heat_then_place_in_recep": (HOT, catalogue.HEATABLE, "microwave"),
    "pick_cool_then_place_in_recep": (COOL, catalogue.COOLABLE, "fridge"),
}
# The official sentences, two a task type.
_SENTENCES: dict[str, tuple[str, str]] = {
    "pick_and_place_simple": ("put a {o} in {r}.", "put some {o} on {r}."),
    "look_at_obj_in_light": ("look at {o} under the {r}.", "examine the {o} with the {r}."),
    "pick_clean_then_place_in_recep": ("put a clean {o} in {r}.", "clean some {o} and put it in {r}."),
    "pick_heat_then_place_in_recep": ("put a hot {o} in {r}.", "heat some {o} and put it in {r}."),
    "pick_cool_then_place_in_recep": ("put a cool {o} in {r}.", "cool some {o} and put it in {r}."),
    "pick_two_obj_and_place": ("put two {o} in {r}.", "find two {o} and put them in {r}."),
}


@dataclass(frozen=True)
class Size:
    """How large houses are."""

    receptacles: tuple[int, int] | None
    """Fewest and most receptacles; None: as many of each as the catalogue says, like ALFWorld."""
    distractors: tuple[int, int]
    """Fewest and most objects besides those of the goal."""
    max_steps: int
    """The usual step limit."""
    spares: int
    """At most this many further objects of the goal's type."""
    shared_places: float
    """How often a drawer, cabinet or burner stands where the one before it does."""
    rooms: int
    """Rooms of each kind in a split that has rooms of its own."""


SIZES: dict[str, Size] = {
    "tiny": Size((4, 5), (2, 3), 20, 0, 0.0, 12),
    "small": Size((7, 9), (4, 8), 30, 1, 0.0, 20),
    "medium": Size((12, 18), (12, 20), 40, 1, 0.2, 24),
    "alfworld": Size(None, (22, 44), 50, 2, 0.25, 27),
}


@dataclass(frozen=True)
class Room:
    """A kind of room and its furniture."""

    kind: str
    receptacles: tuple[str, ...]
    """Receptacle types, sorted, repeated as often as they occur."""
    places: tuple[int, ...]
    """Where each stands."""
    lamp: str
    """The kind of lamp that stands in it, or nothing."""


def pick(rng: random.Random, options: Sequence[T]) -> T:
    """One of `options`, each with equal chance."""
    return options[int(rng.random() * len(options))]


def between(rng: random.Random, bounds: tuple[int, int]) -> int:
    """A whole number from `bounds[0]` to `bounds[1]`, both included."""
    return bounds[0] + int(rng.random() * (bounds[1] - bounds[0] + 1))


def _digest(*parts: object) -> int:
    return int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:8], "big")


@functools.lru_cache(maxsize=64)
def rooms(size: str, seed: int, unseen: bool) -> dict[str, tuple[Room, ...]]:
    """The rooms of each kind: those of train and in-domain, or those of out-of-domain (`unseen`)."""
    rng = random.Random(f"rooms {size} {seed} {unseen}")
    by_kind: dict[str, tuple[Room, ...]] = {}
    for kind in catalogue.FURNITURE:
        drawn: dict[tuple[str, ...], Room] = {}
        for _ in range(60 * SIZES[size].rooms):
            if len(drawn) == SIZES[size].rooms:
                break
            room = _draw_room(rng, kind, SIZES[size])
            if (_digest(kind, room.receptacles) % 4 == 0) == unseen:
                drawn.setdefault(room.receptacles, room)
        by_kind[kind] = tuple(drawn.values())
    return by_kind


def _draw_room(rng: random.Random, kind: str, size: Size) -> Room:
    furniture = catalogue.FURNITURE[kind]
    if size.receptacles is None:
        chosen = [name for name, bounds in furniture.items() for _ in range(between(rng, bounds))]
    else:
        chosen = list(catalogue.ESSENTIAL[kind])
        # Common pieces (cabinets, drawers) are drawn more often, none beyond what the catalogue allows.
        bag = [name for name, (_, most) in furniture.items() for _ in range(min(most, 4))]
        for name in chosen:
            bag.remove(name)
        for _ in range(between(rng, size.receptacles) - len(chosen)):
            chosen.append(bag.pop(int(rng.random() * len(bag))))
    chosen.sort()
    places: list[int] = []
    for index, name in enumerate(chosen):
        same = index > 0 and chosen[index - 1] == name and name in ("cabinet", "drawer", "stoveburner")
        shared = same and rng.random() < size.shared_places
        places.append(places[-1] if shared else len(set(places)))
    lamp = ""
    if kind in ("livingroom", "bedroom"):
        lamp = "floorlamp" if kind == "livingroom" and rng.random() < 0.5 else "desklamp"
    return Room(kind, tuple(chosen), tuple(places), lamp)


@functools.lru_cache(maxsize=2048)
def generate(size: str, seed: int, split: str, index: int) -> House:
    """The house of one task: the same on every machine."""
    task_type = TASK_TYPES[index % len(TASK_TYPES)]
    pool = rooms(size, seed, split == "out-of-domain")
    kinds = [kind for kind in _ROOMS_OF[task_type] if pool[kind]]
    rng = random.Random(f"house {size} {seed} {split} {index}")
    while True:
        room = pick(rng, pool[pick(rng, kinds)])
        choices = _goals(room, task_type)
        if not choices:
            continue
        object_type, target_type = pick(rng, choices)
        goal = _goal(task_type, object_type, target_type)
        things = _furnish(rng, room, goal, SIZES[size])
        held_back = _digest(room.kind, room.receptacles, astuple(goal), things) % 8 == 0
        if split == "out-of-domain" or held_back == (split == "in-domain"):
            sentence = pick(rng, _SENTENCES[task_type]).format(o=object_type, r=target_type)
            return _build(room, things, goal, sentence)


def _goal(task_type: str, object_type: str, target_type: str) -> Goal:
    flags = _TREATMENTS[task_type][0] if task_type in _TREATMENTS else 0
    light = task_type == "look_at_obj_in_light"
    return Goal(object_type, target_type, flags, count=2 if "two" in task_type else 1, light=light)


def _goals(room: Room, task_type: str) -> list[tuple[str, str]]:
    """The (object, target) pairs for which the task can be set and solved in a room."""
    present = sorted(set(room.receptacles))
    pairs = []
    for thing in catalogue.OBJECTS[room.kind]:
        homes = [kind for kind in present if thing in catalogue.FITS[kind]]
        if task_type == "look_at_obj_in_light":
            if homes and any(kind in catalogue.LAMP_SURFACES[room.lamp] for kind in present):
                pairs.append((thing, room.lamp))
            continue
        if task_type in _TREATMENTS:
            _, able, appliance = _TREATMENTS[task_type]
            if thing in able and appliance in present:
                pairs += [(thing, target) for target in homes if target != appliance]
            continue
        pairs += [(thing, target) for target in homes if len(homes) > 1]
    return pairs


def _furnish(rng: random.Random, room: Room, goal: Goal, size: Size) -> tuple[tuple[str, int], ...]:
    """Objects as (type, receptacle number), sorted."""
    things: list[tuple[str, int]] = []

    def put(thing: str, avoid: str = "") -> None:
        kinds = sorted({k for k in room.receptacles if thing in catalogue.FITS[k] and k != avoid})
        if kinds:
            # First the kind, then which one: ten cabinets should not draw ten times as much as one table.
            kind = pick(rng, kinds)
            things.append((thing, pick(rng, [r for r, k in enumerate(room.receptacles) if k == kind])))

    if room.lamp:
        spots = [r for r, k in enumerate(room.receptacles) if k in catalogue.LAMP_SURFACES[room.lamp]]
        if spots:
            things.append((room.lamp, pick(rng, spots)))
    # A thing that must be treated may already lie in its target; one that need not would solve the task.
    avoid = "" if goal.light or goal.flags else goal.target_type
    for _ in range(goal.count + between(rng, (0, size.spares))):
        put(goal.object_type, avoid)
    others = [name for name in catalogue.OBJECTS[room.kind] if name != goal.object_type]
    for _ in range(between(rng, size.distractors)):
        put(pick(rng, others))
    return tuple(sorted(things))


def _numbered(kinds: Sequence[str]) -> tuple[str, ...]:
    """Names in listing order: kinds sorted, numbers from the highest down as in the official games."""
    left = {kind: list(kinds).count(kind) for kind in set(kinds)}
    names = []
    for kind in kinds:
        names.append(f"{kind} {left[kind]}")
        left[kind] -= 1
    return tuple(names)


def _build(room: Room, things: tuple[tuple[str, int], ...], goal: Goal, sentence: str) -> House:
    types = tuple(thing for thing, _ in things)
    spots = tuple(receptacle for _, receptacle in things)
    numbers = range(len(types))

    def able(kinds: frozenset[str]) -> frozenset[int]:
        return frozenset(o for o in numbers if types[o] in kinds)

    return House(
        receptacles=_numbered(room.receptacles),
        receptacle_types=room.receptacles,
        locations=room.places,
        start=max(room.places) + 1,
        fits=tuple(catalogue.FITS[kind] for kind in room.receptacles),
        openable=frozenset(r for r, kind in enumerate(room.receptacles) if kind in catalogue.OPENABLE),
        opened=frozenset(),
        contents=tuple(tuple(o for o in numbers if spots[o] == r) for r in range(len(room.receptacles))),
        objects=_numbered(types),
        object_types=types,
        places=tuple(frozenset({room.places[r]}) for r in spots),
        pickupable=frozenset(numbers) - able(catalogue.LAMPS),
        cleanable=able(catalogue.CLEANABLE),
        heatable=able(catalogue.HEATABLE),
        coolable=able(catalogue.COOLABLE),
        sliceable=tuple(sorted(able(catalogue.SLICEABLE))),
        toggleable=able(catalogue.LAMPS),
        inside=dict.fromkeys(able(catalogue.VESSELS), ()),
        flags={},
        goal=goal,
        task=sentence,
    )
