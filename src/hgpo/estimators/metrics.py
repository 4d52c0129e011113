"""What every estimate reports: a flat dict of floats. docs/metrics.md explains each name."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from ..steps.columns import IntArray
from .base import Record
from .terms import Level, Result

# Upper ends of the size bins: 1, 2, 3-4, 5-8, 9-16, 17-32, 33-64, 65 and more.
BIN_ENDS = np.array([1, 2, 4, 8, 16, 32, 64])
BIN_NAMES = ("1", "2", "3-4", "5-8", "9-16", "17-32", "33-64", "65+")


@dataclass(frozen=True)
class LevelCounts:
    """Counts of one level; those of two sets of tasks add up."""

    bins: IntArray
    """[bins] groups by size."""
    steps: int
    shared: int
    """Groups of two or more."""
    constant: int
    """Those among them whose values are all equal."""
    used: int
    """Steps that the level says something about."""
    absolute: float
    """Sum of |A_k|."""
    both: int
    """Steps with a say at this level and the one above."""
    agreeing: int
    """Those among them whose two advantages have the same sign."""

    @classmethod
    def of(cls, level: Level, shallower: Level | None, num_steps: int) -> LevelCounts:
        """Count one level of `num_steps` steps."""
        sizes = level.groups.sizes
        shared = sizes > 1
        both = agreeing = 0
        if shallower is not None:
            both, agreeing = sign_agreement(shallower, level, num_steps)
        return cls(
            bins=np.bincount(np.searchsorted(BIN_ENDS, sizes), minlength=len(BIN_NAMES)),
            steps=len(level.rows),
            shared=int(np.count_nonzero(shared)),
            constant=int(np.count_nonzero(shared & level.groups.constant)),
            used=int(np.count_nonzero(level.used)),
            absolute=float(np.abs(level.values).sum()),
            both=both,
            agreeing=agreeing,
        )

    def __add__(self, other: LevelCounts) -> LevelCounts:
        return LevelCounts(*(getattr(self, one.name) + getattr(other, one.name) for one in fields(self)))

    def metrics(self) -> dict[str, float]:
        """Metrics of the level; shares of steps are among the steps that have it."""
        sizes = {f"size/{name}": float(count) for name, count in zip(BIN_NAMES, self.bins)}
        steps = max(self.steps, 1)
        return sizes | {
            "groups": float(self.bins.sum()),
            "steps": float(self.steps),
            "singleton_share": float(self.bins[0]) / steps,
            "constant_share": self.constant / max(self.shared, 1),
            "signal_share": self.used / steps,
            "abs_advantage": self.absolute / steps,
        }


@dataclass(frozen=True)
class EstimateCounts:
    """Counts and sums of one estimate; those of two sets of tasks add up."""

    steps: int
    trajectories: int
    tasks: int
    returns: float
    advantages: float
    spread: float
    """Sum of squared distances of the advantages from their mean."""
    absolute: float
    nonzero: int
    covered: int
    """Steps that some level says something about."""
    pairs: float
    """Pairs of steps in the same state."""
    same: float
    """Those among them whose histories agree."""
    levels: tuple[LevelCounts, ...]

    @classmethod
    def of(cls, record: Record, result: Result) -> EstimateCounts:
        """Count one estimate."""
        advantages, count = result.advantages, len(result.advantages)
        covered = np.zeros(count, dtype=bool)
        levels, shallower = [], None
        for level in result.seen_levels:
            covered[level.rows[level.used]] = True
            levels.append(LevelCounts.of(level, shallower, count))
            shallower = level
        pairs, same = context_pairs(record.trajectories.step, result.levels) if levels else (0.0, 0.0)
        return cls(
            steps=count,
            trajectories=record.trajectories.num_trajectories,
            tasks=int(np.count_nonzero(np.bincount(record.trajectories.task_ids))),
            returns=float(result.returns.sum()),
            advantages=float(advantages.sum()),
            spread=float(np.square(advantages - advantages.mean()).sum()),
            absolute=float(np.abs(advantages).sum()),
            nonzero=int(np.count_nonzero(advantages)),
            covered=int(np.count_nonzero(covered)),
            pairs=pairs,
            same=same,
            levels=tuple(levels),
        )

    def __add__(self, other: EstimateCounts) -> EstimateCounts:
        distance = self.advantages / self.steps - other.advantages / other.steps
        between = distance * distance * self.steps * other.steps / (self.steps + other.steps)
        sums = {
            one.name: getattr(self, one.name) + getattr(other, one.name)
            for one in fields(self)
            if one.name not in ("spread", "levels")
        }
        levels = tuple(one + two for one, two in zip(self.levels, other.levels))
        return EstimateCounts(**sums, spread=self.spread + other.spread + between, levels=levels)

    def metrics(self) -> dict[str, float]:
        """All metrics of the estimate."""
        metrics = {
            "steps": float(self.steps),
            "trajectories": float(self.trajectories),
            "tasks": float(self.tasks),
            "return/mean": self.returns / self.steps,
            "advantage/mean": self.advantages / self.steps,
            "advantage/std": float(np.sqrt(self.spread / self.steps)),
            "advantage/abs_mean": self.absolute / self.steps,
            "advantage/zero_share": 1.0 - self.nonzero / self.steps,
        }
        for number, level in enumerate(self.levels):
            metrics |= {f"level/{number}/{name}": value for name, value in level.metrics().items()}
            if number:
                agreement = level.agreeing / level.both if level.both else 1.0
                metrics[f"level/{number}/sign_agreement"] = agreement
        if self.levels:
            metrics["context/coverage"] = self.covered / self.steps
            metrics["context/inconsistency"] = 1.0 - self.same / self.pairs if self.pairs else 0.0
        return metrics


def sign_agreement(shallow: Level, deep: Level, num_steps: int) -> tuple[int, int]:
    """Steps with signal at both levels, and those among them whose two advantages have the same sign."""
    sign = np.zeros(num_steps)
    sign[shallow.rows[shallow.used]] = np.sign(shallow.values[shallow.used])
    both = sign[deep.rows[deep.used]] * np.sign(deep.values[deep.used])
    return int(np.count_nonzero(both)), int(np.count_nonzero(both > 0))


def context_pairs(step: IntArray, levels: npt.NDArray[np.int64]) -> tuple[float, float]:
    """Pairs of steps in the same state, and those among them whose histories agree up to the deepest level.

    Two steps agree when they share the deepest level, or when both are too early for it, equally far from the
    start, and share the level of their whole history.
    """
    deepest = len(levels) - 1
    pairs = _pairs(levels[0])
    if deepest == 0 or pairs == 0:
        return pairs, pairs
    early = np.flatnonzero(step < deepest)
    agreeing = _pairs(levels[deepest])
    for short in range(deepest):
        agreeing += _pairs(levels[short, early[step[early] == short]])
    return pairs, agreeing


def _pairs(labels: IntArray) -> float:
    """Pairs of equal labels [n], those that are -1 left out."""
    sizes = np.bincount(labels + 1)[1:].astype(np.float64)
    return float((sizes * (sizes - 1)).sum() / 2)
