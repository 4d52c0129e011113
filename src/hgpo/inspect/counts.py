"""What is counted in one iteration of rollouts. Counts of iterations add up; `numbers.py` makes shares of them."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from ..estimators.groups import Groups
from ..estimators.metrics import BIN_ENDS, BIN_NAMES, context_pairs, sign_agreement
from ..estimators.penalty import penalty_effect
from ..steps.columns import BoolArray, FloatArray
from ..steps.labels import dense
from .analysis import Analysis, distinct
from .text import named

Amount = float | FloatArray


class Counts(dict[tuple[Any, ...], Amount]):
    """Numbers and arrays by key; adding two adds what they have in common."""

    def count(self, *key: Any, by: Any = 1.0) -> None:
        """Add `by` (a number or an array) to the entry `key`."""
        amount: Amount = np.asarray(by, dtype=np.float64) if isinstance(by, np.ndarray) else float(by)
        self[key] = self[key] + amount if key in self else amount

    def add(self, other: Counts) -> None:
        """Add everything that others have."""
        for key, amount in other.items():
            self.count(*key, by=amount)

    def number(self, *key: Any) -> float:
        """An entry that is a number; 0 where nothing was counted."""
        return float(self.get(key, 0.0))

    def array(self, *key: Any) -> list[float]:
        """An entry that is an array, as a list."""
        return np.asarray(self.get(key, [])).tolist()  # type: ignore[no-any-return]

    def ratio(self, top: tuple[Any, ...], bottom: tuple[Any, ...]) -> float:
        """One entry over another; 0 where the second is 0."""
        below = self.number(*bottom)
        return self.number(*top) / below if below else 0.0

    def names(self, *prefix: Any) -> list[Any]:
        """What follows a prefix in the keys, in the order it was first counted."""
        length = len(prefix)
        after = (key[length] for key in self if len(key) > length and key[:length] == prefix)
        return list(dict.fromkeys(after))


# A group whose deviation is below this share of all returns' deviation compares near-equal outcomes.
TINY = 0.05


def count_iteration(analysis: Analysis) -> Counts:
    """All counts of one iteration."""
    counts = Counts()
    with np.errstate(
        over="ignore", invalid="ignore"
    ):  # squares of huge rewards; the report shows them as missing
        for part in (_rollouts, _types, _contexts, _levels, _loops, _estimators, _pairs):
            part(analysis, counts)
    return counts


def _rollouts(analysis: Analysis, counts: Counts) -> None:
    tasks = Groups.of(analysis.tasks, analysis.totals)
    counts.count("iterations")
    counts.count("steps", by=len(analysis.order))
    counts.count("trajectories", by=len(analysis.totals))
    counts.count("tasks", by=tasks.num_groups)
    counts.count("return", by=analysis.totals.sum())
    counts.count("invalid", by=analysis.reference.computed.record.invalid.sum())
    counts.count("tasks_single", by=np.count_nonzero(tasks.sizes == 1))
    flat = tasks.constant & (tasks.sizes > 1)
    counts.count("tasks_flat", by=np.count_nonzero(flat))
    if analysis.successes is not None:
        counts.count("successes", by=analysis.successes.sum())
        won = tasks.sum(analysis.successes)
        counts.count("tasks_flat_won", by=np.count_nonzero(flat & (won == tasks.sizes)))
        counts.count("tasks_flat_lost", by=np.count_nonzero(flat & (won == 0)))


def _types(analysis: Analysis, counts: Counts) -> None:
    if analysis.types is None:
        names = np.full(len(analysis.totals), "all", dtype=object)
    else:
        names = np.array([named(value) or "none" for value in analysis.types], dtype=object)
    for name in sorted(set(names.tolist())):
        rows = np.flatnonzero(names == name)
        counts.count("type", name, "trajectories", by=len(rows))
        counts.count("type", name, "return", by=analysis.totals[rows].sum())
        if analysis.successes is not None:
            counts.count("type", name, "successes", by=analysis.successes[rows].sum())


def _contexts(analysis: Analysis, counts: Counts) -> None:
    step, levels = analysis.trajectories.step, analysis.levels
    pairs, agreeing = context_pairs(step, levels)
    counts.count("pairs", by=pairs)
    counts.count("pairs_agreeing", by=agreeing)
    same_state = np.bincount(levels[0])[levels[0]]
    same_context = np.bincount(analysis.contexts)[analysis.contexts]
    counts.count("steps_mixed", by=np.count_nonzero(same_state > same_context))
    counts.count("steps_with_peers", by=np.count_nonzero(same_state > 1))
    # How far the baseline moves when only steps of the same history are averaged.
    returns = analysis.returns
    shallow, deep = Groups.of(levels[0], returns), Groups.of(analysis.contexts, returns)
    both = deep.sizes[deep.labels] > 1
    shift = np.abs(shallow.means[shallow.labels] - deep.means[deep.labels])
    counts.count("shift", by=shift[both].sum())
    counts.count("shift_steps", by=np.count_nonzero(both))
    counts.count("shift_scale", by=returns.std() * np.count_nonzero(both))
    # Analysis of variance inside the groups of equal state: does history explain outcomes?
    _spread(counts, ("history", "state"), shallow)
    _spread(counts, ("history", "context"), deep)
    covered = np.zeros(len(returns), dtype=bool)
    for level in analysis.reference.computed.result.seen_levels:
        covered[level.rows[level.used]] = True
    counts.count("covered", by=np.count_nonzero(covered))


def _spread(counts: Counts, key: tuple[object, ...], groups: Groups) -> None:
    counts.count(*key, "squares", by=np.square(groups.deviations).sum())
    counts.count(*key, "freedom", by=len(groups.labels) - groups.num_groups)


def _levels(analysis: Analysis, counts: Counts) -> None:
    reference = analysis.reference
    scale = analysis.returns.std()
    normalised = getattr(reference.computed.settings, "mode", "") == "mean_std_norm"
    total = sum(float(np.abs(term.contributions).sum()) for term in reference.terms)
    counts.count("contributions", by=total)
    trajectories, step_tasks = analysis.trajectories, analysis.tasks[analysis.trajectories.trajectory_ids]
    seen = reference.computed.result.seen_levels
    for term in reference.terms:
        level = term.level
        if level is None:
            continue
        number, groups, rows = level.number, level.groups, level.rows
        sizes = groups.sizes
        shared = sizes > 1
        different = distinct(groups.labels, trajectories.trajectory_ids[rows], len(sizes))
        bins = np.searchsorted(BIN_ENDS, sizes)
        key = ("level", number)
        counts.count(*key, "groups", by=groups.num_groups)
        counts.count(*key, "steps", by=len(rows))
        counts.count(*key, "singletons", by=np.count_nonzero(~shared))
        counts.count(*key, "with_peers", by=sizes[shared].sum())
        counts.count(*key, "with_other_trajectory", by=sizes[different > 1].sum())
        counts.count(*key, "shared", by=np.count_nonzero(shared))
        counts.count(*key, "constant", by=np.count_nonzero(shared & groups.constant))
        counts.count(*key, "used", by=np.count_nonzero(level.used))
        counts.count(*key, "abs_value", by=np.abs(level.values).sum())
        counts.count(*key, "weight", by=term.weights.sum())
        counts.count(*key, "contribution", by=np.abs(term.contributions).sum())
        counts.count(*key, "group_bins", by=np.bincount(bins, minlength=len(BIN_NAMES)).astype(float))
        counts.count(*key, "step_bins", by=np.bincount(bins, weights=sizes, minlength=len(BIN_NAMES)))
        tasks = Groups.of(dense(step_tasks[rows]), analysis.returns[rows])
        _spread(counts, (*key, "total"), tasks)
        _spread(counts, (*key, "within"), groups)
        tiny = ~groups.constant & (groups.std(sample=False) < TINY * scale)
        counts.count(*key, "tiny", by=np.count_nonzero(level.used & tiny[groups.labels]) if normalised else 0)
        if number:
            both, agreeing = sign_agreement(seen[number - 1], level, len(analysis.order))
            counts.count(*key, "sign_agree", by=agreeing)
            counts.count(*key, "sign_counted", by=both)


def _loops(analysis: Analysis, counts: Counts) -> None:
    """Groups of equal state that one trajectory fills by coming back."""
    labels, trajectories = analysis.levels[0], analysis.trajectories.trajectory_ids
    sizes = np.bincount(labels)
    width = int(trajectories.max()) + 1
    pairs, visits = np.unique(labels * width + trajectories, return_counts=True)
    most = np.zeros(len(sizes), dtype=np.int64)
    np.maximum.at(most, pairs // width, visits)
    different = np.bincount(pairs // width, minlength=len(sizes))
    dominated = (most >= 3) & (2 * most > sizes) & (different > 1)
    only_itself = (different == 1) & (sizes > 1)
    counts.count("loop_dominated", by=sizes[dominated].sum())
    counts.count("loop_alone", by=sizes[only_itself].sum())
    counts.count("revisits", by=(visits - 1).sum())


def _estimators(analysis: Analysis, counts: Counts) -> None:
    step_tasks = analysis.tasks[analysis.trajectories.trajectory_ids]
    for name, estimate in analysis.estimates.items():
        advantages, key = estimate.advantages, ("estimator", name)
        counts.count(*key, "sum", by=advantages.sum())
        counts.count(*key, "squares", by=np.square(advantages).sum())
        counts.count(*key, "abs", by=np.abs(advantages).sum())
        counts.count(*key, "penalty", by=penalty_effect(estimate.computed))
        counts.count(*key, "zero", by=np.count_nonzero(advantages == 0.0))
        counts.count(*key, "positive", by=np.count_nonzero(advantages > 0.0))
        nonzero = np.bincount(step_tasks, weights=(advantages != 0.0).astype(float))
        counts.count(*key, "tasks_without_signal", by=np.count_nonzero(nonzero == 0))
        for term in estimate.terms:
            counts.count(*key, "term", term.name, "contribution", by=np.abs(term.contributions).sum())
            counts.count(*key, "term", term.name, "weight", by=term.weights.sum())
            counts.count(*key, "term", term.name, "steps", by=np.count_nonzero(term.weights))


def _pairs(analysis: Analysis, counts: Counts) -> None:
    for one, other in itertools.combinations(analysis.estimates, 2):
        a, b = analysis.estimates[one].advantages, analysis.estimates[other].advantages
        key = ("pair", one, other)
        against = opposite(a, b)
        counts.count(*key, "both", by=np.count_nonzero((a != 0) & (b != 0)))
        counts.count(*key, "opposite", by=np.count_nonzero(against))
        counts.count(*key, "only_first", by=np.count_nonzero((a != 0) & (b == 0)))
        counts.count(*key, "only_second", by=np.count_nonzero((a == 0) & (b != 0)))
        counts.count(*key, "difference", by=np.abs(a - b).sum())
        counts.count(*key, "opposite_difference", by=np.abs(a - b)[against].sum())
        moments = np.array([a.sum(), b.sum(), (a * b).sum(), (a * a).sum(), (b * b).sum()])
        counts.count(*key, "moments", by=moments)


def opposite(a: FloatArray, b: FloatArray) -> BoolArray:
    """Where two advantages have opposite signs."""
    against: BoolArray = np.sign(a) * np.sign(b) < 0
    return against
