"""The arithmetic behind an advantage, term by term.

Every estimator here is a weighted sum of comparisons of a score with a baseline:

    A(t) = sum over terms of  w * (score - baseline) / divisor

`explain` gives those numbers for every step: what was compared, with which group, and with what weight it entered.

>>> from hgpo import StepBatch
>>> batch = StepBatch.from_rows([
...     {"task": "t", "trajectory": i, "step": 0, "observation": "door", "reward": float(i)} for i in range(3)
... ])
>>> term = explain(batch, "rloo").terms[0]
>>> term.name, term.baseline.tolist(), term.values.tolist()
('episode', [1.5, 1.0, 0.5], [-1.5, 0.0, 1.5])
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ..steps.batch import StepBatch
from ..steps.columns import BoolArray, FloatArray, IntArray
from . import base, gigpo, grpo, hgpo
from .estimate import Computed, compute
from .groups import Groups
from .returns import task_of_trajectory, trajectory_sums

Members = Literal["steps", "trajectories"]


@dataclass(frozen=True)
class Term:
    """One comparison inside an advantage; arrays are [m], the steps that have the term, in canonical order."""

    name: str
    """`level 0`, `level 1`, ..., `episode`, `batch` or `whole`."""
    rows: IntArray
    """Canonical position of each of the m steps."""
    labels: IntArray
    """Group each was compared with, dense from 0."""
    sizes: IntArray
    """Members of that group."""
    members: Members
    """What a member is: a step, or a whole trajectory."""
    score: FloatArray
    """What was compared: the step's return, or the episode's score."""
    baseline: FloatArray
    """What it was compared with."""
    divisor: FloatArray
    """What the deviation was divided by; 1 for nothing."""
    values: FloatArray
    """(score - baseline) / divisor."""
    weights: FloatArray
    """Share with which the value enters the advantage; 0 where the term was left out."""

    @property
    def contributions(self) -> FloatArray:
        """What the term adds to the advantage. Float64 [m]."""
        added: FloatArray = self.weights * self.values
        return added


@dataclass(frozen=True)
class Explanation:
    """An estimate taken apart. Arrays are in canonical order; `computed.rows` leads back to the batch."""

    name: str
    computed: Computed
    terms: tuple[Term, ...]

    @property
    def advantages(self) -> FloatArray:
        """float64 [steps]."""
        return self.computed.result.advantages

    @property
    def returns(self) -> FloatArray:
        """float64 [steps]."""
        return self.computed.result.returns


def explain(batch: StepBatch, name: str = "hgpo", **settings: Any) -> Explanation:
    """Compute advantages as `estimate` does, and say what each is made of.

    The terms add up to the advantage of every step. Where an estimator or one of its settings is no such sum, the
    advantage is given as one term, `whole`.
    """
    found = compute(batch, name, settings)
    terms = _EXPLAINED.get(name, _whole)(found)
    return Explanation(name, found, terms if _adds_up(found, terms) else _whole(found))


def _adds_up(found: Computed, terms: tuple[Term, ...]) -> bool:
    advantages = found.result.advantages
    total = np.zeros(len(advantages))
    for term in terms:
        total[term.rows] += term.contributions
    return bool(np.abs(total - advantages).max() <= 1e-9 * (1.0 + np.abs(advantages).max()))


def _levels(
    found: Computed, divisors: Callable[[Groups], FloatArray], weights: list[FloatArray]
) -> list[Term]:
    terms = []
    for number, (level, weight) in enumerate(zip(found.result.level_values, weights)):
        groups = level.groups
        divisor = divisors(groups)[groups.labels]
        score = found.result.returns[level.rows]
        terms.append(
            Term(
                f"level {number}",
                level.rows,
                groups.labels,
                groups.sizes[groups.labels],
                "steps",
                score,
                _baseline(score, level.values * divisor, groups),
                divisor,
                level.values,
                np.where(level.used, weight[level.rows], 0.0),
            )
        )
    return terms


def _baseline(score: FloatArray, deviation: FloatArray, groups: Groups) -> FloatArray:
    """The group's mean where that is what was subtracted (its last digits are right), else score - deviation."""
    mean, baseline = groups.means[groups.labels], score - deviation
    scale = np.abs(score) + np.abs(mean)
    return np.where(np.abs(mean - baseline) <= 1e-9 * scale, mean, baseline)


def _episode(
    record: base.Record, mode: base.Mode, term: base.EpisodeTerm, penalty: float, weight: FloatArray
) -> Term:
    found = base.episode_values(record, mode, term, penalty)
    groups, entries = found.groups, found.entries
    divisor = base.divisors(groups, mode, term.std, term.epsilon)[groups.labels]
    baseline = groups.means[groups.labels]
    if term.single == "raw":  # a task with one entry keeps its raw score
        alone = groups.sizes[groups.labels] == 1
        baseline = np.where(alone, 0.0, baseline)
        divisor = np.where(alone, 1.0 + term.epsilon if mode == "mean_std_norm" else 1.0, divisor)
    members: Members = "steps" if term.normalise_over == "steps" else "trajectories"
    return Term(
        "episode",
        np.arange(len(entries)),
        groups.labels[entries],
        groups.sizes[groups.labels][entries],
        members,
        found.scores[entries],
        baseline[entries],
        divisor[entries],
        found.values[entries],
        weight,
    )


def _hgpo(found: Computed) -> tuple[Term, ...]:
    s: hgpo.HgpoSettings = found.settings
    how = base.resolve(hgpo.VARIANTS[s.variant], s)
    count = len(found.result.returns)
    raw = [hgpo.level_weight(level, s, how) for level in range(len(found.result.level_values))]
    total = np.zeros(count)
    for level, weight in zip(found.result.level_values, raw):
        total[level.rows[level.used]] += weight
    episode = np.zeros(count)
    if s.base_group:
        if how.skip == "item":
            episode = (hgpo.episode_term(found.record, s, how) != 0.0).astype(np.float64)
        else:
            episode = np.ones(count)
        total += episode
    covered: BoolArray = total > 0
    scale = np.where(covered, 1.0 / np.where(covered, total + how.weight_epsilon, 1.0), 0.0)
    terms = _levels(
        found,
        lambda groups: base.divisors(groups, s.mode, how.std, how.epsilon, s.std_floor or 0.0),
        [weight * scale for weight in raw],
    )
    if s.base_group or s.fallback == "episode":
        share = np.where(covered, episode * scale, 1.0 if s.fallback == "episode" else 0.0)
        term = base.EpisodeTerm(how.normalise_over, how.base_std, how.epsilon, how.single)
        terms.append(_episode(found.record, s.mode, term, s.invalid_penalty, share))
    return tuple(terms)


def _gigpo(found: Computed) -> tuple[Term, ...]:
    s: gigpo.GigpoSettings = found.settings
    how = base.resolve(gigpo.VARIANTS[s.variant], s)
    count = len(found.result.returns)
    episode = _episode(found.record, s.mode, how, s.invalid_penalty, np.ones(count))
    steps = _levels(
        found,
        lambda groups: base.divisors(groups, s.mode, how.std, how.epsilon),
        [np.full(count, s.step_advantage_w)],
    )
    return (episode, *steps)


def _grpo(found: Computed) -> tuple[Term, ...]:
    s = found.settings
    if not isinstance(s, grpo.GrpoSettings):  # Dr. GRPO
        s = grpo.GrpoSettings(mode="mean_norm", invalid_penalty=s.invalid_penalty)
    term = base.EpisodeTerm(s.normalise_over, s.std, s.epsilon, s.single)
    count = len(found.result.returns)
    return (_episode(found.record, s.mode, term, s.invalid_penalty, np.ones(count)),)


def _rloo(found: Computed) -> tuple[Term, ...]:
    record, trajectories = found.record, found.record.trajectories
    scores = trajectory_sums(record.rewards - found.settings.invalid_penalty * record.invalid, trajectories)
    groups = Groups.of(task_of_trajectory(trajectories), scores)
    entries = trajectories.trajectory_ids
    score, values = scores[entries], found.result.advantages
    ones = np.ones(len(values))
    labels = groups.labels[entries]
    return (
        Term(
            "episode",
            np.arange(len(values)),
            labels,
            groups.sizes[labels],
            "trajectories",
            score,
            score - values,
            ones,
            values,
            ones,
        ),
    )


def _reinforce_plus_plus(found: Computed) -> tuple[Term, ...]:
    s, trajectories = found.settings, found.record.trajectories
    score = found.result.returns
    if s.baseline == "group":
        starts = Groups.of(task_of_trajectory(trajectories), score[trajectories.step == 0])
        score = score - starts.means[trajectories.task_ids]
    batch = Groups.of(np.zeros(len(score), dtype=np.int64), score)
    divisor = base.divisors(batch, "mean_std_norm", s.std, s.epsilon)[batch.labels]
    return (
        Term(
            "batch",
            np.arange(len(score)),
            batch.labels,
            batch.sizes[batch.labels],
            "steps",
            score,
            batch.means[batch.labels],
            divisor,
            found.result.advantages,
            np.ones(len(score)),
        ),
    )


def _whole(found: Computed) -> tuple[Term, ...]:
    advantages = found.result.advantages
    ones = np.ones(len(advantages))
    alone = np.arange(len(advantages))
    return (
        Term(
            "whole",
            alone,
            alone,
            np.ones(len(advantages), dtype=np.int64),
            "steps",
            advantages,
            np.zeros(len(advantages)),
            ones,
            advantages,
            ones,
        ),
    )


_EXPLAINED: dict[str, Callable[[Computed], tuple[Term, ...]]] = {
    "hgpo": _hgpo,
    "gigpo": _gigpo,
    "grpo": _grpo,
    "dr_grpo": _grpo,
    "rloo": _rloo,
    "reinforce_plus_plus": _reinforce_plus_plus,
}
