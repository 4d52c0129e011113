"""The one call from recorded steps to advantages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from .columns import FloatArray, IntArray
from .errors import BadSteps, UnknownName
from .estimators import ESTIMATORS
from .estimators.base import Record, Result
from .metrics import metrics
from .settings import build
from .steps import StepBatch


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
        batch: the recorded steps, in any order; rows with `padding` true are left out.
        name: one of `hgpo`, `hgpo_lambda`, `gigpo`, `graphgpo`, `g2po`, `grpo`, `dr_grpo`, `rloo`,
            `reinforce_plus_plus`.
        settings: settings of that estimator, see its module; unknown ones are an error.

    >>> rows = [
    ...     {"task": "t", "trajectory": i, "step": 0, "observation": "door", "reward": float(i)} for i in range(3)
    ... ]
    >>> estimate(StepBatch.from_rows(rows), "hgpo", depth=0, mode="mean_norm", weight_epsilon=0.0).advantages
    array([-1.,  0.,  1.])
    """
    return arrange(batch, compute(batch, name, settings))


def arrange(batch: StepBatch, computed: Computed) -> Estimate:
    """What was computed, in the order of the rows of `batch`."""
    record, result, rows = computed.record, computed.result, computed.rows
    if np.array_equal(rows, np.arange(len(batch))):  # the usual order of a file: nothing to rearrange
        return Estimate(result.advantages, result.returns, result.levels, metrics(record, result))
    advantages, returns = np.zeros(len(batch)), np.zeros(len(batch))
    advantages[rows], returns[rows] = result.advantages, result.returns
    levels = np.full((len(result.levels), len(batch)), -1, dtype=np.int64)
    levels[:, rows] = result.levels
    return Estimate(advantages, returns, levels, metrics(record, result))


@dataclass(frozen=True)
class Computed:
    """An estimator's result before it is put into the order of the given rows."""

    record: Record
    settings: Any
    """The estimator's settings object."""
    result: Result
    rows: IntArray
    """[real steps] row of the batch at each canonical position."""


def compute(batch: StepBatch, name: str, settings: Mapping[str, Any]) -> Computed:
    """Check the settings, leave out padding and run the estimator called `name`."""
    if name not in ESTIMATORS:
        raise UnknownName("estimator", name, ESTIMATORS)
    estimator = ESTIMATORS[name]
    chosen = build(estimator.settings, settings, f"estimator {name!r}")
    active = np.flatnonzero(~batch.flag("padding"))
    if len(active) == 0:
        raise BadSteps("Every row of the batch is padding; expected at least one real step.")
    real = batch if len(active) == len(batch) else batch.take(active)
    record = Record.of(real)
    # Overflow shows as a value that is not finite, which is explained below instead of warned about here.
    with np.errstate(over="ignore", invalid="ignore"):
        result = estimator.compute(record, chosen)
        if not np.isfinite(result.advantages.sum()):
            raise BadSteps(
                "The advantages are not finite because the rewards are too large for float64 arithmetic; "
                f"the largest is {float(np.abs(record.rewards).max())}. Scale the rewards down."
            )
    return Computed(record, chosen, result, active[record.trajectories.order])
