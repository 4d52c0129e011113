"""The numbers of a run by iteration, held as columns: small, and quick to hand out from any place on."""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from typing import Any

COLUMNS = 4000
"""Names that are kept; a run has about a hundred."""
NAN = math.nan


class Series:
    """Metrics by iteration, ascending; of two rows about one iteration the later counts."""

    def __init__(self) -> None:
        self.iterations: list[int] = []
        self.columns: dict[str, array[float]] = {}

    def __len__(self) -> int:
        return len(self.iterations)

    def add(self, row: Mapping[str, Any]) -> bool:
        """Take a row; False when it did not go to the end, so that what was handed out before is no longer right."""
        iteration = row["iteration"]
        place = bisect_left(self.iterations, iteration)
        appended = place == len(self.iterations)
        if appended or self.iterations[place] != iteration:
            self.iterations.insert(place, iteration)
            for column in self.columns.values():
                column.insert(place, NAN)
        for column in self.columns.values():
            column[place] = NAN
        for name, value in numbers(row).items():
            if name not in self.columns:
                if len(self.columns) >= COLUMNS:
                    continue
                self.columns[name] = array("d", [NAN]) * len(self.iterations)
            self.columns[name][place] = value
        return appended

    def part(self, names: Iterable[str], start: int) -> dict[str, list[float | None]]:
        """The values of some columns from a place on, six digits each; columns without any are left out."""
        found = {}
        for name in names:
            values = self.columns[name][start:] if name in self.columns else ()
            if any(map(math.isfinite, values)):
                found[name] = [float(f"{value:.6g}") if math.isfinite(value) else None for value in values]
        return found

    def agreement(self, other: Series) -> int:
        """How many rows from the beginning on are the same in both: iteration, and every number that both have."""
        shared = [(self.columns[name], other.columns[name]) for name in self.columns if name in other.columns]
        for place, (mine, theirs) in enumerate(zip(self.iterations, other.iterations)):
            if mine != theirs or any(_apart(one[place], two[place]) for one, two in shared):
                return place
        return min(len(self), len(other))


def numbers(row: Mapping[str, Any]) -> dict[str, float]:
    """What of a row is a number, whatever else somebody wrote into it; without the iteration."""
    found = {}
    for name, value in row.items():
        if name == "iteration" or type(value) not in (int, float) or len(name) > 200:
            continue
        try:
            found[name] = float(value)
        except OverflowError:
            found[name] = math.inf if value > 0 else -math.inf
    return found


def _apart(one: float, two: float) -> bool:
    return one != two and (one == one or two == two)
