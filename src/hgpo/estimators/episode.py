"""The episode-level advantage: a whole rollout against the other rollouts of its task."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..steps.columns import FloatArray, IntArray
from .base import Mode, NormaliseOver, Record, Single, Std, normalise
from .groups import Groups
from .returns import task_of_trajectory, trajectory_sums
from .terms import Numbers, Term


@dataclass(frozen=True)
class EpisodeRule:
    """How the advantage of a whole episode is computed."""

    normalise_over: NormaliseOver
    """Statistics over trajectories, or over step rows, where a trajectory counts as often as it is long."""
    std: Std
    """Deviation over n (population) or n - 1 (sample)."""
    epsilon: float
    """Added to the deviation."""
    single: Single
    """What a group of one entry gets: zero, or its raw score."""


@dataclass(frozen=True)
class Episode:
    """The episode-level advantage with what it was made of; entries are step rows or trajectories."""

    rule: EpisodeRule
    entries: IntArray
    """[steps] entry of each step."""
    groups: Groups
    """Entries by task."""
    scores: FloatArray
    """[entries] sum of rewards S."""
    values: FloatArray
    """[entries] advantage."""
    divisor: FloatArray
    """[groups]"""
    single_divisor: float
    """What the raw score of a single entry is divided by."""

    @property
    def advantages(self) -> FloatArray:
        """One per step. Float64 [steps]."""
        return self.values if self.rule.normalise_over == "steps" else self.values[self.entries]

    def term(self, weights: Callable[[], FloatArray]) -> Term:
        """The comparison as a term of every step, with weights [steps]."""
        return Term(
            "episode",
            np.arange(len(self.entries)),
            "steps" if self.rule.normalise_over == "steps" else "trajectories",
            lambda: self._numbers(weights()),
        )

    def _numbers(self, weights: FloatArray) -> Numbers:
        groups, entries = self.groups, self.entries
        sizes = groups.sizes[groups.labels]
        baseline, divisor = groups.means[groups.labels], self.divisor[groups.labels]
        if self.rule.single == "raw":
            baseline = np.where(sizes == 1, 0.0, baseline)
            divisor = np.where(sizes == 1, self.single_divisor, divisor)
        return Numbers(
            groups.labels[entries],
            sizes[entries],
            self.scores[entries],
            baseline[entries],
            divisor[entries],
            self.values[entries],
            weights,
        )


def compare_episodes(record: Record, mode: Mode, rule: EpisodeRule, invalid_penalty: float) -> Episode:
    """Advantage of the whole episode against the other rollouts of its task.

    With S_i the sum of rewards of trajectory i:

        A_i = (S_i - mean_j S_j) / (std_j S_j + epsilon)

    `trajectories` takes the statistics over trajectories, S_i less its penalties. `steps` takes them over step
    rows, so a trajectory counts as often as it is long, and each row carries only its own penalty (the released
    code).
    """
    trajectories = record.trajectories
    fine = invalid_penalty * record.invalid
    if rule.normalise_over == "steps":
        scores = trajectory_sums(record.rewards, trajectories)[trajectories.trajectory_ids] - fine
        entries, tasks = np.arange(len(scores)), trajectories.task_ids
    else:
        scores = trajectory_sums(record.rewards - fine, trajectories)
        entries, tasks = trajectories.trajectory_ids, task_of_trajectory(trajectories)
    groups = Groups.of(tasks, scores)
    values, divisor = normalise(groups, groups.deviations, mode, rule.std, rule.epsilon)
    single_divisor = 1.0 + rule.epsilon if mode == "mean_std_norm" else 1.0
    if rule.single == "raw":
        values = np.where(groups.sizes[groups.labels] == 1, scores / single_divisor, values)
    return Episode(rule, entries, groups, scores, values, divisor, single_divisor)
