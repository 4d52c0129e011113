"""What every estimate reports: a flat dict of floats. docs/metrics.md explains each name."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .columns import IntArray
from .estimators.base import LevelValues, Record, Result

# Upper ends of the size bins: 1, 2, 3-4, 5-8, 9-16, 17-32, 33-64, 65 and more.
BIN_ENDS = np.array([1, 2, 4, 8, 16, 32, 64])
BIN_NAMES = ("1", "2", "3-4", "5-8", "9-16", "17-32", "33-64", "65+")


def metrics(record: Record, result: Result) -> dict[str, float]:
    """All metrics of one estimate."""
    advantages = result.advantages
    found = {
        "steps": float(len(advantages)),
        "trajectories": float(record.trajectories.num_trajectories),
        "tasks": float(np.count_nonzero(np.bincount(record.trajectories.task_ids))),
        "return/mean": float(result.returns.mean()),
        "advantage/mean": float(advantages.mean()),
        "advantage/std": float(advantages.std()),
        "advantage/abs_mean": float(np.abs(advantages).mean()),
        "advantage/zero_share": 1.0 - np.count_nonzero(advantages) / len(advantages),
    }
    covered = np.zeros(len(advantages), dtype=bool)
    shallower: LevelValues | None = None
    for number, level in enumerate(result.level_values):
        found.update({f"level/{number}/{name}": value for name, value in level_metrics(level).items()})
        covered[level.rows[level.used]] = True
        if shallower is not None:
            agreement = sign_agreement(shallower, level, len(advantages))
            found[f"level/{number}/sign_agreement"] = agreement
        shallower = level
    if result.level_values:
        found["context/coverage"] = float(covered.mean())
        found["context/inconsistency"] = inconsistency(record.trajectories.step, result.levels)
    return found


def level_metrics(level: LevelValues) -> dict[str, float]:
    """Metrics of one level; shares of steps are among the steps that have the level."""
    sizes = level.groups.sizes
    num_groups, num_steps = len(sizes), len(level.rows)
    bins = np.bincount(np.searchsorted(BIN_ENDS, sizes), minlength=len(BIN_NAMES))
    found = {f"size/{name}": float(count) for name, count in zip(BIN_NAMES, bins)}
    shared = sizes > 1
    constant = np.count_nonzero(shared & level.groups.constant)
    found |= {
        "groups": float(num_groups),
        "steps": float(num_steps),
        "singleton_share": float(bins[0]) / max(num_steps, 1),
        "constant_share": constant / max(int(np.count_nonzero(shared)), 1),
        "signal_share": float(np.count_nonzero(level.used)) / max(num_steps, 1),
        "abs_advantage": float(np.abs(level.values).mean()) if num_steps else 0.0,
    }
    return found


def sign_agreement(shallow: LevelValues, deep: LevelValues, num_steps: int) -> float:
    """Share of steps with signal at both levels whose two advantages have the same sign; NaN-free: 1 for none."""
    sign = np.zeros(num_steps)
    sign[shallow.rows[shallow.used]] = np.sign(shallow.values[shallow.used])
    both = sign[deep.rows[deep.used]] * np.sign(deep.values[deep.used])
    counted = np.count_nonzero(both)
    return float(np.count_nonzero(both > 0)) / counted if counted else 1.0


def inconsistency(step: IntArray, levels: npt.NDArray[np.int64]) -> float:
    """Share of pairs of steps with the same state whose histories differ, up to the deepest level.

    Two steps agree when they share the deepest level, or when both are too early for it, equally far from the
    start, and share the level of their whole history.
    """
    pairs, agreeing = context_pairs(step, levels)
    return 1.0 - agreeing / pairs if pairs else 0.0


def context_pairs(step: IntArray, levels: npt.NDArray[np.int64]) -> tuple[float, float]:
    """Pairs of steps in the same state, and those among them whose histories agree as well."""
    deepest = len(levels) - 1
    pairs = _pairs(levels[0])
    if deepest == 0 or pairs == 0:
        return pairs, pairs
    agreeing = _pairs(levels[deepest][step >= deepest])
    agreeing += sum(_pairs(levels[short][step == short]) for short in range(deepest))
    return pairs, agreeing


def _pairs(labels: IntArray) -> float:
    sizes = np.bincount(labels).astype(np.float64)
    return float((sizes * (sizes - 1)).sum() / 2)
