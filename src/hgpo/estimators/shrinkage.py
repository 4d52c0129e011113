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
from .groups import Groups, dense, group_means, mean_of_others, segment_sums
from .hierarchy import split

TINY = 1e-300


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
    def of(cls, labels: IntArray, trajectory_ids: IntArray) -> Partition:
        """Collect the sizes of groups [n]."""
        visits = split(labels, trajectory_ids)
        group_of_visit = np.empty(int(visits.max(initial=-1)) + 1, dtype=np.int64)
        group_of_visit[visits] = labels
        sizes = np.bincount(labels).astype(np.float64)
        trajectories = np.bincount(group_of_visit, minlength=len(sizes)).astype(np.float64)
        return cls(labels, sizes, visits, group_of_visit, trajectories)

    def means(self, values: FloatArray) -> FloatArray:
        """Mean of `values` [n] over the group of each step. Float64 [n]."""
        return group_means(self.labels, values, self.sizes)[self.labels]

    def pairs(self, values: FloatArray) -> Pairs:
        """Pairs of steps of different trajectories in each group, for `values` [n].

        Over all pairs of n values the squared differences sum to n sum d^2 - (sum d)^2, with d measured from the
        group's mean; the pairs inside one trajectory are taken off again.
        """
        deviations = Groups.of(self.labels, values).deviations
        count, squares = _all_pairs(self.labels, deviations)
        own_count, own_squares = _all_pairs(self.visits, deviations)
        number = len(self.sizes)
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
    num_within, num_between = float(share @ count), float(share @ (outer.count - count))
    if num_within <= 0.0 or num_between <= 0.0:
        return 0.0, 1.0
    within = float(share @ squares) / num_within
    between = float(share @ np.maximum(outer.squares - squares, 0.0)) / num_between
    return max(between - within, 0.0), within


def nested_means(
    parts: list[Partition], weights: list[FloatArray], values: FloatArray, start: FloatArray
) -> Nested:
    """Means of `values` [steps] over the groups of every level, each shrunk toward the one above."""
    means = [part.means(values) for part in parts]
    return Nested.of(start, means, [weight[part.labels] for part, weight in zip(parts, weights)])


def nested_values(parts: list[Partition], by_step: list[FloatArray], values: FloatArray) -> list[FloatArray]:
    """v_k of every level, as `nested_means` has them, with weights by step [steps], from `values` [steps] downward."""
    estimate, by_level = values, []
    for part, weight in zip(parts, by_step):
        estimate = weight * part.means(values) + (1.0 - weight) * estimate
        by_level.append(estimate)
    return by_level


def means_of_others(
    parts: list[Partition], weights: list[FloatArray], values: FloatArray, roots: Partition
) -> Nested:
    """The same without the steps of one's own trajectory; a group without others passes its parent's estimate on."""
    start, _ = _mean_of_others(roots, values)
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


def _all_pairs(labels: IntArray, deviations: FloatArray) -> tuple[FloatArray, FloatArray]:
    sizes = np.bincount(labels).astype(np.float64)
    sums = segment_sums(labels, deviations, len(sizes))
    squares = segment_sums(labels, np.square(deviations), len(sizes))
    return sizes * (sizes - 1.0) / 2.0, sizes * squares - np.square(sums)
