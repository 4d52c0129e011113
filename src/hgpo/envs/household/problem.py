"""Read an official game's PDDL problem into a `House`.

Only what this one domain uses is understood: the facts of `(:init ...)` and the six shapes of
`(:goal ...)`. Anything else is refused rather than guessed.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict

from ...errors import BadFile
from .house import CLEAN, COOL, HOT, SLICED, TOGGLED, Goal, House

_FACT = re.compile(r"\(([^\s()]+)([^()]*)\)")
_KNOWN = frozenset(
    {
        "atlocation",
        "receptacleatlocation",
        "objectatlocation",
        "openable",
        "opened",
        "inreceptacle",
        "isreceptacleobject",
        "inreceptacleobject",
        "receptacletype",
        "cancontain",
        "objecttype",
        "isclean",
        "cleanable",
        "ishot",
        "heatable",
        "iscool",
        "coolable",
        "pickupable",
        "moveable",
        "toggleable",
        "ison",
        "istoggled",
        "sliceable",
        "issliced",
    }
)
# Read by nothing in the domain's rules or texts.
_UNUSED = frozenset(
    {"wasinreceptacle", "checked", "examined", "full", "isreceptacleobjectfull", "distance", "="}
)
_GOAL_WORDS = frozenset(
    {
        "and",
        "exists",
        "not",
        "=",
        "objecttype",
        "receptacletype",
        "inreceptacle",
        "cleanable",
        "heatable",
        "coolable",
        "isclean",
        "ishot",
        "iscool",
        "issliced",
        "sliceable",
        "toggleable",
        "istoggled",
        "receptacleatlocation",
        "atlocation",
        "holds",
    }
)
_FLAGS = {"isclean": CLEAN, "ishot": HOT, "iscool": COOL, "issliced": SLICED, "istoggled": TOGGLED}

# Types of objects that a receptacle takes: the same few sets in every game, kept once.
_shared_types: dict[frozenset[str], frozenset[str]] = {}


def parse_problem(problem: str, task: str, source: str) -> House:
    """The house of one PDDL problem; `task` is its sentence, `source` names the game in errors."""
    lowered = problem.lower()
    start, end = lowered.find("(:init"), lowered.rfind("(:goal")
    if start < 0 or end < start:
        raise BadFile(
            f"{source}: the PDDL problem has no (:init ...) followed by (:goal ...). "
            "The file is damaged or truncated; fetch it again."
        )
    facts: dict[str, list[list[str]]] = defaultdict(list)
    for name, arguments in _FACT.findall(lowered, start + len("(:init"), end):
        facts[name].append(arguments.split())
    unknown = facts.keys() - _KNOWN - _UNUSED
    if unknown:
        raise BadFile(
            f"{source}: unexpected facts {', '.join(sorted(unknown))} in the PDDL problem. Only ALFWorld 0.4 "
            "games are understood; use engine='official' for others."
        )
    try:
        return _build(facts, parse_goal(lowered[end:], source), task)
    except (KeyError, ValueError, IndexError) as error:
        raise BadFile(
            f"{source}: the PDDL problem is incomplete ({type(error).__name__}: {error}). "
            "The file is damaged; fetch it again."
        ) from error


def parse_goal(text: str, source: str) -> Goal:
    """The goal from the lower-case text of `(:goal ...)`."""
    words = set(re.findall(r"\(([a-z=]+)", text))
    strange = words - _GOAL_WORDS
    objects = dict(re.findall(r"\(objecttype \?(\w+) (\w+?)type\)", text))
    receptacles = set(re.findall(r"\(receptacletype \?\w+ (\w+?)type\)", text))
    flags = sum(bit for word, bit in _FLAGS.items() if word in words)
    if not strange and "istoggled" in words and set(objects) == {"ot", "o"} and "holds" in words:
        return Goal(objects["o"], objects["ot"], flags & ~TOGGLED, light=True)
    if not strange and "istoggled" not in words and len(set(objects.values())) == 1 and len(receptacles) == 1:
        return Goal(next(iter(objects.values())), receptacles.pop(), flags, count=2 if "=" in words else 1)
    raise BadFile(
        f"{source}: the goal is none of ALFWorld's six task types. Use engine='official' for such games."
    )


def names_of(ids: list[str]) -> dict[str, str]:
    """Official names for PDDL ids: `desk_bar__plus_02...` -> `desk 1`.

    Ids of one kind are numbered from the highest down in sorted order, as the official game does.
    """
    kinds = {}
    for key in ids:
        kind = key.split("_bar_", 1)[0]
        kinds[key] = kind + "basin" if "basin" in key else kind
    counts = Counter(kinds.values())
    names = {}
    for key in sorted(ids):
        kind = kinds[key]
        names[key] = f"{kind} {counts[kind]}"
        counts[kind] -= 1
    return names


def _build(facts: dict[str, list[list[str]]], goal: Goal, task: str) -> House:
    ids = {word for rows in facts.values() for row in rows for word in row if "_bar_" in word}
    names = names_of(sorted(ids))
    locations = dict(facts["receptacleatlocation"])
    receptacles = sorted(locations)
    kinds = dict(facts["receptacletype"])
    types = dict(facts["objecttype"])
    objects = sorted(
        {*types, *(o for o, _ in facts["inreceptacle"]), *(o for o, _ in facts["objectatlocation"])}
    )
    places = sorted(
        {p for _, p in facts["receptacleatlocation"] + facts["objectatlocation"] + facts["atlocation"]}
    )
    place_ids = {place: i for i, place in enumerate(places)}
    object_ids = {key: i for i, key in enumerate(objects)}
    receptacle_ids = {key: i for i, key in enumerate(receptacles)}
    ((_, start),) = facts["atlocation"]

    contents: list[set[int]] = [set() for _ in receptacles]
    for thing, receptacle in facts["inreceptacle"]:
        contents[receptacle_ids[receptacle]].add(object_ids[thing])
    where: list[set[int]] = [set() for _ in objects]
    for thing, place in facts["objectatlocation"]:
        where[object_ids[thing]].add(place_ids[place])
    takes: dict[str, set[str]] = defaultdict(set)
    for kind, held in facts["cancontain"]:
        takes[kind].add(held.removesuffix("type"))
    fits = {}
    for kind in set(kinds.values()):
        frozen = frozenset(takes[kind])
        fits[kind] = _shared_types.setdefault(frozen, frozen)
    inside: dict[int, list[int]] = {object_ids[row[0]]: [] for row in facts["isreceptacleobject"]}
    for inner, outer in facts["inreceptacleobject"]:
        if object_ids[outer] in inside and inner != outer:
            inside[object_ids[outer]].append(object_ids[inner])
    flags: dict[int, int] = defaultdict(int)
    for word, bit in _FLAGS.items():
        for row in facts[word]:
            flags[object_ids[row[0]]] |= bit

    def able(word: str) -> frozenset[int]:
        return frozenset(object_ids[row[0]] for row in facts[word] if row[0] in object_ids)

    return House(
        receptacles=tuple(names[key] for key in receptacles),
        receptacle_types=tuple(kinds[key].removesuffix("type") for key in receptacles),
        locations=tuple(place_ids[locations[key]] for key in receptacles),
        start=place_ids[start],
        fits=tuple(fits[kinds[key]] for key in receptacles),
        openable=frozenset(receptacle_ids[row[0]] for row in facts["openable"] if row[0] in receptacle_ids),
        opened=frozenset(receptacle_ids[row[0]] for row in facts["opened"] if row[0] in receptacle_ids),
        contents=tuple(tuple(sorted(things)) for things in contents),
        objects=tuple(names[key] for key in objects),
        object_types=tuple(types[key].removesuffix("type") for key in objects),
        places=tuple(frozenset(places) for places in where),
        pickupable=able("pickupable"),
        cleanable=able("cleanable"),
        heatable=able("heatable"),
        coolable=able("coolable"),
        sliceable=tuple(sorted(able("sliceable"))),
        toggleable=able("toggleable"),
        inside={thing: tuple(sorted(set(held))) for thing, held in inside.items()},
        flags=dict(flags),
        goal=goal,
        task=task,
    )
