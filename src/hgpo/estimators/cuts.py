"""Rollouts that were cut while the task went on, and which context came next.

The context after the last step is the state of its `next_observation` with the steps before it as history. It is looked
up among the contexts that were acted in, level by level as far as they agree; since all members of a group of level k
share v_k, the value of what came next is v_k of any member of the deepest group that fits. Where not even the state was
acted in, or it was not recorded, the value of the last context stands in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..steps.columns import FloatArray, IntArray
from .base import Record, TimeLimit
from .contexts import Key, history
from .following import NONE, recorded_next
from .shrinkage import Partition


@dataclass(frozen=True)
class Cuts:
    """The last steps of cut rollouts, and where the value of what came next is found; arrays are [cuts]."""

    rows: IntArray
    """Canonical position of the step."""
    level: IntArray
    """The deepest level at which the context that came next was acted in."""
    place: IntArray
    """Canonical position of a step in that group."""

    def values(self, by_level: Sequence[FloatArray]) -> FloatArray:
        """The values of what came next, from v_k [steps] of every level k. Float64 [cuts]."""
        found = np.zeros(len(self.rows))
        if len(found):
            for number, values in enumerate(by_level):
                here = self.level == number
                found[here] = values[self.place[here]]
        return found


def find_cuts(
    record: Record, parts: Sequence[Partition], key: Key, similarity: float, time_limit: TimeLimit
) -> Cuts:
    """The cut rollouts of a batch whose steps are split into nested `parts`."""
    rows = np.flatnonzero(record.cut(time_limit))
    level, place = np.full(len(rows), len(parts) - 1), rows.copy()
    group = recorded_next(record, rows, key, similarity).state
    if (group == NONE).all():
        return Cuts(rows, level, place)
    step, past = record.trajectories.step, record.contexts(key, similarity).past
    for number, part in enumerate(parts):
        if number:
            # Members of a group share their parent group and what they remember of the step `number` places before;
            # one too early for that has nothing there.
            remembered = np.where(step >= number, history(past, number) + 1, 0)
            before = np.where(step[rows] + 1 >= number, past[np.maximum(rows - number + 1, 0)] + 1, 0)
            width = int(past.max()) + 2
            parent = parts[number - 1].labels
            group = _find(
                parent * width + remembered,
                part,
                np.where(group == NONE, NONE, group * width + before),
            )
        found = group != NONE
        level[found] = number
        place[found] = part.last[group[found]]
    return Cuts(rows, level, place)


def _find(keys: IntArray, part: Partition, asked: IntArray) -> IntArray:
    """Group [m] whose members have the asked key [m] among keys [steps], or `NONE`."""
    by_group = keys[part.last]
    order = np.argsort(by_group)
    place = np.minimum(np.searchsorted(by_group, asked, sorter=order), len(order) - 1)
    groups = order[place]
    found: IntArray = np.where(by_group[groups] == asked, groups, NONE)
    return found
