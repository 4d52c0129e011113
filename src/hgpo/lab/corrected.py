"""Cosine and error of estimated advantages against a truth that is itself noisy, with intervals over games.

The truth of a real engine is A + noise: A of `branches.py` with the known noise variance S, drawn apart from the
rollouts. Over the steps of a set of games, with an estimator's advantages a,

    sum a (A + noise)            has the mean sum a A:       the noise knows nothing of a
    sum (A + noise)^2 - sum S    has the mean sum A^2:       without the subtraction the truth looks longer than it is

so cosine = sum a A / sqrt(sum a^2 sum A^2) and error = 1 - cosine^2 (the squared error after the best constant factor,
as a share of sum A^2; 1 where the cosine is negative) are free of the noise's bias, whatever the number of
continuations. What noise is left widens the intervals: games are drawn again with replacement, whole, `RESAMPLES`
times, and the middle 95 % of the ratios are the interval. A difference of two estimators is taken on the same draws.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..seeds import generator
from ..steps.columns import FloatArray, IntArray

RESAMPLES = 4000


@dataclass(frozen=True)
class GameSums:
    """The sums of one estimator by game; arrays are [games]."""

    cross: FloatArray
    """sum a A"""
    own: FloatArray
    """sum a^2"""
    true: FloatArray
    """sum A^2, the noise taken out"""

    @classmethod
    def of(
        cls, estimated: FloatArray, true: FloatArray, noise: FloatArray, games: IntArray, count: int
    ) -> GameSums:
        """From the steps: estimated and true advantages, the variance of the latter's noise, the number of the game."""

        def by_game(values: FloatArray) -> FloatArray:
            return np.bincount(games, values, count).astype(np.float64)

        return cls(by_game(estimated * true), by_game(np.square(estimated)), by_game(np.square(true) - noise))

    def cosine(self, picks: IntArray | None = None) -> FloatArray:
        """Over all games, or over each row of `picks` [draws, games]; nan where the truth has no length."""
        rows = np.arange(len(self.cross))[None] if picks is None else picks
        cross, own, true = (part[rows].sum(axis=1) for part in (self.cross, self.own, self.true))
        lengths = np.sqrt(own * np.maximum(true, 0.0))
        # An estimator that says nothing points nowhere; a truth of no length cannot be pointed at.
        silent = np.where(own <= 0.0, 0.0, np.nan)
        cosines: FloatArray = np.divide(cross, lengths, out=silent, where=lengths > 0.0)
        return cosines


def draws(games: int, resamples: int = RESAMPLES) -> IntArray:
    """Games drawn again: int [resamples, games], the same for the same number of games."""
    return generator("games", games).integers(0, games, size=(resamples, games))


def error(cosines: FloatArray) -> FloatArray:
    """1 - cosine^2, and 1 where the best factor is none. Noise can push a corrected cosine above 1: no error then."""
    found: FloatArray = 1.0 - np.square(np.clip(cosines, 0.0, 1.0))
    return found


def interval(value: float, again: FloatArray) -> dict[str, Any]:
    """A number with the middle 95 % of its draws, as the documents have it."""
    known = again[np.isfinite(again)]
    if not np.isfinite(value) or not len(known):
        return {"mean": None, "interval": [None, None]}
    low, high = np.quantile(known, [0.025, 0.975])
    return {"mean": float(value), "interval": [float(low), float(high)]}


def compare(sums: Sequence[GameSums], ours: int | None) -> list[dict[str, Any]]:
    """Cosine and error of every estimator, and how far the one at `ours` is ahead of it in cosine."""
    picks = draws(len(sums[0].cross))
    all_cosines = [(float(one.cosine()[0]), one.cosine(picks)) for one in sums]
    found = []
    for place, (cosine, again) in enumerate(all_cosines):
        document = {
            "cosine": interval(cosine, again),
            "error": interval(float(error(np.array(cosine))), error(again)),
        }
        if ours is not None and place != ours:
            best, best_again = all_cosines[ours]
            document["ours_ahead"] = interval(best - cosine, best_again - again)
        found.append(document)
    return found
