"""HGPO: advantages from nested groups of steps with more and more common history.

Hierarchy-of-Groups Policy Optimization for Long-Horizon Agentic Tasks, ICLR 2026, arXiv 2602.22817.

    A_k(t) = (R_t - mean of R over G_k(t)) / sigma of R over G_k(t)        Eq. 6, one per level k = 0..K
    A(t)   = sum_k w_k A_k(t),   w_k = L_k^alpha / sum_l L_l^alpha          Eq. 7

with R_t the discounted return of step t and G_k(t) the steps that share its k-step context (`hierarchy.py`).
Levels that say nothing about a step (no such level, no peer, a constant group) are left out and the weights of the
others renormalised.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
import numpy.typing as npt

from ..settings import Settings, setting
from ..steps.columns import BoolArray, FloatArray, IntArray
from . import base, nested
from .base import Estimator, Record
from .contexts import Key
from .episode import Episode, EpisodeRule, compare_episodes
from .groups import Groups, mean_of_others
from .hierarchy import split
from .scale import FLOOR, without_rounding
from .shrinkage import level_weights, means_of_others, nested_means, partitions
from .terms import Level, Result, Term, level_term, plain_sum

Skip = Literal["item", "group", "never"]


@dataclass(frozen=True)
class Arithmetic:
    """Everything in which the released code and the paper differ; the settings explain each field."""

    weight_offset: int
    skip: Skip
    std: base.Std
    epsilon: float
    weight_epsilon: float
    penalty: base.Penalty
    normalise_over: base.NormaliseOver
    base_std: base.Std
    single: base.Single


VARIANTS = {
    "released": Arithmetic(
        weight_offset=1,
        skip="item",
        std="population",
        epsilon=1e-6,
        weight_epsilon=1e-6,
        penalty="after_discount",
        normalise_over="steps",
        base_std="sample",
        single="raw",
    ),
    "paper": Arithmetic(
        weight_offset=0,
        skip="group",
        std="population",
        epsilon=0.0,
        weight_epsilon=0.0,
        penalty="before_discount",
        normalise_over="trajectories",
        base_std="population",
        single="zero",
    ),
}


@dataclass(frozen=True)
class HgpoSettings(Settings):
    """Settings of HGPO. Those that default to None take the value of `variant`."""

    depth: int = setting(
        2,
        "K: steps of history that the deepest level shares; 0 groups by state alone. In a training run the memory's K.",
        low=0,
        high=1000,
        follows="history_length",
    )
    mode: base.Mode = setting(
        "mean_std_norm", "Divide by the deviation of the group (mean_std_norm) or not (mean_norm)."
    )
    weight_type: Literal["length", "uniform", "shrinkage"] = setting(
        "length",
        "Weights of the levels: by length of the shared context, all equal, or from the data (see `shrunk`).",
    )
    length_weight_alpha: float = setting(
        1.0, "alpha: how fast weights grow with the level; 0 is uniform.", low=0.0, high=64.0
    )
    base_group: bool = setting(False, "Mix in the episode-level advantage as one more item of length 1.")
    gamma: float = setting(0.95, "Discount of the step returns.", low=0.0, high=1.0)
    invalid_penalty: float = setting(0.0, "Subtracted where an action is not valid.", low=0.0)
    key: Key = setting(
        "observation",
        "What makes two steps comparable: observation, observation_action, prompt or state_key.",
    )
    similarity: float = setting(
        1.0, "Merge texts of one task that are at least this similar; 1 merges none.", above=0.0, high=1.0
    )
    variant: base.Variant = setting(
        "released", "`released` is the arithmetic of the released code, `paper` that of the paper's formulas."
    )
    weight_offset: int | None = setting(
        None, "L_k = k + 1 + weight_offset. Released 1, paper 0.", low=0, high=100
    )
    skip: Skip | None = setting(
        None,
        "Leave out single zero advantages (released), constant groups (paper), or nothing but groups "
        "without peers.",
    )
    std: base.Std | None = setting(None, "Deviation over n (population; both variants) or n - 1 (sample).")
    epsilon: float | None = setting(None, "Added to the deviation. Released 1e-6, paper 0.", low=0.0)
    weight_epsilon: float | None = setting(
        None, "Added to the sum of weights. Released 1e-6, paper 0.", low=0.0
    )
    penalty: base.Penalty | None = setting(
        None,
        "Subtract the penalty from the step's return (released) or from its reward before discounting "
        "(paper).",
    )
    normalise_over: base.NormaliseOver | None = setting(
        None, "Statistics of the base item over step rows (released) or trajectories (paper)."
    )
    base_std: base.Std | None = setting(
        None, "Deviation of the base item: sample (released) or population (paper)."
    )
    single: base.Single | None = setting(
        None, "Base item of a task with one entry: its raw score (released) or zero (paper)."
    )
    std_floor: float | None = setting(
        None,
        "A floor in reward units: sigma becomes sqrt(sigma^2 + floor^2), so that tiny gaps are not "
        "blown up to 1. None is 0.1 with shrinkage and 0 otherwise.",
        low=0.0,
    )
    min_peers: int = setting(1, "Other members a group needs to count for a step.", low=1)
    peers: Literal["any", "other_trajectory"] = setting(
        "any",
        "Which members count as peers: all, or those of other trajectories only (a loop is not its own peer).",
    )
    baseline: Literal["group", "leave_one_out"] = setting(
        "group", "Mean of the whole group, or of its members from other trajectories only."
    )
    fallback: Literal["none", "episode"] = setting(
        "none", "What a step without any usable level gets: zero, or the episode-level advantage."
    )


def compute(record: Record, s: HgpoSettings) -> Result:
    """Advantages of all steps; see the module's formulas."""
    how = base.resolve(VARIANTS[s.variant], s)
    returns = base.step_returns(record, s.gamma, s.invalid_penalty, how.penalty)
    levels = record.levels(s.key, s.similarity, s.depth)
    if s.weight_type == "shrinkage":
        return shrunk(record, levels, returns, s)
    advantages, terms = mix(record, levels, returns, s, how)
    return Result(advantages, returns, levels, plain_sum(advantages, terms))


@dataclass(frozen=True)
class Item:
    """What Eq. 7 mixes: a level, or the base item."""

    weight: float
    """L^alpha, before normalisation."""
    rows: IntArray
    """[m] steps that have the item."""
    values: FloatArray
    """[m] its advantage."""
    used: BoolArray
    """[m] whether it counts for the step."""
    term: Callable[[Callable[[], FloatArray]], Term]
    """The item as a term, given its weights [m]."""

    def shares(self, weights: FloatArray, epsilon: float) -> FloatArray:
        """L^alpha over the sum [steps] of all that count; 0 where the item does not. Float64 [m]."""
        shares = np.zeros(len(self.rows))
        shares[self.used] = self.weight / (weights[self.rows[self.used]] + epsilon)
        return shares


def mix(
    record: Record, levels: npt.NDArray[np.int64], returns: FloatArray, s: HgpoSettings, how: Arithmetic
) -> tuple[FloatArray, tuple[Term, ...]]:
    """The weighted mean of Eq. 7 over the items that say something, and its terms."""
    items = [level_item(record, number, labels, returns, s, how) for number, labels in enumerate(levels)]
    if s.base_group:
        items.append(base_item(record, s, how))
    total, weights = np.zeros(len(returns)), np.zeros(len(returns))
    for item in items:
        used = item.rows[item.used]
        total[used] += item.weight * item.values[item.used]
        weights[used] += item.weight

    covered = weights > 0
    advantages = np.zeros(len(returns))
    advantages[covered] = total[covered] / (weights[covered] + how.weight_epsilon)
    terms = [item.term(partial(item.shares, weights, how.weight_epsilon)) for item in items]
    if s.fallback == "episode" and not s.base_group:
        episode = episode_level(record, s, how)
        advantages[~covered] = episode.advantages[~covered]
        terms.append(episode.term(lambda: np.where(covered, 0.0, 1.0)))
    return advantages, tuple(terms)


def level_item(
    record: Record, number: int, labels: IntArray, returns: FloatArray, s: HgpoSettings, how: Arithmetic
) -> Item:
    """A_k of the steps that have level k, and which of them count."""
    rows = np.flatnonzero(labels >= 0)
    groups = Groups.of(labels[rows], returns[rows])
    deviations, peers = groups.deviations, groups.sizes[groups.labels] - 1
    if s.peers == "other_trajectory" or s.baseline == "leave_one_out":
        owners = split(groups.labels, record.trajectories.trajectory_ids[rows])
        peers, excess = mean_of_others(groups, owners)
        if s.baseline == "leave_one_out":
            deviations = deviations - excess
            deviations[(np.abs(deviations) <= groups.rounding[groups.labels]) | (peers == 0)] = 0.0
    values, divisor = base.normalise(groups, deviations, s.mode, how.std, how.epsilon, s.std_floor or 0.0)
    used: BoolArray = peers >= s.min_peers
    if how.skip == "item":
        used &= values != 0.0
    elif how.skip == "group":
        used &= ~groups.constant[groups.labels]

    def baseline() -> FloatArray:
        return groups.means[groups.labels] if s.baseline == "group" else returns[rows] - deviations

    level = Level(number, rows, groups, values, used)
    term = partial(level_term, level, returns, baseline, divisor)
    return Item(level_weight(number, s, how), rows, values, used, term)


def level_weight(level: int, s: HgpoSettings, how: Arithmetic) -> float:
    """L^alpha of a level, before normalisation; the base item has length 1 and so weight 1."""
    if s.weight_type == "uniform":
        return 1.0
    return float((level + 1 + how.weight_offset) ** s.length_weight_alpha)


def base_item(record: Record, s: HgpoSettings, how: Arithmetic) -> Item:
    """The episode-level advantage as one more item of length 1."""
    episode = episode_level(record, s, how)
    rows, values = np.arange(len(record.rewards)), episode.advantages
    used = values != 0.0 if how.skip == "item" else np.ones(len(rows), dtype=bool)
    return Item(1.0, rows, values, used, episode.term)


def episode_level(record: Record, s: HgpoSettings, how: Arithmetic) -> Episode:
    """The episode-level advantage, for the base item and the fallback."""
    rule = EpisodeRule(how.normalise_over, how.base_std, how.epsilon, how.single)
    return compare_episodes(record, s.mode, rule, s.invalid_penalty)


def shrunk(record: Record, levels: npt.NDArray[np.int64], returns: FloatArray, s: HgpoSettings) -> Result:
    """Return minus one baseline from all levels, A = R_t - v_K(t), divided once.

    v_K are the nested means of `shrinkage.py`, each level shrunk toward its parent and level 0 toward the task's
    mean, of the whole group or of other trajectories only (`baseline`). A single normalisation over the batch
    follows. Weights, skipping, peers and the base item do not apply: the estimate covers every step.
    """
    parts = partitions(levels, nested.rollouts(record))
    roots = nested.task_roots(record)
    weights = level_weights(parts, roots, returns)
    if s.baseline == "leave_one_out":
        values = means_of_others(parts, weights, returns, roots)
    else:
        task_means = Groups.of(roots.labels, returns).means[roots.labels]
        values = nested_means(parts, weights, returns, task_means)
    seen = nested.nested_levels(levels, returns, values.values, [own > 0.0 for own in values.weights])
    terms = nested.level_terms(parts, seen, returns, lambda: values, ("task", roots))
    advantages = without_rounding(returns - values.result, returns, values.result)
    floor = FLOOR if s.std_floor is None else s.std_floor
    advantages, terms = nested.divide(advantages, terms, record, s.mode, "batch", floor)
    return Result(advantages, returns, levels, plain_sum(advantages, terms))


# Shrinkage takes its variances from, and divides by the deviation of, the whole batch.
ESTIMATOR = Estimator(HgpoSettings, compute, by_task=lambda s: s.weight_type != "shrinkage")
