"""How unsolved episodes went: what a policy does when it does not reach the goal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from ..play import Episode

WAYS = {
    "unplayed": "could not be played to their end",
    "ended": "ended by the environment",
    "refused": "mostly commands that were not taken",
    "circles": "in circles: mostly what was done there before",
    "back": "mostly in places seen before",
    "new": "finding new places to the last step",
}
"""Every way, as `way` tells them apart, with its words; the first that fits is the one."""


def way(episode: Episode) -> str:
    """How an episode that was not solved went; mostly means in at least half of its steps.

    A place is an observation: the same text is the same place. `circles` repeats an action in a place where it was
    taken before, `back` tries something else there.
    """
    steps = episode.steps
    if not steps:
        return "unplayed"
    if steps[-1].terminated:
        return "ended"
    refused = repeated = returned = 0
    places: set[str] = set()
    deeds: set[tuple[str, str]] = set()
    for step in steps:
        refused += step.outcome != "ok"
        returned += step.observation in places
        repeated += (step.observation, step.action) in deeds
        places.add(step.observation)
        deeds.add((step.observation, step.action))
    for name, count in (("refused", refused), ("circles", repeated), ("back", returned)):
        if 2 * count >= len(steps):
            return name
    return "new"


def ways(episodes: Iterable[Episode]) -> dict[str, int]:
    """How many of the unsolved episodes went which way, the most frequent first."""
    found = Counter(way(episode) for episode in episodes if not episode.success)
    return dict(sorted(found.items(), key=lambda item: (-item[1], list(WAYS).index(item[0]))))


def sentence(found: dict[str, int]) -> str:
    """`18 not solved: 10 mostly in places seen before, 8 ended by the environment`."""
    parts = ", ".join(f"{count} {WAYS[name]}" for name, count in found.items())
    return f"{sum(found.values())} not solved: {parts}"
