"""Statistics of groups given as integer labels.

Sums are taken around a member of the group (the pivot), not around zero, so a group of equal values has a spread
of exactly zero at any scale and large constants cost no digits.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .columns import BoolArray, FloatArray, IntArray

# Differences below this share of the values' size are rounding, not signal: float64 carries 16 digits, and the
# sum over a group of thousands loses up to four.
ROUNDING = 1e-12


def segment_sums(labels: IntArray, values: FloatArray, count: int) -> FloatArray:
    """Sum of `values` [n] for each label 0..count-1. Float64 [count]."""
    sums = np.bincount(labels, weights=values, minlength=count)
    return sums.astype(np.float64, copy=False)


@dataclass(frozen=True)
class Groups:
    """Groups of n values by integer labels. Make one with `Groups.of`."""

    labels: IntArray
    """[n] group of each value, dense from 0."""
    sizes: IntArray
    """[groups] number of members."""
    means: FloatArray
    """[groups] mean of the values."""
    deviations: FloatArray
    """[n] value minus the mean of its group, exactly zero where that is only rounding."""
    rounding: FloatArray
    """[groups] differences up to this size are rounding."""
    constant: BoolArray
    """[groups] whether all values of the group are equal."""

    @classmethod
    def of(cls, labels: IntArray, values: FloatArray) -> Groups:
        """Group `values` [n] by `labels` [n], dense from 0."""
        sizes = np.bincount(labels)
        count = len(sizes)
        members = np.maximum(sizes, 1)
        pivot = np.zeros(count)
        pivot[labels] = values
        centered = values - pivot[labels]
        distance = np.abs(centered)
        rounding = ROUNDING * (segment_sums(labels, distance, count) / members + np.abs(pivot))
        limit = rounding[labels]
        constant = np.bincount(labels[distance > limit], minlength=count) == 0
        offset = segment_sums(labels, centered, count) / members
        centered -= offset[labels]
        centered[np.abs(centered) <= limit] = 0.0
        return cls(labels, sizes, pivot + offset, centered, rounding, constant)

    @property
    def num_groups(self) -> int:
        """How many groups there are."""
        return len(self.sizes)

    def sum(self, values: FloatArray) -> FloatArray:
        """Sum of other values [n] over each group. Float64 [groups]."""
        return segment_sums(self.labels, values, self.num_groups)

    def std(self, sample: bool) -> FloatArray:
        """Standard deviation of each group: over n, or over n - 1 with `sample`. Float64 [groups]."""
        squares = self.sum(np.square(self.deviations))
        std: FloatArray = np.sqrt(squares / np.maximum(self.sizes - int(sample), 1))
        return std


def dense(keys: IntArray) -> IntArray:
    """Relabel integer keys [n] as 0..g-1, equal where the keys are equal."""
    if len(keys) == 0:
        return keys
    low, high = int(keys.min()), int(keys.max())
    if high - low <= 4 * len(keys) + 1024:
        # A small range is counted; sorting is only for the others.
        present = np.zeros(high - low + 1, dtype=np.int64)
        present[keys - low] = 1
        ranks: IntArray = (np.cumsum(present) - 1)[keys - low]
        return ranks
    order = np.argsort(keys)
    ordered = keys[order]
    first = np.empty(len(keys), dtype=np.int64)
    first[0] = 0
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:], casting="unsafe")
    labels = np.empty(len(keys), dtype=np.int64)
    labels[order] = np.cumsum(first)
    return labels
