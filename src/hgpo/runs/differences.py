"""Which differences between settings are larger than the noise of their training seeds?"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass

from .statistics import between_arms, over_runs


@dataclass(frozen=True)
class Difference:
    """`other` minus `one`, seed by seed: runs of one seed play the same tasks."""

    one: str
    other: str
    seeds: int
    """Seeds that both have."""
    mean: float
    own: float
    """Half width of the 95% interval over the pair's own differences; NaN with one seed."""
    common: float
    """The same from the noise of all settings together (`between_arms`); NaN when too few share their seeds."""

    @property
    def clear(self) -> bool:
        """Zero lies in neither interval. With few seeds a pair's own is at times narrow by luck, so both are asked."""
        return abs(self.mean) > self.own and (math.isnan(self.common) or abs(self.mean) > self.common)

    def points(self) -> str:
        """`+6.2 ± 5.6 / 2.9` in percentage points: mean, own and common half width."""
        shown = f"{100 * self.mean:+.1f}"
        if not math.isnan(self.own):
            shown += f" ± {100 * self.own:.1f}"
        return shown if math.isnan(self.common) else f"{shown} / {100 * self.common:.1f}"


def differences(readings: Mapping[str, Mapping[int, float]]) -> list[Difference]:
    """All pairs of settings that share a seed, from one reading per setting and seed.

    >>> (pair,) = differences({"a": {1: 0.50, 2: 0.60, 3: 0.55}, "b": {1: 0.60, 2: 0.71, 3: 0.64}})
    >>> pair.points(), pair.clear
    ('+10.0 ± 2.5 / 2.5', True)
    """
    filled = {name: values for name, values in readings.items() if values}
    seeds = sorted(set.intersection(*map(set, filled.values()))) if filled else []
    common = math.nan
    if len(filled) > 1 and len(seeds) > 1:
        common = between_arms([[values[seed] for seed in seeds] for values in filled.values()])
    pairs = []
    for one, other in itertools.combinations(filled, 2):
        gaps = [filled[other][seed] - value for seed, value in filled[one].items() if seed in filled[other]]
        if gaps:
            own = over_runs(gaps)
            pairs.append(Difference(one, other, len(gaps), own["mean"], own["high"] - own["mean"], common))
    return pairs
