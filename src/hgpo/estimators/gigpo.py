"""GiGPO: an episode term and a step term from groups of steps with equal state.

Group-in-Group Policy Optimization for LLM Agent Training, NeurIPS 2025, arXiv 2505.10978.

    A(t) = A_E(i) + w A_S(t)
    A_E(i) = (S_i - mean S) / (std S + epsilon)                 over the rollouts of the task
    A_S(t) = (R_t - mean of R over G_0(t)) / (std + epsilon)    over the steps of the task in the same state

with S_i the sum of rewards of trajectory i and R_t the discounted return of step t.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..settings import Settings, setting
from ..steps.columns import FloatArray, IntArray
from . import base
from .base import Estimator, Mode, Record, Std
from .contexts import Key
from .episode import EpisodeRule, compare_episodes
from .groups import Groups
from .terms import Level, Result, Term, level_term, plain_sum


@dataclass(frozen=True)
class Arithmetic(EpisodeRule):
    """Everything in which the released code and the paper differ; the settings explain each field."""

    penalty: base.Penalty


VARIANTS = {
    "released": Arithmetic(
        normalise_over="steps", std="sample", epsilon=1e-6, single="raw", penalty="after_discount"
    ),
    "paper": Arithmetic(
        normalise_over="trajectories", std="sample", epsilon=0.0, single="zero", penalty="before_discount"
    ),
}


@dataclass(frozen=True)
class GigpoSettings(Settings):
    """Settings of GiGPO. Those that default to None take the value of `variant`."""

    mode: base.Mode = setting(
        "mean_std_norm",
        "Divide both terms by the deviation of their group (mean_std_norm) or not (mean_norm).",
    )
    step_advantage_w: float = setting(1.0, "w: weight of the step term.", low=0.0)
    gamma: float = setting(0.95, "Discount of the step returns.", low=0.0, high=1.0)
    invalid_penalty: float = setting(0.0, "Subtracted where an action is not valid.", low=0.0)
    key: Key = setting("observation", "What makes two steps comparable.")
    similarity: float = setting(
        1.0,
        "Merge texts of one task that are at least this similar; 1 merges none (the QA runs of the "
        "paper used 0.9).",
        above=0.0,
        high=1.0,
    )
    variant: base.Variant = setting(
        "released", "`released` is the arithmetic of the released code, `paper` that of the paper's formulas."
    )
    normalise_over: base.NormaliseOver | None = setting(
        None, "Statistics of the episode term over step rows (released) or trajectories (paper)."
    )
    std: base.Std | None = setting(None, "Deviation over n - 1 (sample; both variants) or n (population).")
    epsilon: float | None = setting(None, "Added to the deviation. Released 1e-6, paper 0.", low=0.0)
    single: base.Single | None = setting(
        None, "Episode term of a task with one entry: its raw score (released) or zero (paper)."
    )
    penalty: base.Penalty | None = setting(
        None,
        "Subtract the penalty from the step's return (released) or from its reward before discounting "
        "(paper).",
    )


def compute(record: Record, s: GigpoSettings) -> Result:
    """Advantages of all steps; see the module's formulas."""
    how = base.resolve(VARIANTS[s.variant], s)
    returns = base.step_returns(record, s.gamma, s.invalid_penalty, how.penalty)
    levels = record.levels(s.key, s.similarity, depth=0)
    step, step_term = compare_states(levels[0], returns, s.mode, how.std, how.epsilon)
    episode = compare_episodes(record, s.mode, how, s.invalid_penalty)
    advantages = episode.advantages + s.step_advantage_w * step
    terms = (episode.term(lambda: np.ones(len(step))), step_term.times(s.step_advantage_w))
    return Result(advantages, returns, levels, plain_sum(advantages, terms))


def compare_states(
    labels: IntArray, scores: FloatArray, mode: Mode, std: Std, epsilon: float
) -> tuple[FloatArray, Term]:
    """Scores [steps] against those of the same state: the step term A_S, and how it was made."""
    groups = Groups.of(labels, scores)
    values, divisor = base.normalise(groups, groups.deviations, mode, std, epsilon)
    level = Level(0, np.arange(len(values)), groups, values, values != 0.0)
    term = level_term(
        level, scores, lambda: groups.means[groups.labels], divisor, lambda: np.ones(len(values))
    )
    return values, term


ESTIMATOR = Estimator(GigpoSettings, compute)
