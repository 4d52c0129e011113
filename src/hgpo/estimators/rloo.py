"""RLOO: each rollout against the mean of the others.

Back to Basics: Revisiting REINFORCE Style Optimization, arXiv 2402.14740. With S_i the sum of rewards of
trajectory i among the n rollouts of a task:

    A_i = S_i - 1/(n - 1) sum over j != i of S_j  =  n/(n - 1) (S_i - mean_j S_j)

Every step of a trajectory gets A_i; a task with a single rollout gets zero.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..settings import Settings, setting
from . import base
from .base import Estimator, Record
from .groups import Groups
from .returns import task_of_trajectory, trajectory_sums
from .terms import Numbers, Result, Term, plain_sum


@dataclass(frozen=True)
class RlooSettings(Settings):
    """Settings of RLOO."""

    gamma: float = setting(
        0.95, "Discount of the reported step returns; the advantages do not use it.", low=0.0, high=1.0
    )
    invalid_penalty: float = setting(0.0, "Subtracted for each action that is not valid.", low=0.0)


def compute(record: Record, s: RlooSettings) -> Result:
    """Advantages of all steps; see the module's formula."""
    rewards = record.rewards - s.invalid_penalty * record.invalid
    scores = trajectory_sums(rewards, record.trajectories)
    groups = Groups.of(task_of_trajectory(record.trajectories), scores)
    sizes = groups.sizes[groups.labels]
    values = groups.deviations * sizes / np.maximum(sizes - 1, 1)
    returns = base.step_returns(record, s.gamma, s.invalid_penalty, "before_discount")
    own = record.trajectories.trajectory_ids
    advantages = values[own]

    def numbers() -> Numbers:
        mean_of_others = scores - values
        ones = np.ones(len(own))
        return Numbers(
            groups.labels[own], sizes[own], scores[own], mean_of_others[own], ones, advantages, ones
        )

    terms = (Term("episode", np.arange(len(own)), "trajectories", numbers),)
    return Result(advantages, returns, base.no_levels(record), plain_sum(advantages, terms))


ESTIMATOR = Estimator(RlooSettings, compute)
