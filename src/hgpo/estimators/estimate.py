"""The one call from recorded steps to advantages."""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import BadSteps, UnknownName
from ..settings import build
from ..steps.batch import StepBatch
from ..steps.columns import FloatArray, IntArray
from ..steps.order import Trajectories
from .base import Estimator, Record
from .metrics import EstimateCounts
from .table import ESTIMATORS
from .terms import Result

PIECE = 100_000
"""Steps that are worked on at once where tasks can be taken one after the other."""

LARGEST = 1e100
"""The largest reward: sums over millions of squares of such numbers are still far from what float64 can hold."""


@dataclass(frozen=True)
class Estimate:
    """Advantages of a batch; every array is in the order of the given rows."""

    advantages: FloatArray
    """float64 [steps]; 0 on padding rows."""
    returns: FloatArray
    """float64 [steps], the discounted returns the estimator compared, penalties included; 0 on padding rows."""
    levels: npt.NDArray[np.int64] = field(repr=False)
    """int [depth + 1, steps]: group of each step at each level, -1 where it has none (and on padding rows)."""
    metrics: dict[str, float] = field(repr=False)
    """Names and meanings are in docs/metrics.md."""


def estimate(batch: StepBatch, name: str = "hgpo", **settings: Any) -> Estimate:
    """Compute the advantage of every step with the estimator called `name`.

    Args:
        batch: the recorded steps, in any order; rows with `padding` true are left out. Where they have the column
            `iteration`, each iteration is estimated by itself.
        name: a name of `ESTIMATORS` in `table.py`, such as `hgpo`, `hgpo_lambda`, `gigpo` or `grpo`.
        settings: settings of that estimator, see its module; unknown ones are an error.

    >>> rows = [
    ...     {"task": "t", "trajectory": i, "step": 0, "observation": "door", "reward": float(i)} for i in range(3)
    ... ]
    >>> estimate(StepBatch.from_rows(rows), "hgpo", depth=0, mode="mean_norm", weight_epsilon=0.0).advantages
    array([-1.,  0.,  1.])
    """
    estimator, chosen = choose(name, settings)
    if len(batch.by_iteration()) == 1 and (len(batch) <= PIECE or not estimator.by_task(chosen)):
        return arrange(batch, whole(batch, estimator, chosen))
    return by_pieces(batch, estimator, chosen)


def by_pieces(batch: StepBatch, estimator: Estimator, settings: Any) -> Estimate:
    """The same estimate from one piece of the batch after the other, each of whole tasks of one iteration.

    The arrays of a piece stay in the processor's cache and their memory is used again, so a step costs the same in a
    batch of any size.
    """
    active, real = real_steps(batch)
    advantages, returns = np.zeros(len(batch)), np.zeros(len(batch))
    levels, labels = np.empty((0, 0), dtype=np.int64), np.empty((0, 1), dtype=np.int64)
    counts: list[EstimateCounts] = []
    for piece in pieces(real, estimator.by_task(settings)):
        computed = run(estimator, settings, real.take(piece))
        result, rows = computed.result, active[piece[computed.rows]]
        if not counts:
            levels = np.full((len(result.levels), len(batch)), -1, dtype=np.int64)
            labels = np.zeros((len(levels), 1), dtype=np.int64)  # how many are taken, by level
        advantages[rows], returns[rows] = result.advantages, result.returns
        levels[:, rows] = np.where(result.levels < 0, -1, result.levels + labels)
        labels = labels + result.levels.max(axis=1, initial=-1, keepdims=True) + 1
        counts.append(EstimateCounts.of(computed.record, result))
    return Estimate(advantages, returns, levels, functools.reduce(operator.add, counts).metrics())


def pieces(batch: StepBatch, by_task: bool) -> Iterator[IntArray]:
    """Row numbers of the batch by iteration, and within one by task where tasks do not depend on each other."""
    parts = batch.by_iteration()
    for _, rows in parts:
        if not by_task or len(rows) <= PIECE:
            yield rows
        else:
            one = batch if len(parts) == 1 else batch.take(rows)
            yield from (rows[piece] for piece in task_pieces(one.trajectories))


def task_pieces(trajectories: Trajectories) -> Iterator[IntArray]:
    """Row numbers in canonical order, cut between tasks once there are `PIECE` of them."""
    ends = np.append(np.flatnonzero(np.diff(trajectories.task_ids)) + 1, len(trajectories.order))
    start = 0
    while start < len(trajectories.order):
        end = int(ends[min(int(np.searchsorted(ends, start + PIECE)), len(ends) - 1)])
        yield trajectories.order[start:end]
        start = end


def arrange(batch: StepBatch, computed: Computed) -> Estimate:
    """What was computed, in the order of the rows of `batch`."""
    record, result, rows = computed.record, computed.result, computed.rows
    if np.array_equal(rows, np.arange(len(batch))):  # the usual order of a file: nothing to rearrange
        return Estimate(
            result.advantages, result.returns, result.levels, EstimateCounts.of(record, result).metrics()
        )
    advantages, returns = np.zeros(len(batch)), np.zeros(len(batch))
    advantages[rows], returns[rows] = result.advantages, result.returns
    levels = np.full((len(result.levels), len(batch)), -1, dtype=np.int64)
    levels[:, rows] = result.levels
    return Estimate(advantages, returns, levels, EstimateCounts.of(record, result).metrics())


@dataclass(frozen=True)
class Computed:
    """An estimator's result before it is put into the order of the given rows."""

    estimator: Estimator
    settings: Any
    """Its settings object."""
    record: Record
    result: Result
    rows: IntArray
    """[real steps] row of the batch at each canonical position."""


def compute(batch: StepBatch, name: str, settings: Mapping[str, Any]) -> Computed:
    """Check the settings, leave out padding and run the estimator called `name` on the steps of one iteration."""
    numbers = [number for number, _ in batch.by_iteration()]
    if len(numbers) > 1:
        raise BadSteps(
            f"The steps are of {len(numbers)} iterations ({numbers[0]} to {numbers[-1]}), which are never compared "
            f"with each other; expected one. Take it with batch.take(batch['iteration'] == {numbers[0]})."
        )
    return whole(batch, *choose(name, settings))


def whole(batch: StepBatch, estimator: Estimator, settings: Any) -> Computed:
    """Leave out padding and run an estimator on all the rest at once."""
    active, real = real_steps(batch)
    computed = run(estimator, settings, real)
    return replace(computed, rows=active[computed.rows])


def choose(name: str, settings: Mapping[str, Any]) -> tuple[Estimator, Any]:
    """The estimator called `name` and its settings object."""
    if name not in ESTIMATORS:
        raise UnknownName("estimator", name, ESTIMATORS)
    estimator = ESTIMATORS[name]
    return estimator, build(estimator.settings, settings, f"estimator {name!r}")


def real_steps(batch: StepBatch) -> tuple[IntArray, StepBatch]:
    """The rows that are not padding: their numbers, and a batch of them."""
    active = np.flatnonzero(~batch.flag("padding"))
    if len(active) == 0:
        raise BadSteps("Every row of the batch is padding; expected at least one real step.")
    return active, batch if len(active) == len(batch) else batch.take(active)


def run(estimator: Estimator, settings: Any, real: StepBatch) -> Computed:
    """Run an estimator on a batch without padding."""
    record = Record.of(real)
    check_scale(record.rewards)
    # Distances between states that no path joins are infinite, and so is nothing else.
    with np.errstate(invalid="ignore"):
        result = estimator.compute(record, settings)
    return Computed(estimator, settings, record, result, record.trajectories.order)


def check_scale(rewards: FloatArray) -> None:
    """Refuse rewards whose squares float64 cannot hold: with an infinite deviation every advantage would be zero."""
    largest = max(float(rewards.max()), -float(rewards.min()))
    if largest > LARGEST:
        raise BadSteps(
            f"The rewards are too large for float64 arithmetic: the largest is {largest:g} in size; expected at most "
            f"{LARGEST:g}. Scale the rewards down."
        )
