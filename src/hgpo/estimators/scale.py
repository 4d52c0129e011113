"""Putting advantages on a common scale: division by their root mean square."""

from __future__ import annotations

from typing import Literal

import numpy as np

from ..steps.columns import FloatArray, IntArray
from .groups import ROUNDING

Over = Literal["batch", "task"]
FLOOR = 0.1
"""Default floor of the deviation, in reward units, for a success worth 10."""


def root_mean_square(values: FloatArray) -> float:
    """sqrt(mean x^2), or 1 where all are zero and there is nothing to scale.

    >>> root_mean_square(np.array([3.0, -3.0])), root_mean_square(np.zeros(2))
    (3.0, 1.0)
    """
    return float(np.sqrt(np.mean(np.square(values)))) or 1.0


def floored_deviation(advantages: FloatArray, labels: IntArray, floor: float) -> FloatArray:
    """sqrt(mean A^2 + floor^2) over each group of labels [steps], dense from 0. Float64 [groups].

    The mean is not subtracted: the baseline was, and another constant would only add what no step has earned.
    """
    squares = np.bincount(labels, np.square(advantages)) / np.bincount(labels)
    deviation: FloatArray = np.hypot(np.sqrt(squares), floor)
    deviation[deviation == 0.0] = 1.0
    return deviation


def without_rounding(advantages: FloatArray, rewards: FloatArray, values: FloatArray) -> FloatArray:
    """Exactly zero where the advantage is only rounding of what it is the difference of."""
    limit = ROUNDING * float(np.abs(rewards).max(initial=0.0) + np.abs(values).max(initial=0.0))
    return np.where(np.abs(advantages) <= limit, 0.0, advantages)
