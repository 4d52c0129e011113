"""GRPO: the whole episode against the other rollouts of its task.

DeepSeekMath, arXiv 2402.03300. With S_i the sum of rewards of trajectory i:

    A_i = (S_i - mean_j S_j) / (std_j S_j + epsilon)

Every step of a trajectory gets A_i. Dr. GRPO (arXiv 2503.20783) is the same without the division.

Mean and deviation are published in two ways: over the trajectories of the task (the formula, and the default here),
and in the recipes for agents over its step rows (`normalise_over="steps"`), where a trajectory counts as often as it is
long and each row carries its own penalty only.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..settings import Settings, setting
from . import base
from .base import Estimator, Record
from .episode import EpisodeRule, compare_episodes
from .terms import Result, plain_sum


@dataclass(frozen=True)
class GrpoSettings(Settings):
    """Settings of GRPO."""

    mode: base.Mode = setting(
        "mean_std_norm", "Divide by the deviation of the task's scores (mean_std_norm) or not (mean_norm)."
    )
    normalise_over: base.NormaliseOver = setting(
        "trajectories",
        "Statistics over trajectories (the paper), or over step rows, where a trajectory counts as often as it is "
        "long (the agent recipes).",
    )
    std: base.Std = setting("sample", "Deviation over n - 1 (sample) or n (population).")
    epsilon: float = setting(1e-6, "Added to the deviation.", low=0.0)
    single: base.Single = setting("zero", "A task with one rollout: zero, or its raw score.")
    gamma: float = setting(
        0.95, "Discount of the reported step returns; the advantages do not use it.", low=0.0, high=1.0
    )
    invalid_penalty: float = setting(0.0, "Subtracted for each action that is not valid.", low=0.0)


@dataclass(frozen=True)
class DrGrpoSettings(Settings):
    """Settings of Dr. GRPO: GRPO without its two normalisations."""

    gamma: float = setting(
        0.95, "Discount of the reported step returns; the advantages do not use it.", low=0.0, high=1.0
    )
    invalid_penalty: float = setting(0.0, "Subtracted for each action that is not valid.", low=0.0)


def compute(record: Record, s: GrpoSettings) -> Result:
    """Advantages of all steps; see the module's formula."""
    rule = EpisodeRule(s.normalise_over, s.std, s.epsilon, s.single)
    episode = compare_episodes(record, s.mode, rule, s.invalid_penalty)
    returns = base.step_returns(record, s.gamma, s.invalid_penalty, "before_discount")
    advantages = episode.advantages
    terms = (episode.term(lambda: np.ones(len(advantages))),)
    return Result(advantages, returns, base.no_levels(record), plain_sum(advantages, terms))


def compute_dr(record: Record, s: DrGrpoSettings) -> Result:
    """A_i = S_i - mean_j S_j. The other half of Dr. GRPO, no division by length, is the trainer's loss setting."""
    return compute(record, GrpoSettings(mode="mean_norm", gamma=s.gamma, invalid_penalty=s.invalid_penalty))


ESTIMATOR = Estimator(GrpoSettings, compute)
DR_ESTIMATOR = Estimator(DrGrpoSettings, compute_dr)
