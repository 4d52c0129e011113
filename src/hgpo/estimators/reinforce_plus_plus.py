"""REINFORCE++: returns normalised over the whole batch.

REINFORCE++: Stabilizing Critic-Free Policy Optimization, arXiv 2501.03262.

    A(t) = (B_t - mean of B over the batch) / (std of B over the batch + epsilon)

with B_t = R_t, or with `baseline="group"` (its "-baseline" form) B_t = R_t minus the mean score of the task's
trajectories. With gamma = 1 and a reward at the end, R_t is the score of the episode.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np

from ..settings import Settings, setting
from ..steps.columns import FloatArray
from . import base
from .base import Estimator, Record
from .groups import Groups
from .returns import task_of_trajectory
from .terms import Numbers, Part, Result, Score, Term, plain_sum


@dataclass(frozen=True)
class ReinforcePlusPlusSettings(Settings):
    """Settings of REINFORCE++."""

    baseline: Literal["none", "group"] = setting(
        "none",
        "Subtract the mean first-step return of the task's trajectories before normalising, or nothing.",
    )
    std: base.Std = setting("population", "Deviation over n (population) or n - 1 (sample).")
    epsilon: float = setting(1e-8, "Added to the deviation.", low=0.0)
    gamma: float = setting(1.0, "Discount of the step returns.", low=0.0, high=1.0)
    invalid_penalty: float = setting(
        0.0, "Subtracted from the reward of each action that is not valid.", low=0.0
    )


def compute(record: Record, s: ReinforcePlusPlusSettings) -> Result:
    """Advantages of all steps; see the module's formula."""
    trajectories = record.trajectories
    returns = base.step_returns(record, s.gamma, s.invalid_penalty, "before_discount")
    scores, make_score = returns, None
    if s.baseline == "group":
        starts = returns[trajectories.step == 0]
        tasks = Groups.of(task_of_trajectory(trajectories), starts)
        task_means = tasks.means[trajectories.task_ids]
        scores = returns - task_means
        make_score = partial(centred_score, returns, task_means, scores)
    batch = Groups.of(np.zeros(len(scores), dtype=np.int64), scores)
    advantages, divisor = base.normalise(batch, batch.deviations, "mean_std_norm", s.std, s.epsilon)

    def numbers() -> Numbers:
        ones = np.ones(len(scores))
        return Numbers(
            batch.labels,
            batch.sizes[batch.labels],
            scores,
            batch.means[batch.labels],
            divisor[batch.labels],
            advantages,
            ones,
        )

    terms = (Term("batch", np.arange(len(scores)), "steps", numbers),)
    return Result(advantages, returns, base.no_levels(record), plain_sum(advantages, terms), make_score)


def centred_score(returns: FloatArray, task_means: FloatArray, scores: FloatArray) -> Score:
    """Where B comes from: all [steps]."""
    parts = (Part("return", 1.0, returns), Part("mean of the task", -1.0, task_means))
    return Score("B", "return - mean first return of the task's trajectories", scores, parts)


# The deviation is that of the whole batch.
ESTIMATOR = Estimator(ReinforcePlusPlusSettings, compute, by_task=lambda s: False)
