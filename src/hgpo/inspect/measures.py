"""What is counted in one iteration of rollouts. `numbers.py` turns the counts into shares."""

from __future__ import annotations

import itertools

import numpy as np

from ..estimators.base import LevelValues
from ..estimators.groups import Groups, dense
from ..estimators.metrics import BIN_ENDS, BIN_NAMES, context_pairs
from ..estimators.penalty import penalty_effect
from ..steps.columns import BoolArray, FloatArray
from .analysis import Analysis, distinct
from .tally import Tally
from .text import named

# A group whose deviation is below this share of all returns' deviation compares near-equal outcomes.
TINY = 0.05


def measure(analysis: Analysis) -> Tally:
    """All counts of one iteration."""
    tally = Tally()
    with np.errstate(
        over="ignore", invalid="ignore"
    ):  # squares of huge rewards; the report shows them as missing
        for part in (_rollouts, _types, _contexts, _levels, _loops, _estimators, _pairs):
            part(analysis, tally)
    return tally


def _rollouts(analysis: Analysis, tally: Tally) -> None:
    tasks = Groups.of(analysis.tasks, analysis.totals)
    tally.count("iterations")
    tally.count("steps", by=len(analysis.order))
    tally.count("trajectories", by=len(analysis.totals))
    tally.count("tasks", by=tasks.num_groups)
    tally.count("return", by=analysis.totals.sum())
    tally.count("invalid", by=analysis.reference.computed.record.invalid.sum())
    tally.count("tasks_single", by=np.count_nonzero(tasks.sizes == 1))
    flat = tasks.constant & (tasks.sizes > 1)
    tally.count("tasks_flat", by=np.count_nonzero(flat))
    if analysis.successes is not None:
        tally.count("successes", by=analysis.successes.sum())
        won = tasks.sum(analysis.successes)
        tally.count("tasks_flat_won", by=np.count_nonzero(flat & (won == tasks.sizes)))
        tally.count("tasks_flat_lost", by=np.count_nonzero(flat & (won == 0)))


def _types(analysis: Analysis, tally: Tally) -> None:
    if analysis.types is None:
        names = np.full(len(analysis.totals), "all", dtype=object)
    else:
        names = np.array([named(value) or "none" for value in analysis.types], dtype=object)
    for name in sorted(set(names.tolist())):
        rows = np.flatnonzero(names == name)
        tally.count("type", name, "trajectories", by=len(rows))
        tally.count("type", name, "return", by=analysis.totals[rows].sum())
        if analysis.successes is not None:
            tally.count("type", name, "successes", by=analysis.successes[rows].sum())


def _contexts(analysis: Analysis, tally: Tally) -> None:
    step, levels = analysis.trajectories.step, analysis.levels
    pairs, agreeing = context_pairs(step, levels)
    tally.count("pairs", by=pairs)
    tally.count("pairs_agreeing", by=agreeing)
    same_state = np.bincount(levels[0])[levels[0]]
    same_context = np.bincount(analysis.contexts)[analysis.contexts]
    tally.count("steps_mixed", by=np.count_nonzero(same_state > same_context))
    tally.count("steps_with_peers", by=np.count_nonzero(same_state > 1))
    # How far the baseline moves when only steps of the same history are averaged.
    returns = analysis.returns
    shallow, deep = Groups.of(levels[0], returns), Groups.of(analysis.contexts, returns)
    both = deep.sizes[deep.labels] > 1
    shift = np.abs(shallow.means[shallow.labels] - deep.means[deep.labels])
    tally.count("shift", by=shift[both].sum())
    tally.count("shift_steps", by=np.count_nonzero(both))
    tally.count("shift_scale", by=returns.std() * np.count_nonzero(both))
    # Analysis of variance inside the groups of equal state: does history explain outcomes?
    _spread(tally, ("history", "state"), shallow)
    _spread(tally, ("history", "context"), deep)
    covered = np.zeros(len(returns), dtype=bool)
    for level in analysis.reference.computed.result.level_values:
        covered[level.rows[level.used]] = True
    tally.count("covered", by=np.count_nonzero(covered))


def _spread(tally: Tally, key: tuple[object, ...], groups: Groups) -> None:
    tally.count(*key, "squares", by=np.square(groups.deviations).sum())
    tally.count(*key, "freedom", by=len(groups.labels) - groups.num_groups)


def _levels(analysis: Analysis, tally: Tally) -> None:
    reference = analysis.reference
    scale = analysis.returns.std()
    normalised = getattr(reference.computed.settings, "mode", "") == "mean_std_norm"
    total = sum(float(np.abs(term.contributions).sum()) for term in reference.terms)
    tally.count("contributions", by=total)
    terms = {term.name: term for term in reference.terms}
    trajectories, step_tasks = analysis.trajectories, analysis.tasks[analysis.trajectories.trajectory_ids]
    for number, level in enumerate(reference.computed.result.level_values):
        term, groups, rows = terms.get(f"level {number}"), level.groups, level.rows
        sizes = groups.sizes
        shared = sizes > 1
        different = distinct(groups.labels, trajectories.trajectory_ids[rows], len(sizes))
        bins = np.searchsorted(BIN_ENDS, sizes)
        key = ("level", number)
        tally.count(*key, "groups", by=groups.num_groups)
        tally.count(*key, "steps", by=len(rows))
        tally.count(*key, "alone", by=np.count_nonzero(~shared))
        tally.count(*key, "with_peers", by=sizes[shared].sum())
        tally.count(*key, "with_other_trajectory", by=sizes[different > 1].sum())
        tally.count(*key, "shared", by=np.count_nonzero(shared))
        tally.count(*key, "constant", by=np.count_nonzero(shared & groups.constant))
        tally.count(*key, "used", by=np.count_nonzero(level.used))
        tally.count(*key, "abs_value", by=np.abs(level.values).sum())
        if term is not None:
            tally.count(*key, "weight", by=term.weights.sum())
            tally.count(*key, "contribution", by=np.abs(term.contributions).sum())
        tally.count(*key, "group_bins", by=np.bincount(bins, minlength=len(BIN_NAMES)).astype(float))
        tally.count(*key, "step_bins", by=np.bincount(bins, weights=sizes, minlength=len(BIN_NAMES)))
        tasks = Groups.of(dense(step_tasks[rows]), analysis.returns[rows])
        _spread(tally, (*key, "total"), tasks)
        _spread(tally, (*key, "within"), groups)
        tiny = ~groups.constant & (groups.std(sample=False) < TINY * scale)
        tally.count(*key, "tiny", by=np.count_nonzero(level.used & tiny[groups.labels]) if normalised else 0)
        if number:
            agree, counted = _agreement(
                reference.computed.result.level_values[number - 1], level, len(analysis.order)
            )
            tally.count(*key, "sign_agree", by=agree)
            tally.count(*key, "sign_counted", by=counted)


def _agreement(shallow: LevelValues, deep: LevelValues, count: int) -> tuple[int, int]:
    sign = np.zeros(count)
    sign[shallow.rows[shallow.used]] = np.sign(shallow.values[shallow.used])
    both = sign[deep.rows[deep.used]] * np.sign(deep.values[deep.used])
    return int(np.count_nonzero(both > 0)), int(np.count_nonzero(both))


def _loops(analysis: Analysis, tally: Tally) -> None:
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
    tally.count("loop_dominated", by=sizes[dominated].sum())
    tally.count("loop_alone", by=sizes[only_itself].sum())
    tally.count("revisits", by=(visits - 1).sum())


def _estimators(analysis: Analysis, tally: Tally) -> None:
    step_tasks = analysis.tasks[analysis.trajectories.trajectory_ids]
    for name, found in analysis.estimates.items():
        advantages, key = found.advantages, ("estimator", name)
        tally.count(*key, "sum", by=advantages.sum())
        tally.count(*key, "squares", by=np.square(advantages).sum())
        tally.count(*key, "abs", by=np.abs(advantages).sum())
        tally.count(*key, "penalty", by=penalty_effect(name, found.computed))
        tally.count(*key, "zero", by=np.count_nonzero(advantages == 0.0))
        tally.count(*key, "positive", by=np.count_nonzero(advantages > 0.0))
        loud = np.bincount(step_tasks, weights=(advantages != 0.0).astype(float))
        tally.count(*key, "tasks_silent", by=np.count_nonzero(loud == 0))
        for term in found.terms:
            tally.count(*key, "term", term.name, "contribution", by=np.abs(term.contributions).sum())
            tally.count(*key, "term", term.name, "weight", by=term.weights.sum())
            tally.count(*key, "term", term.name, "steps", by=np.count_nonzero(term.weights))


def _pairs(analysis: Analysis, tally: Tally) -> None:
    for one, other in itertools.combinations(analysis.estimates, 2):
        a, b = analysis.estimates[one].advantages, analysis.estimates[other].advantages
        key = ("pair", one, other)
        against = opposite(a, b)
        tally.count(*key, "both", by=np.count_nonzero((a != 0) & (b != 0)))
        tally.count(*key, "opposite", by=np.count_nonzero(against))
        tally.count(*key, "only_first", by=np.count_nonzero((a != 0) & (b == 0)))
        tally.count(*key, "only_second", by=np.count_nonzero((a == 0) & (b != 0)))
        tally.count(*key, "difference", by=np.abs(a - b).sum())
        tally.count(*key, "opposite_difference", by=np.abs(a - b)[against].sum())
        moments = np.array([a.sum(), b.sum(), (a * b).sum(), (a * a).sum(), (b * b).sum()])
        tally.count(*key, "moments", by=moments)


def opposite(a: FloatArray, b: FloatArray) -> BoolArray:
    """Where two advantages have opposite signs."""
    against: BoolArray = np.sign(a) * np.sign(b) < 0
    return against
