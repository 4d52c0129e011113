"""What estimators over shrunk nested means share: their levels, their terms and one division at the end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from ..steps.columns import BoolArray, FloatArray, IntArray
from ..steps.labels import changes, dense
from .base import Mode, Record
from .groups import Groups, within_task
from .scale import Over, floored_deviation
from .shrinkage import Nested, Partition
from .terms import Level, Numbers, Shrinkage, Term


def rollouts(record: Record) -> IntArray:
    """The trajectories, counted from the first of their task. Int [steps]."""
    return within_task(record.trajectories.trajectory_ids, record.trajectories.task_ids)


def task_roots(record: Record) -> Partition:
    """The tasks as the groups above level 0."""
    return Partition.of(np.cumsum(changes(record.trajectories.task_ids)), rollouts(record))


def nested_levels(
    levels: npt.NDArray[np.int64],
    targets: FloatArray,
    values: Sequence[FloatArray],
    counts: Sequence[BoolArray],
) -> list[Level]:
    """What each level says of targets [steps]: their difference from the value v_k [steps] as far as that level.

    `counts` [steps] says to which steps the level's own mean matters.
    """
    seen = []
    for number, (labels, value, count) in enumerate(zip(levels, values, counts)):
        rows = np.flatnonzero(labels >= 0)
        groups = Groups.of(labels[rows], targets[rows])
        used = count[rows] & (groups.sizes > 1)[groups.labels]
        seen.append(Level(number, rows, groups, targets[rows] - value[rows], used))
    return seen


def level_terms(
    parts: Sequence[Partition],
    seen: Sequence[Level],
    score: FloatArray,
    baseline: Callable[[], Nested],
    above: tuple[str, Partition] | None = None,
) -> tuple[Term, ...]:
    """score - baseline().result [steps] as one comparison per level, each with the share of its mean in the baseline.

    Every step has every level here: one that is too early for a level is compared with the others of its parent group
    that are. With `above`, a name and groups, the estimate above the first level is a comparison of its own.
    """
    rows = np.arange(len(score))
    terms = [
        nested_term(f"level {number}", rows, part, baseline, number, score, level)
        for number, (part, level) in enumerate(zip(parts, seen))
    ]
    if above is not None:
        name, groups = above
        terms.insert(0, nested_term(name, rows, groups, baseline, -1, score))
    return tuple(terms)


def nested_term(
    name: str,
    rows: IntArray,
    part: Partition,
    means: Callable[[], Nested],
    number: int,
    score: FloatArray | None = None,
    level: Level | None = None,
) -> Term:
    """The part that level `number` has in nested means (-1: the start above the first level).

    `rows` [steps] are all of them. With a score [steps] the mean is a baseline and the term a comparison,
    share * (score - mean); without one the mean itself is what is summed, share * mean.
    """

    def numbers() -> Numbers:
        nested = means()
        mean = nested.means[number] if number >= 0 else nested.start
        own = nested.weights[number] if number >= 0 else np.ones(len(mean))
        value = nested.values[number] if number >= 0 else nested.start
        zeros, ones = np.zeros(len(mean)), np.ones(len(mean))
        compared, baseline = (mean, zeros) if score is None else (score, mean)
        sizes = part.sizes[part.labels].astype(np.int64)
        share = nested.shares()[number + 1]
        shrinkage = Shrinkage(own, value)
        return Numbers(part.labels, sizes, compared, baseline, ones, compared - baseline, share, shrinkage)

    return Term(name, rows, "steps", numbers, level)


def divide(
    advantages: FloatArray, terms: tuple[Term, ...], record: Record, mode: Mode, over: Over, floor: float
) -> tuple[FloatArray, tuple[Term, ...]]:
    """A / sqrt(mean A^2 + floor^2) over the batch or each task, and the terms that add up to it.

    `mean_norm` divides by nothing.
    """
    if mode == "mean_norm":
        return advantages, terms
    tasks = record.trajectories.task_ids
    labels = dense(tasks) if over == "task" else np.zeros_like(tasks)
    divisor = floored_deviation(advantages, labels, floor)[labels]
    divided: FloatArray = advantages / divisor
    return divided, tuple(_divided(term, divisor) for term in terms)


def _divided(term: Term, divisor: FloatArray) -> Term:
    """A term of all steps whose values are divided by a number of each step [steps]."""

    def numbers() -> Numbers:
        return replace(term.numbers, divisor=divisor, values=term.values / divisor)

    return replace(term, make=numbers)
