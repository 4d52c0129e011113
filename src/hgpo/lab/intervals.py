"""Means over seeds with their 95 % intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

NORMAL = 1.959963984540054


@dataclass(frozen=True)
class Interval:
    """A mean over n seeds and the 95 % interval of Student's t around it."""

    mean: float
    low: float
    high: float
    num: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Interval:
        """Mean and interval of independent values; a single value has no width to speak of and gets its own."""
        array = np.asarray(values, dtype=np.float64)
        array = array[np.isfinite(array)]
        count = len(array)
        if count == 0:
            return cls(float("nan"), float("nan"), float("nan"), 0)
        mean = float(array.mean())
        if count == 1:
            return cls(mean, mean, mean, 1)
        half = quantile(count - 1) * float(array.std(ddof=1)) / count**0.5
        return cls(mean, mean - half, mean + half, count)

    def as_json(self) -> dict[str, Any]:
        """For the JSON file; what is not a number is null there."""
        low, high = _number(self.low), _number(self.high)
        return {"mean": _number(self.mean), "interval": [low, high], "seeds": self.num}

    def text(self, digits: int = 2, signed: bool = False) -> str:
        """`0.52 ± 0.03`."""
        sign = "+" if signed else ""
        return f"{self.mean:{sign}.{digits}f} ± {(self.high - self.low) / 2:.{digits}f}"

    @property
    def excludes_zero(self) -> bool:
        """Whether the whole interval lies on one side of zero."""
        return self.low > 0.0 or self.high < 0.0


def quantile(freedom: int) -> float:
    """97.5 % point of Student's t, exact for 1 and 2 degrees of freedom, else Cornish-Fisher (error below 0.005)."""
    if freedom == 1:
        return 12.706204736
    if freedom == 2:
        return 4.302652730
    z, v = NORMAL, float(freedom)
    return (
        z
        + (z**3 + z) / (4 * v)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * v**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * v**3)
        + (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / (92160 * v**4)
    )


def _number(value: float) -> float | None:
    return value if np.isfinite(value) else None
