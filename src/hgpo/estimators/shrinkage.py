"""Means of nested groups, each shrunk toward its parent as far as the data ask for it.

Let level k split the groups of level k - 1, and let y be a value of each step. The estimate of a step's level is

    v_k = w_k mean_k + (1 - w_k) v_{k-1}          w_k = s_k / (s_k + W_k / (m - 1))

with m the number of distinct trajectories in the step's group (so m - 1 of them know more than the step's own) and
two numbers per level taken from pairs of steps of *different* trajectories (steps of one trajectory share their luck,
so they say nothing about noise):

    W_k = half the mean squared difference of pairs that share level k
    B_k = half the mean squared difference of pairs that share level k - 1 but not level k
    s_k = max(B_k - W_k, 0)

This is empirical Bayes with one variance component per level: s_k is how much the true means differ inside a parent,
W_k / (m - 1) the noise of a mean over the others. A level that explains nothing gets s_k = 0 and disappears, whatever
its depth; a group that only one trajectory visited leaves the estimate to its parent.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..steps.columns import FloatArray, IntArray
from ..steps.labels import changes, dense, sorted_order
from .groups import Groups, deviations, group_means, mean_of_others, segment_sums

TINY = 1e-300
PIECE = 10_000
"""Numbers that are multiplied and added in one call."""


@dataclass(frozen=True)
class Pairs:
    """Pairs of steps of different trajectories inside each group."""

    count: FloatArray
    """[groups] how many."""
    squares: FloatArray
    """[groups] sum of half their squared differences."""


@dataclass(frozen=True)
class Partition:
    """All steps split into groups, and the trajectories in each group."""

    labels: IntArray
    """[n] group of each step, dense from 0."""
    sizes: FloatArray
    """[groups] number of steps."""
    visits: IntArray
    """[n] (group, trajectory) pair of each step, dense from 0."""
    group_of_visit: IntArray
    """[pairs] group of each such pair."""
    num_trajectories: FloatArray
    """[groups] number of distinct trajectories."""

    @classmethod
    def of(cls, keys: IntArray, trajectory_ids: IntArray) -> Partition:
        """Put steps with equal keys [n] (whole numbers from 0) into one group, in the order of the keys."""
        # In canonical order steps stand trajectory by trajectory: a stable order by key then sorts by both.
        if (trajectory_ids[1:] >= trajectory_ids[:-1]).all():
            order = sorted_order(keys)
        else:
            order = sorted_order(trajectory_ids)
            order = order[sorted_order(keys[order])]
        ordered, owners = keys[order], trajectory_ids[order]
        new_group = changes(ordered)
        new_visit = changes(owners) | new_group
        labels, visits = np.empty(len(keys), dtype=np.int64), np.empty(len(keys), dtype=np.int64)
        groups = np.cumsum(new_group)
        labels[order] = groups
        visits[order] = np.cumsum(new_visit)
        new_visit[:1] = 1
        group_of_visit = groups[np.flatnonzero(new_visit)]
        sizes = np.bincount(groups).astype(np.float64)
        return cls(labels, sizes, visits, group_of_visit, np.bincount(group_of_visit).astype(np.float64))

    def means(self, values: FloatArray) -> FloatArray:
        """Mean of `values` [n] over the group of each step. Float64 [n]."""
        return group_means(self.labels, values, self.sizes)[self.labels]

    def pairs(self, values: FloatArray) -> Pairs:
        """Pairs of steps of different trajectories in each group, for `values` [n].

        Over all pairs of n values the squared differences sum to n sum d^2 - (sum d)^2, with d measured from the
        group's mean; the pairs inside one trajectory are taken off again. A group that one trajectory visited has none.
        """
        labels, visits, number = self.labels, self.visits, len(self.sizes)
        several = self.num_trajectories > 1.0
        sizes = self.sizes * several
        met = np.flatnonzero(several[labels])
        if len(met) < len(labels):
            labels, visits, values = labels[met], visits[met], values[met]
        apart = deviations(labels, values, sizes)
        squared = np.square(apart)
        own_sizes = np.bincount(visits, minlength=len(self.group_of_visit)).astype(np.float64)
        count, squares = _all_pairs(labels, apart, squared, sizes)
        own_count, own_squares = _all_pairs(visits, apart, squared, own_sizes)
        count -= segment_sums(self.group_of_visit, own_count, number)
        squares -= segment_sums(self.group_of_visit, own_squares, number)
        return Pairs(count, np.maximum(squares, 0.0) / 2.0)


@dataclass(frozen=True)
class Nested:
    """Shrunk means of every level; arrays are [steps], one per level."""

    start: FloatArray
    """Estimate above the first level."""
    means: tuple[FloatArray, ...]
    """Mean of the step's group."""
    weights: tuple[FloatArray, ...]
    """w_k of each step: how much its group's own mean counts."""
    values: tuple[FloatArray, ...]
    """v_k, the estimate as far as each level; the last is the result."""

    @property
    def result(self) -> FloatArray:
        """The estimate from all levels."""
        return self.values[-1]

    @classmethod
    def of(cls, start: FloatArray, means: list[FloatArray], weights: list[FloatArray]) -> Nested:
        """Shrink the mean of every level toward the estimate above, from `start` downward."""
        estimate = start
        values = []
        for mean, weight in zip(means, weights):
            estimate = weight * mean + (1.0 - weight) * estimate
            values.append(estimate)
        return cls(start, tuple(means), tuple(weights), tuple(values))

    def shares(self) -> list[FloatArray]:
        """With which share the start and the mean of each level enter the result; they sum to 1. [levels + 1, steps]

        share_k = w_k (1 - w_{k+1}) ... (1 - w_K)
        """
        shares, rest = [], np.ones(len(self.start))
        for weight in reversed(self.weights):
            shares.append(weight * rest)
            rest = rest * (1.0 - weight)
        return [rest, *reversed(shares)]


def partitions(levels: npt.NDArray[np.int64], trajectory_ids: IntArray) -> list[Partition]:
    """Complete, nested partitions from group labels [levels, steps].

    A step too early for a level (label -1) stays with the other steps of its parent group that are too early.
    """
    complete: list[Partition] = []
    parent: IntArray = np.zeros(levels.shape[1], dtype=np.int64)
    for labels in levels:
        missing = labels < 0
        if missing.any():
            labels = dense(np.where(missing, int(labels.max()) + 1 + parent, labels))
        complete.append(Partition.of(labels, trajectory_ids))
        parent = labels
    return complete


def level_weights(parts: list[Partition], roots: Partition | None, values: FloatArray) -> list[FloatArray]:
    """w_k of each level's groups, estimated from `values` [steps]; without `roots` the first level has weight 1."""
    chain = parts if roots is None else [roots, *parts]
    pairs = [part.pairs(values) for part in chain]
    weights = [np.ones(len(parts[0].sizes))] if roots is None else []
    for number in range(1, len(chain)):
        part = chain[number]
        explained, left = components(chain[number - 1], part, pairs[number - 1], pairs[number])
        evidence = explained * (part.num_trajectories - 1.0)
        weights.append(evidence / np.maximum(evidence + left, TINY))
    return weights


def components(parent: Partition, level: Partition, outer: Pairs, inner: Pairs) -> tuple[float, float]:
    """s and W of a level: what its groups explain, and what is left inside them.

    Each parent group counts by its pairs over its size, so that one large group does not decide alone.
    Without pairs on both sides there is no evidence, and s is zero.
    """
    parent_of = np.empty(len(level.sizes), dtype=np.int64)
    parent_of[level.labels] = parent.labels
    count = segment_sums(parent_of, inner.count, len(parent.sizes))
    squares = segment_sums(parent_of, inner.squares, len(parent.sizes))
    share = 1.0 / parent.sizes
    num_within, num_between = _dot(share, count), _dot(share, outer.count - count)
    if num_within <= 0.0 or num_between <= 0.0:
        return 0.0, 1.0
    within = _dot(share, squares) / num_within
    between = _dot(share, np.maximum(outer.squares - squares, 0.0)) / num_between
    return max(between - within, 0.0), within


def _dot(one: FloatArray, other: FloatArray) -> float:
    """sum of one times other, in pieces: a longer product may be shared out among threads, which costs more than it
    saves and makes the last digit a matter of how many there are."""
    return sum(float(one[at : at + PIECE] @ other[at : at + PIECE]) for at in range(0, len(one), PIECE))


def nested_means(
    parts: list[Partition], weights: list[FloatArray], values: FloatArray, start: FloatArray
) -> Nested:
    """Means of `values` [steps] over the groups of every level, each shrunk toward the one above."""
    means = [part.means(values) for part in parts]
    return Nested.of(start, means, [weight[part.labels] for part, weight in zip(parts, weights)])


@dataclass(frozen=True)
class PreparedLevel:
    """A level of `nested_means` for many rounds of values: the steps to which its own mean matters, [m]."""

    rows: IntArray | None
    """Canonical position of those steps; None for all."""
    labels: IntArray
    sizes: FloatArray
    """[groups]"""
    own: FloatArray
    """w_k"""
    rest: FloatArray
    """1 - w_k"""

    @classmethod
    def of(cls, part: Partition, weights: FloatArray) -> PreparedLevel | None:
        """Prepare a level with weights [groups]; None where its means matter to nobody."""
        own = weights[part.labels]
        rows = np.flatnonzero(own)
        if len(rows) == 0:
            return None
        if len(rows) == len(own):
            return cls(None, part.labels, part.sizes, own, 1.0 - own)
        return cls(rows, part.labels[rows], part.sizes, own[rows], 1.0 - own[rows])

    def mix(self, values: FloatArray, above: FloatArray) -> FloatArray:
        """w_k mean_k + (1 - w_k) v_{k-1} from values and v_{k-1} [steps]. Float64 [steps]."""
        if self.rows is None:
            mean = group_means(self.labels, values, self.sizes)[self.labels]
            whole: FloatArray = self.own * mean + self.rest * above
            return whole
        mean = group_means(self.labels, values[self.rows], self.sizes)[self.labels]
        mixed: FloatArray = above.copy()
        mixed[self.rows] = self.own * mean + self.rest * above[self.rows]
        return mixed


def prepared(parts: list[Partition], weights: list[FloatArray]) -> list[PreparedLevel | None]:
    """The levels of `nested_means` with weights [groups] each."""
    return [PreparedLevel.of(part, weight) for part, weight in zip(parts, weights)]


def nested_values(
    levels: list[PreparedLevel | None], values: FloatArray, start: FloatArray | None = None
) -> list[FloatArray]:
    """v_k [steps] of every level, as `nested_means` has them, from `start` [steps] downward (or from `values`)."""
    estimate, by_level = values if start is None else start, []
    for level in levels:
        estimate = estimate if level is None else level.mix(values, estimate)
        by_level.append(estimate)
    return by_level


def means_of_others(
    parts: list[Partition], weights: list[FloatArray], values: FloatArray, roots: Partition
) -> Nested:
    """The same without the steps of one's own trajectory; a group without others passes its parent's estimate on.

    Where the task has no other trajectory there is nothing to compare with: the estimate is the value itself.
    """
    start, others = _mean_of_others(roots, values)
    start = np.where(others > 0, start, values)
    means, used = [], []
    for part, weight in zip(parts, weights):
        mean, others = _mean_of_others(part, values)
        means.append(mean)
        used.append(np.where(others > 0, weight[part.labels], 0.0))
    return Nested.of(start, means, used)


def _mean_of_others(part: Partition, values: FloatArray) -> tuple[FloatArray, IntArray]:
    """Per step: mean over the other trajectories in its group, and how many steps those have."""
    groups = Groups.of(part.labels, values)
    others, excess = mean_of_others(groups, part.visits)
    return groups.means[part.labels] + excess, others


def _all_pairs(
    labels: IntArray, apart: FloatArray, squared: FloatArray, sizes: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Pairs inside each group of `sizes` [groups], and the sum of their squared differences. Float64 [groups] each."""
    sums = segment_sums(labels, apart, len(sizes))
    squares = segment_sums(labels, squared, len(sizes))
    return sizes * (sizes - 1.0) / 2.0, sizes * squares - np.square(sums)
