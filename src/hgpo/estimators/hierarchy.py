"""The hierarchy of groups: steps that share their state and more and more of their history.

Level k holds the groups G_k of steps with equal k-step contexts C_k (Eq. 3-5 of the paper). Level k + 1 splits
the groups of level k by one more step of history, so the levels are nested by construction:

    G_0  >=  G_1  >=  ...  >=  G_K

A step with fewer than k predecessors has no level k (label -1).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..steps.columns import IntArray
from ..steps.labels import dense
from ..steps.order import Trajectories
from .contexts import Contexts
from .groups import within_task


def hierarchy(contexts: Contexts, trajectories: Trajectories, depth: int) -> npt.NDArray[np.int64]:
    """Group labels of every step at every level: int [depth + 1, steps], canonical order, -1 for no such level."""
    levels = np.full((depth + 1, len(contexts.current)), -1, dtype=np.int64)
    levels[0] = dense(contexts.current)
    past = within_task(contexts.past, trajectories.task_ids)
    for level in range(1, depth + 1):
        rows = np.flatnonzero(trajectories.step >= level)
        if len(rows) == 0:
            break
        levels[level, rows] = split(levels[level - 1, rows], past[rows - level])
    return levels


def split(labels: IntArray, codes: IntArray) -> IntArray:
    """Split groups [n] by codes [n]: equal new labels where both are equal. Dense from 0.

    A group of one cannot be split further, so only the members of larger groups are looked at.
    """
    several = (np.bincount(labels) > 1)[labels]
    shared, single = np.flatnonzero(several), np.flatnonzero(~several)
    new = np.empty_like(labels)
    inner = dense(labels[shared] * (int(codes.max(initial=0)) + 1) + codes[shared])
    new[shared] = inner
    count = int(inner.max(initial=-1)) + 1
    new[single] = np.arange(count, count + len(single))
    return new
