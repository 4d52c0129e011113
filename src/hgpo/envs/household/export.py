"""Write a house as an official game, so that the official engine can play it.

    write_game(house, folder / "json_2.1.1" / "train" / "made-up-1" / "trial_1", domain, grammar)

The parity test uses this to let both engines play generated houses where no official games are at hand.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from ...files import write_text
from .house import CLEAN, COOL, HOT, SLICED, TOGGLED, House

_FLAG_WORDS = {CLEAN: "isClean", HOT: "isHot", COOL: "isCool", SLICED: "isSliced", TOGGLED: "isToggled"}
_ABLE = {CLEAN: "cleanable", HOT: "heatable", COOL: "coolable"}
# Types that the domain's rules name; the planner wants them declared in every problem.
_RULE_TYPES = ("sink", "sinkbasin", "microwave", "fridge")
_RULE_OBJECTS = ("knife", "butterknife")


def problem_text(house: House) -> str:
    """The PDDL problem of a house; `parse_problem` reads it back to the same house."""
    receptacles = _ids(house.receptacle_types)
    objects = _ids(house.object_types)
    places = range(1 + max({house.start, *house.locations, *(p for places in house.places for p in places)}))
    declared = [("agent1", "agent")]
    declared += [(f"loc_bar_{place:03d}", "location") for place in places]
    declared += [(key, "receptacle") for key in receptacles] + [(key, "object") for key in objects]
    kinds = sorted({*house.receptacle_types, *_RULE_TYPES})
    things = sorted({*house.object_types, *_RULE_OBJECTS, *(t for fits in house.fits for t in fits)})
    declared += [(f"{kind}Type", "rtype") for kind in kinds] + [(f"{kind}Type", "otype") for kind in things]
    return "\n".join(
        [
            "(define (problem generated)",
            "(:domain alfred)",
            "(:objects",
            *(f"{name} - {kind}" for name, kind in declared),
            ")",
            "(:init",
            *(f"({' '.join(fact)})" for fact in _facts(house, receptacles, objects)),
            ")",
            f"(:goal (and {_goal(house)}))",
            ")",
        ]
    )


def write_game(
    house: House, folder: Path, domain: str, grammar: str, walkthrough: Iterable[str] = ()
) -> None:
    """Write `game.tw-pddl` into `folder`, with the domain and the grammar that alfworld packages."""
    folder.mkdir(parents=True, exist_ok=True)
    content = {
        "pddl_domain": domain,
        "grammar": grammar.replace("UNKNOWN GOAL.", house.task),
        "pddl_problem": problem_text(house),
        "solvable": True,
        "walkthrough": list(walkthrough),
    }
    write_text(folder / "game.tw-pddl", json.dumps(content))


def _ids(kinds: Iterable[str]) -> list[str]:
    """Ids whose sorted order is the listing order, and from which the official game derives our names."""
    ids = []
    for number, kind in enumerate(kinds):
        base = kind.removesuffix("basin")
        ids.append(f"{base}_bar__plus_{number:03d}" + (f"_bar_{kind}" if base != kind else ""))
    return ids


def _facts(house: House, receptacles: list[str], objects: list[str]) -> Iterable[tuple[str, ...]]:
    yield "atLocation", "agent1", f"loc_bar_{house.start:03d}"
    taken: set[tuple[str, str]] = set()
    for r, key in enumerate(receptacles):
        kind = house.receptacle_types[r]
        yield "receptacleType", key, f"{kind}Type"
        yield "receptacleAtLocation", key, f"loc_bar_{house.locations[r]:03d}"
        taken |= {(kind, thing) for thing in house.fits[r]}
        for o in house.contents[r]:
            yield "inReceptacle", objects[o], key
    for r in sorted(house.openable):
        yield "openable", receptacles[r]
    for r in sorted(house.opened):
        yield "opened", receptacles[r]
    for kind, thing in sorted(taken):
        yield "canContain", f"{kind}Type", f"{thing}Type"
    for o, key in enumerate(objects):
        yield "objectType", key, f"{house.object_types[o]}Type"
        for place in sorted(house.places[o]):
            yield "objectAtLocation", key, f"loc_bar_{place:03d}"
    for word in ("pickupable", "cleanable", "heatable", "coolable", "sliceable", "toggleable"):
        for o in sorted(getattr(house, word)):
            yield word, objects[o]
    for outer, held in sorted(house.inside.items()):
        yield "isReceptacleObject", objects[outer]
        for inner in held:
            yield "inReceptacleObject", objects[inner], objects[outer]
    for o, flags in sorted(house.flags.items()):
        for bit, word in _FLAG_WORDS.items():
            if flags & bit:
                yield word, objects[o]


def _goal(house: House) -> str:
    goal = house.goal
    thing, target = f"{goal.object_type}Type", f"{goal.target_type}Type"
    if goal.light:
        return (
            "(exists (?ot - object ?r - receptacle ?a - agent ?l - location) (and"
            f" (objectType ?ot {target}) (toggleable ?ot) (isToggled ?ot) (receptacleAtLocation ?r ?l)"
            " (atLocation ?a ?l) (inReceptacle ?ot ?r)))"
            f" (exists (?o - object ?a - agent) (and (objectType ?o {thing}) (holds ?a ?o)))"
        )
    if goal.count == 2:
        return (
            f"(exists (?r - receptacle) (exists (?o1 - object) (and (objectType ?o1 {thing})"
            f" (receptacleType ?r {target}) (inReceptacle ?o1 ?r) (exists (?o2 - object) (and"
            f" (not (= ?o1 ?o2)) (objectType ?o2 {thing}) (receptacleType ?r {target})"
            " (inReceptacle ?o2 ?r))))))"
        )
    asked = "".join(
        f" ({_ABLE[bit]} ?o) ({_FLAG_WORDS[bit]} ?o)" for bit in (CLEAN, HOT, COOL) if goal.flags & bit
    )
    return (
        f"(exists (?r - receptacle) (exists (?o - object) (and (objectType ?o {thing})"
        f" (receptacleType ?r {target}){asked} (inReceptacle ?o ?r))))"
    )
