"""Statistics of groups given as integer labels.

Sums are taken around a member of the group (the pivot), not around zero, so a group of equal values has a spread
of exactly zero at any scale and large constants cost no digits.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..steps.columns import BoolArray, FloatArray, IntArray

# Differences below this share of the values' size are rounding, not signal: float64 carries 16 digits, and the
# sum over a group of thousands loses up to four.
ROUNDING = 1e-12
SMALLEST = 1e-280
"""Sums of squares below this have lost digits."""


def segment_sums(labels: IntArray, values: FloatArray, count: int) -> FloatArray:
    """Sum of `values` [n] for each label 0..count-1. Float64 [count]."""
    sums = np.bincount(labels, weights=values, minlength=count)
    return sums.astype(np.float64, copy=False)


def group_means(labels: IntArray, values: FloatArray, sizes: FloatArray, pivot: FloatArray) -> FloatArray:
    """Mean of `values` [n] over each group of labels [n], as in `Groups`. Float64 [groups].

    `sizes` [groups] are at least 1, and `pivot` [groups] holds the last value of each group.
    """
    means: FloatArray = pivot + segment_sums(labels, values - pivot.take(labels), len(sizes)) / sizes
    return means


def deviations(labels: IntArray, values: FloatArray, sizes: FloatArray, pivot: FloatArray) -> FloatArray:
    """`Groups.deviations` [n] alone, of groups with `sizes` and `pivot` [groups] as in `group_means`."""
    return _centered(labels, values, sizes, pivot)[1]


def _centered(
    labels: IntArray,
    values: FloatArray,
    members: IntArray | FloatArray,
    pivot: FloatArray,
    constant: BoolArray | None = None,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Means [groups], deviations [n] and rounding [groups] of groups; `constant`, all true, is made false where it is.

    See `Groups` and `group_means`; `members` are sizes of at least 1.
    """
    count = len(members)
    # One array for what is needed in passing: for millions of steps fresh memory costs more than arithmetic.
    passing = np.take(pivot, labels)
    centered = values - passing
    distance = np.abs(centered, out=passing)
    rounding = ROUNDING * (segment_sums(labels, distance, count) / members + np.abs(pivot))
    limit = np.take(rounding, labels)
    if constant is not None:
        constant[labels[distance > limit]] = False
    offset = segment_sums(labels, centered, count) / members
    centered -= np.take(offset, labels, out=passing, mode="clip")
    np.putmask(centered, np.abs(centered, out=passing) <= limit, 0.0)
    return pivot + offset, centered, rounding


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
        constant = np.ones(len(sizes), dtype=bool)
        pivot = np.zeros(len(sizes))
        pivot[labels] = values  # of equal labels the last one stays
        means, deviations, rounding = _centered(labels, values, np.maximum(sizes, 1), pivot, constant)
        return cls(labels, sizes, means, deviations, rounding, constant)

    @property
    def num_groups(self) -> int:
        """How many groups there are."""
        return len(self.sizes)

    def sum(self, values: FloatArray) -> FloatArray:
        """Sum of other values [n] over each group. Float64 [groups]."""
        return segment_sums(self.labels, values, self.num_groups)

    def std(self, sample: bool) -> FloatArray:
        """Standard deviation of each group: over n, or over n - 1 with `sample`. Float64 [groups]."""
        count = np.maximum(self.sizes - int(sample), 1)
        squares = self.sum(np.square(self.deviations))
        std: FloatArray = np.sqrt(squares / count)
        lost = (squares < SMALLEST) & ~self.constant
        if lost.any():
            # Their squares are too small for float64; a power of two changes no digit.
            larger = self.sum(np.square(self.deviations * 2.0**500))
            std[lost] = np.sqrt(larger / count)[lost] / 2.0**500
        return std


def mean_of_others(groups: Groups, owners: IntArray) -> tuple[IntArray, FloatArray]:
    """The mean of a value's group without the members that have the same owner as the value.

    Args:
        groups: groups of n values.
        owners: [n] (group, owner) pair of each value, dense from 0.

    Returns the number of other members [n], and by how much their mean exceeds the group's mean [n]; 0 where there
    are no others.
    """
    own = np.bincount(owners)
    others: IntArray = groups.sizes[groups.labels] - own[owners]
    # Deviations of a group sum to zero, so those of the others sum to minus the owner's own.
    own_sum = segment_sums(owners, groups.deviations, len(own))[owners]
    excess: FloatArray = -np.where(others > 0, own_sum, 0.0) / np.maximum(others, 1)
    return others, excess


def within_task(codes: IntArray, tasks: IntArray) -> IntArray:
    """Codes [n] counted from the smallest code of their task [n].

    Groups never cross tasks, so it does not matter that codes of different tasks may now be equal; and small numbers
    can be counted where large ones must be sorted. Tasks should stand together for speed, not for correctness.
    """
    starts = np.concatenate(([0], np.flatnonzero(tasks[1:] != tasks[:-1]) + 1))
    smallest = np.full(int(tasks.max()) + 1, np.iinfo(np.int64).max)
    np.minimum.at(smallest, tasks[starts], np.minimum.reduceat(codes, starts))
    local: IntArray = codes - smallest[tasks]
    return local
