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


def group_means(labels: IntArray, values: FloatArray, sizes: FloatArray) -> FloatArray:
    """Mean of `values` [n] over each group of labels [n] with `sizes` [groups], as in `Groups`. Float64 [groups]."""
    pivot = np.zeros(len(sizes))
    pivot[labels] = values
    means: FloatArray = pivot + segment_sums(labels, values - pivot[labels], len(sizes)) / np.maximum(
        sizes, 1
    )
    return means


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
        # One array for what is needed in passing: for millions of steps fresh memory costs more than arithmetic.
        passing = np.take(pivot, labels)
        centered = values - passing
        distance = np.abs(centered, out=passing)
        rounding = ROUNDING * (segment_sums(labels, distance, count) / members + np.abs(pivot))
        limit = np.take(rounding, labels)
        constant = np.ones(count, dtype=bool)
        constant[labels[distance > limit]] = False
        offset = segment_sums(labels, centered, count) / members
        centered -= np.take(offset, labels, out=passing, mode="clip")
        centered[np.abs(centered, out=passing) <= limit] = 0.0
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


def sorted_order(keys: IntArray) -> IntArray:
    """The stable order of whole numbers from 0 [n]: sixteen bits at a time, each a pass over the array."""
    order: IntArray = np.argsort(keys.astype(np.uint16), kind="stable")
    high, shift = int(keys.max(initial=0)) >> 16, 16
    while high:
        digits = (keys >> shift).astype(np.uint16)
        order = order[np.argsort(digits[order], kind="stable")]
        high, shift = high >> 16, shift + 16
    return order


def dense(keys: IntArray) -> IntArray:
    """Relabel integer keys [n] as 0..g-1, equal where the keys are equal."""
    if len(keys) == 0:
        return keys
    low, high = int(keys.min()), int(keys.max())
    places = keys - low if low else keys
    if high - low <= 16 * len(keys) + 1024:
        # A small range is counted; sorting is only for the others.
        present = np.zeros(high - low + 1, dtype=bool)
        present[places] = True
        met = np.flatnonzero(present)
        ranks = np.empty(len(present), dtype=np.int64)
        ranks[met] = np.arange(len(met))
        counted: IntArray = ranks[places]
        return counted
    order = sorted_order(places)
    labels = np.empty(len(keys), dtype=np.int64)
    labels[order] = np.cumsum(changes(keys[order]))
    return labels


def changes(ordered: IntArray) -> IntArray:
    """1 where a value differs from the one before it, 0 elsewhere and at the start. Int [n]."""
    changed = np.empty(len(ordered), dtype=np.int64)
    changed[:1] = 0
    np.not_equal(ordered[1:], ordered[:-1], out=changed[1:], casting="unsafe")
    return changed


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
