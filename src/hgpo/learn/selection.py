"""Which of an iteration's steps are trained on, and with what advantage; needs no torch."""

from __future__ import annotations

import numpy as np

from ..config.schema import UpdateConfig
from ..estimators.scale import root_mean_square
from ..steps.batch import StepBatch
from ..steps.columns import BoolArray

EQUAL = 1e-9
"""Rollouts whose returns differ by less earned the same."""


def select(batch: StepBatch, settings: UpdateConfig) -> tuple[StepBatch, int]:
    """The steps of the update, and how many groups were left out.

    Args:
        batch: steps with `response_ids` and the estimator's `advantage`.
        settings: `filter_groups` leaves out groups whose members all earned the same; `normalise_advantages` divides
            all advantages by their root mean square (over all steps of the batch).
    """
    kept = batch.lists("response_ids").lengths > 0
    left_out = 0
    if settings.filter_groups:
        equal, left_out = _equal_returns(batch)
        kept &= ~equal
    if settings.normalise_advantages:
        advantages = batch["advantage"]
        batch = batch.with_columns(advantage=advantages / root_mean_square(advantages))
    return (batch if kept.all() else batch.take(kept)), left_out


def _equal_returns(batch: StepBatch) -> tuple[BoolArray, int]:
    """[steps] whether all members of the step's group earned the same, and the number of such groups."""
    order = batch.trajectories
    returns = np.bincount(order.trajectory_ids, batch.rewards[order.order])
    groups = order.task_ids[order.step == 0]
    low, high = (np.full(int(groups.max()) + 1, value) for value in (np.inf, -np.inf))
    np.minimum.at(low, groups, returns)
    np.maximum.at(high, groups, returns)
    present = np.isfinite(high)
    equal = present & (np.where(present, high, 0.0) - np.where(present, low, 0.0) < EQUAL)
    of_step = np.zeros(len(batch), dtype=bool)
    of_step[order.order] = equal[order.task_ids]
    return of_step, int(equal.sum())


def distinct_prompt_share(batch: StepBatch) -> float:
    """Share of the prompt tokens that is left when equal prompts count once: what sharing them could save."""
    prompts = batch.lists("prompt_ids")
    distinct = {prompts[row].tobytes() for row in range(len(prompts))}
    return sum(map(len, distinct)) / max(1, prompts.values.nbytes)
