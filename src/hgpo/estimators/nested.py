"""What estimators over shrunk nested means share: the report by level, and one normalisation at the end."""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt

from ..steps.columns import FloatArray
from .base import LevelValues, Record
from .groups import ROUNDING, Groups, dense
from .shrinkage import Nested, Partition

Over = Literal["batch", "task"]
FLOOR = 0.1
"""Default floor of the deviation, in reward units, for a success worth 10."""


def task_roots(record: Record) -> Partition:
    """The tasks as the groups above level 0."""
    return Partition.of(dense(record.trajectories.task_ids), record.trajectories.trajectory_ids)


def level_values(
    levels: npt.NDArray[np.int64], targets: FloatArray, values: Nested
) -> tuple[LevelValues, ...]:
    """What each level says of targets [steps]: their difference from the value as far as that level."""
    found = []
    for labels, estimate, weight in zip(levels, values.values, values.weights):
        rows = np.flatnonzero(labels >= 0)
        groups = Groups.of(labels[rows], targets[rows])
        used = (weight[rows] > 0.0) & (groups.sizes[groups.labels] > 1)
        found.append(LevelValues(rows, groups, targets[rows] - estimate[rows], used))
    return tuple(found)


def without_rounding(advantages: FloatArray, rewards: FloatArray, values: FloatArray) -> FloatArray:
    """Exactly zero where the advantage is only rounding of what it is the difference of."""
    limit = ROUNDING * float(np.abs(rewards).max(initial=0.0) + np.abs(values).max(initial=0.0))
    return np.where(np.abs(advantages) <= limit, 0.0, advantages)


def divide(advantages: FloatArray, record: Record, over: Over, floor: float) -> FloatArray:
    """A / sqrt(mean A^2 + floor^2) over the batch or each task. Float64 [steps].

    The mean is not subtracted: the baseline was, and another constant would only add what no step has earned.
    """
    tasks = dense(record.trajectories.task_ids)
    labels = tasks if over == "task" else np.zeros_like(tasks)
    squares = np.bincount(labels, np.square(advantages)) / np.bincount(labels)
    deviation = np.hypot(np.sqrt(squares), floor)
    deviation[deviation == 0.0] = 1.0
    divided: FloatArray = advantages / deviation[labels]
    return divided
