"""Means with honest intervals."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..seeds import generator


@functools.cache
def t95(degrees: int) -> float:
    """The two-sided 95% point of Student's t, from 1 degree of freedom.

    >>> round(t95(1), 4), round(t95(10), 4), round(t95(1000), 4)
    (12.7062, 2.2281, 1.9623)
    """
    low, high = 0.0, 13.0
    while high - low > 1e-13 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if _central(middle, degrees) < 0.95 else (low, middle)
    return high


def _central(t: float, degrees: int) -> float:
    """Probability that Student's t lies between -t and t: the finite series for whole degrees of freedom."""
    angle = math.atan(t / math.sqrt(degrees))
    sine, cosine = math.sin(angle), math.cos(angle)
    odd = degrees % 2
    term = cosine if odd else 1.0
    total = term if degrees > 1 else 0.0
    for number in range(2 + odd, degrees - 1, 2):
        term *= cosine * cosine * (number - 1) / number
        total += term
    return (angle + sine * total) * 2 / math.pi if odd else sine * total


def over_runs(values: Sequence[float]) -> dict[str, float]:
    """Mean, sample deviation and 95% t-interval over independent runs (training seeds).

    >>> over_runs([1.0, 2.0, 3.0])["mean"]
    2.0
    """
    data = np.asarray(values, dtype=float)
    mean = float(data.mean())
    if len(data) < 2:
        return {"runs": float(len(data)), "mean": mean, "std": math.nan, "low": math.nan, "high": math.nan}
    std = float(data.std(ddof=1))
    half = t95(len(data) - 1) * std / math.sqrt(len(data))
    return {"runs": float(len(data)), "mean": mean, "std": std, "low": mean - half, "high": mean + half}


def between_shares(one: float, two: float, tasks: int) -> tuple[float, float]:
    """The 95% interval of `two - one`, two shares of solved tasks that were measured on `tasks` tasks each.

    Agresti and Caffo's: each share with one more success and one more failure, then the normal interval. The two count
    as independent; on the same tasks they go together, so the interval is wide rather than narrow.

    >>> [round(end, 3) for end in between_shares(0.25, 0.5, 40)]
    [0.037, 0.439]
    """
    low, high = ((share * tasks + 1) / (tasks + 2) for share in (one, two))
    half = 1.96 * math.sqrt((low * (1 - low) + high * (1 - high)) / (tasks + 2))
    return max(-1.0, high - low - half), min(1.0, high - low + half)


def between_arms(table: Sequence[Sequence[float]]) -> float:
    """Half width of the 95% interval of a difference of two rows' means in `table` [arms, seeds].

    A value is taken as the sum of its arm's effect, its seed's effect (the runs of a seed play the same tasks) and
    noise of one size for all arms, estimated from what the two effects leave over: with few seeds a pair's own
    deviation is a matter of luck.

        residual(a, s) = x(a, s) - mean of a - mean of s + mean of all
        half = t(d) sqrt(sum of residual^2 / d) sqrt(2 / seeds),  d = (arms - 1) (seeds - 1)

    >>> round(between_arms([[1.0, 2.0, 3.0], [2.0, 3.0, 4.5]]), 3)
    0.717
    """
    data = np.asarray(table, dtype=float)
    arms, seeds = data.shape
    degrees = (arms - 1) * (seeds - 1)
    if degrees < 1:
        return math.nan
    left = data - data.mean(1, keepdims=True) - data.mean(0, keepdims=True) + data.mean()
    return t95(degrees) * math.sqrt(float((left**2).sum()) / degrees) * math.sqrt(2 / seeds)


def wilson(successes: float, count: int) -> tuple[float, float]:
    """95% Wilson interval of a proportion.

    >>> low, high = wilson(5, 10)
    >>> round(low, 3), round(high, 3)
    (0.237, 0.763)
    """
    if count == 0:
        return 0.0, 1.0
    z, share = 1.959964, successes / count
    centre = (share + z * z / (2 * count)) / (1 + z * z / count)
    half = z / (1 + z * z / count) * math.sqrt(share * (1 - share) / count + z * z / (4 * count * count))
    return max(0.0, centre - half), min(1.0, centre + half)


def over_tasks(table: np.ndarray[Any, Any], resamples: int = 4000) -> tuple[float, float]:
    """95% bootstrap interval of the mean of `table` [seeds, tasks], tasks resampled whole.

    Replies to the same task under several seeds are not independent; resampling tasks keeps them
    together. When every task agrees the bootstrap would claim certainty, so the Wilson interval over tasks
    is used there.
    """
    per_task = np.asarray(table, dtype=float).mean(axis=0)
    if np.ptp(per_task) == 0:
        return wilson(float(per_task.sum()), len(per_task))
    random = generator("bootstrap", len(per_task))
    picks = random.integers(0, len(per_task), size=(resamples, len(per_task)))
    means = per_task[picks].mean(axis=1)
    low, high = np.quantile(means, [0.025, 0.975])
    return float(low), float(high)
