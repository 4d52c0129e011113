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
from ..steps.labels import dense, last_equal
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
    num_trajectories: FloatArray
    """[groups] number of distinct trajectories; 0 in a group that was not looked at because it has one."""
    met: IntArray
    """Where the steps stand whose group has several."""


@dataclass(frozen=True)
class Visits:
    """Who visited the groups of some steps, [m]."""

    labels: IntArray
    """[m] group of the step."""
    last: IntArray
    """[m] where, among the m, the last step stands that the same trajectory has in the same group."""
    sizes: FloatArray
    """[m] how many steps it has there, at the last of them; 0 at the others."""
    num_trajectories: FloatArray
    """[groups] number of distinct trajectories; 0 where none of the steps is in the group."""


@dataclass(frozen=True)
class Partition:
    """All steps split into groups."""

    labels: IntArray
    """[n] group of each step, dense from 0."""
    sizes: FloatArray
    """[groups] number of steps."""
    last: IntArray
    """[groups] where the last step of each group stands."""
    rollouts: IntArray
    """[n] a number from 0: steps of one group are of the same trajectory where theirs are equal."""

    @classmethod
    def of(cls, labels: IntArray, rollouts: IntArray) -> Partition:
        """The groups of labels [n], dense from 0; small `rollouts` are counted where large ones must be sorted."""
        sizes = np.bincount(labels).astype(np.float64)
        last = np.empty(len(sizes), dtype=np.int64)
        last[labels] = np.arange(len(labels))  # of equal labels the last one stays
        return cls(labels, sizes, last, rollouts)

    def means(self, values: FloatArray) -> FloatArray:
        """Mean of `values` [n] over the group of each step. Float64 [n]."""
        return group_means(self.labels, values, self.sizes, values.take(self.last)).take(self.labels)

    def visits(self, rows: IntArray | None = None) -> Visits:
        """Who visited the groups, seen from `rows` [m], which hold groups as a whole; from all steps without them."""
        labels = self.labels if rows is None else self.labels.take(rows)
        rollouts = self.rollouts if rows is None else self.rollouts.take(rows)
        last = last_equal(labels * (int(rollouts.max(initial=0)) + 1) + rollouts)
        sizes = np.bincount(last, minlength=len(last))
        visited = np.bincount(labels.take(np.flatnonzero(sizes > 0)), minlength=len(self.sizes))
        return Visits(labels, last, sizes.astype(np.float64), visited.astype(np.float64))

    def pairs(self, values: FloatArray, rows: IntArray | None = None) -> Pairs:
        """Pairs of steps of different trajectories in each group, for `values` [n].

        Over all pairs of n values the squared differences sum to n sum d^2 - (sum d)^2, with d measured from the
        group's mean; the pairs inside one trajectory are taken off again. A group that one trajectory visited has none,
        to the last bit, so it is enough to look at `rows`, those that met another trajectory in the parent's groups.
        """
        visits, pivot = self.visits(rows), values.take(self.last)
        labels, sizes = visits.labels, self.sizes * (visits.num_trajectories > 0.0)
        apart = deviations(labels, values if rows is None else values.take(rows), self.sizes, pivot)
        squared = np.square(apart)
        count = np.square(sizes) - segment_sums(labels, np.square(visits.sizes), len(sizes))
        squares = _all_pairs(labels, apart, squared, sizes)
        squares -= segment_sums(labels, _all_pairs(visits.last, apart, squared, visits.sizes), len(sizes))
        met = np.flatnonzero((visits.num_trajectories > 1.0).take(labels))
        if rows is not None:
            met = rows.take(met)
        return Pairs(count / 2.0, np.maximum(squares, 0.0) / 2.0, visits.num_trajectories, met)


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


def partitions(levels: npt.NDArray[np.int64], rollouts: IntArray) -> list[Partition]:
    """Complete, nested partitions from group labels [levels, steps], dense from 0; `rollouts` as for `Partition.of`.

    A step too early for a level (label -1) stays with the other steps of its parent group that are too early.
    """
    complete: list[Partition] = []
    parent: IntArray = np.zeros(levels.shape[1], dtype=np.int64)
    for labels in levels:
        early = np.flatnonzero(labels < 0)
        if len(early):
            labels = labels.copy()
            labels[early] = int(labels.max()) + 1 + dense(parent[early])
        complete.append(Partition.of(labels, rollouts))
        parent = labels
    return complete


def level_weights(parts: list[Partition], roots: Partition | None, values: FloatArray) -> list[FloatArray]:
    """w_k of each level's groups, estimated from `values` [steps]; without `roots` the first level has weight 1."""
    chain = parts if roots is None else [roots, *parts]
    pairs: list[Pairs] = []
    for part in chain:
        pairs.append(part.pairs(values, pairs[-1].met if pairs else None))
    weights = [np.ones(len(parts[0].sizes))] if roots is None else []
    for number in range(1, len(chain)):
        explained, left = components(chain[number - 1], chain[number], pairs[number - 1], pairs[number])
        evidence = explained * np.maximum(pairs[number].num_trajectories - 1.0, 0.0)
        weights.append(evidence / np.maximum(evidence + left, TINY))
    return weights


def components(parent: Partition, level: Partition, outer: Pairs, inner: Pairs) -> tuple[float, float]:
    """s and W of a level: what its groups explain, and what is left inside them.

    Each parent group counts by its pairs over its size, so that one large group does not decide alone.
    Without pairs on both sides there is no evidence, and s is zero.
    """
    parent_of = parent.labels.take(level.last)
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
    last: IntArray
    """[groups] where the last step of each group stands."""
    own: FloatArray
    """w_k"""
    rest: FloatArray
    """1 - w_k"""

    @classmethod
    def of(cls, part: Partition, weights: FloatArray) -> PreparedLevel | None:
        """Prepare a level with weights [groups]; None where its means matter to nobody."""
        matters = weights != 0.0
        if not matters.any():
            return None
        rows, labels = None, part.labels
        if not matters.all():
            rows = np.flatnonzero(matters[labels])
            labels = labels[rows]
        own = weights[labels]
        return cls(rows, labels, part.sizes, part.last, own, 1.0 - own)

    def mix(self, values: FloatArray, above: FloatArray) -> FloatArray:
        """w_k mean_k + (1 - w_k) v_{k-1} from values and v_{k-1} [steps]. Float64 [steps]."""
        pivot = values.take(self.last)
        if self.rows is None:
            mean = group_means(self.labels, values, self.sizes, pivot).take(self.labels)
            whole: FloatArray = self.own * mean + self.rest * above
            return whole
        mean = group_means(self.labels, values.take(self.rows), self.sizes, pivot).take(self.labels)
        mixed: FloatArray = above.copy()
        mixed[self.rows] = self.own * mean + self.rest * above.take(self.rows)
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
    others, excess = mean_of_others(groups, part.visits().last)
    return groups.means[part.labels] + excess, others


def _all_pairs(labels: IntArray, apart: FloatArray, squared: FloatArray, sizes: FloatArray) -> FloatArray:
    """Sum of the squared differences of all pairs inside each group of `sizes` [groups]. Float64 [groups]."""
    sums = segment_sums(labels, apart, len(sizes))
    squares = segment_sums(labels, squared, len(sizes))
    summed: FloatArray = sizes * squares - np.square(sums)
    return summed
