"""How situations in a house are written: in sentences (the style `household`), or for little computation (`env`)."""

from __future__ import annotations

import functools
import re
from dataclasses import replace

from ..prompt import PromptWords, Situation, together

_OPENING = re.compile(r"-=.*?=-|[Yy]our task is to:.*")
_AROUND = re.compile(r"Looking quickly around you, you see (.*?\d)\.", re.DOTALL)
_THING = re.compile(r"\b(?:an?|the) ([a-z]+ \d+)")
_LOOKING = frozenset({"help", "inventory", "look", "examine"})


def without_opening(observation: str) -> str:
    """An observation without the game's banner and the task sentence."""
    return _OPENING.sub(" ", observation)


def lasting_first(situation: Situation) -> str:
    """What lasts comes first: the task, the places of the room, then the past and the present.

    In other styles the list of places one can go to, half of a prompt, stands at its end and lacks the place where one
    is. Here it is as the first look at the room had it, in every prompt of the game, so a trainer and a sampler that
    compute equal beginnings once compute it once for all rollouts and all steps.
    """
    places = _places(situation.opening)
    lines = [f"task : {situation.task}"] if situation.task else []
    if places:
        lines.append("places : " + " , ".join(places))
    lines += [f"{_bare(entry.observation)} > {entry.action}" for entry in situation.history]
    if situation.status:
        lines.append(f"step {situation.step + 1} , {situation.status}")
    known = {f"go to {place}" for place in places}
    commands = [one for one in situation.admissible if one not in known and one.split(" ")[0] not in _LOOKING]
    if commands:
        lines.append("can : " + together(tuple(commands)))
    lines.append(f"{_bare(situation.observation)} >")
    return "\n".join(lines)


@functools.lru_cache(4096)
def _places(opening: str) -> tuple[str, ...]:
    """The places that the first look at a room names, in the order of the names and numbers."""
    seen = _AROUND.search(opening)
    names = _THING.findall(seen[1]) if seen else []
    return tuple(sorted(names, key=lambda name: (name.split(" ")[0], int(name.split(" ")[1]))))


@functools.lru_cache(4096)  # every observation is written K + 1 times
def _bare(observation: str) -> str:
    """An observation without what every prompt says anyway."""
    return " ".join(_AROUND.sub(" ", without_opening(observation)).split())


def _tidy(situation: Situation) -> Situation:
    """`help` only lists the commands that the prompt lists anyway."""
    return replace(situation, admissible=[command for command in situation.admissible if command != "help"])


PROMPT = PromptWords(
    opening="You are in a house and act in it by short text commands.",
    noun="command",
    listing="Commands that work now:",
    tidy=_tidy,
    chinese=False,
)
