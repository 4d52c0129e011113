"""Counts that add up: of one iteration, and by addition of all of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..steps.columns import FloatArray

Count = float | FloatArray


class Tally(dict[tuple[Any, ...], Count]):
    """Numbers and arrays by key; adding two tallies adds what they have in common."""

    def count(self, *key: Any, by: Any = 1.0) -> None:
        """Add `by` (a number or an array) to the entry `key`."""
        amount: Count = np.asarray(by, dtype=np.float64) if isinstance(by, np.ndarray) else float(by)
        self[key] = self[key] + amount if key in self else amount

    def add(self, other: Tally) -> None:
        """Add everything another tally has."""
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
        found = (key[length] for key in self if len(key) > length and key[:length] == prefix)
        return list(dict.fromkeys(found))
