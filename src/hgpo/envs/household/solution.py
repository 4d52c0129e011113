"""A way to solve a house for someone who knows where everything is.

Like the walkthroughs stored with the official games: it goes straight to the object. Used to show that every
generated task can be solved, and to replay.
"""

from __future__ import annotations

from .house import CLEAN, COOL, HOT, House
from .simulation import FRIDGES, MICROWAVES, SINKS

_APPLIANCES = {CLEAN: ("clean", SINKS), HOT: ("heat", MICROWAVES), COOL: ("cool", FRIDGES)}


def solution(house: House) -> list[str]:
    """Commands that solve the task from the house's first state.

    Raises ValueError where this simple plan finds no way (never for generated houses).
    """
    plan: list[str] = []
    goal = house.goal
    opened = set(house.opened)
    here = house.start

    def visit(receptacle: int, *, need_open: bool) -> None:
        nonlocal here
        name = house.receptacles[receptacle]
        if house.locations[receptacle] != here:
            plan.append(f"go to {name}")
            here = house.locations[receptacle]
        if need_open and receptacle in house.openable and receptacle not in opened:
            plan.append(f"open {name}")
            opened.add(receptacle)

    def fetch(thing: int, receptacle: int) -> None:
        visit(receptacle, need_open=True)
        plan.append(f"take {house.objects[thing]} from {house.receptacles[receptacle]}")

    objects = [
        (thing, receptacle)
        for receptacle, things in enumerate(house.contents)
        for thing in things
        if thing in house.goal_objects and thing in house.pickupable
    ]
    if goal.light:
        lamps = [(o, r) for r, things in enumerate(house.contents) for o in things if o in house.goal_targets]
        if not objects or not lamps:
            raise ValueError("the object or the lamp is nowhere")
        fetch(*objects[0])
        visit(lamps[0][1], need_open=False)
        return [*plan, f"use {house.objects[lamps[0][0]]}"]
    targets = [r for r in house.goal_targets if goal.object_type in house.fits[r]]
    if len(objects) < goal.count or not targets:
        raise ValueError("too few objects, or no receptacle takes them")
    for thing, receptacle in objects[: goal.count]:
        fetch(thing, receptacle)
        for flag, (verb, kinds) in _APPLIANCES.items():
            if goal.flags & flag:
                appliances = [r for r, kind in enumerate(house.receptacle_types) if kind in kinds]
                if not appliances:
                    raise ValueError(f"nothing to {verb} with")
                visit(appliances[0], need_open=False)
                plan.append(f"{verb} {house.objects[thing]} with {house.receptacles[appliances[0]]}")
        visit(targets[0], need_open=True)
        plan.append(f"move {house.objects[thing]} to {house.receptacles[targets[0]]}")
    return plan
