"""Statistics of groups given as integer labels.

Sums are taken around a member of the group (the pivot), not around zero, so a group of equal values has a spread
of exactly zero at any scale and large constants cost no digits.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

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
    """Groups of `values` [n] by `labels` [n] in 0..num_groups-1."""

    labels: IntArray
    values: FloatArray
    num_groups: int

    @classmethod
    def of(cls, labels: IntArray, values: FloatArray) -> Groups:
        """Groups with labels that are dense from 0."""
        return cls(labels, values, int(labels.max(initial=-1)) + 1)

    def sum(self, values: FloatArray) -> FloatArray:
        """Sum of other values [n] over each group. Float64 [groups]."""
        return segment_sums(self.labels, values, self.num_groups)

    @cached_property
    def sizes(self) -> IntArray:
        """Members of each group. Int [groups]."""
        sizes: IntArray = np.bincount(self.labels, minlength=self.num_groups)
        return sizes

    @cached_property
    def _pivot(self) -> FloatArray:
        pivot = np.zeros(self.num_groups)
        pivot[self.labels] = self.values
        return pivot

    @cached_property
    def _centered(self) -> FloatArray:
        """Values minus the pivot of their group [n]."""
        centered: FloatArray = self.values - self._pivot[self.labels]
        return centered

    @cached_property
    def _offset(self) -> FloatArray:
        """Mean minus pivot [groups]."""
        offset: FloatArray = self.sum(self._centered) / np.maximum(self.sizes, 1)
        return offset

    @cached_property
    def rounding(self) -> FloatArray:
        """Differences up to this size are rounding, by group. Float64 [groups]."""
        size = self.sum(np.abs(self._centered)) / np.maximum(self.sizes, 1)
        rounding: FloatArray = ROUNDING * (size + np.abs(self._pivot))
        return rounding

    @cached_property
    def constant(self) -> BoolArray:
        """Groups whose values are all equal. Bool [groups]."""
        differs = np.abs(self._centered) > self.rounding[self.labels]
        constant: BoolArray = np.bincount(self.labels[differs], minlength=self.num_groups) == 0
        return constant

    @cached_property
    def means(self) -> FloatArray:
        """Float64 [groups]."""
        means: FloatArray = self._pivot + self._offset
        return means

    @cached_property
    def deviations(self) -> FloatArray:
        """Value minus the mean of its group, exactly zero where that is only rounding. Float64 [n]."""
        deviations = self._centered - self._offset[self.labels]
        deviations[np.abs(deviations) <= self.rounding[self.labels]] = 0.0
        return deviations

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
