"""HGPO-lambda: advantages from bootstrapped values of nested groups.

The return of one rollout is mostly luck that came after the step. The group already holds what is needed to take it
out: an estimate of the value of every context that was visited. So

1. values: V(t) = nested means over the levels G_0 .. G_K of the step's context, each shrunk toward its parent
   (`shrinkage.py`), fitted to lambda-returns y by a few sweeps, from y = plain returns:

       delta_t = r_t + gamma V(t+1) - V(t)
       y_t     = V(t) + sum_{j >= 0} (gamma lam)^j delta_{t+j}

2. advantage: the same sum of delta over the fitted values (generalised advantage estimation),

       A_t = sum_{j >= 0} (gamma lam)^j delta_{t+j}

   With `value_lam` step 1 has a lambda of its own. V(t) + A_t is then another number than y_t, so it is compared with
   its own nested means instead of V(t);

3. steps that took the same action in the same context estimate the same advantage, so A is averaged over them,
   again over nested levels (only where the batch has actions);
4. one division by the deviation over the batch, with a floor in reward units.

Level 0 is a plain mean, or with `prior` it too is shrunk, toward what the steps before its visits left to come
(`Valuation.root`).

After the last step of a trajectory V is 0 if the task ended there: with `done`, and with `truncated`, a step limit
being part of the task unless `time_limit="cut"`. Otherwise the rollout was cut and V is that of the context which
`next_observation` makes with the steps before it (`cuts.py`). A batch without a `done` column has only ended
trajectories. No critic, no further rollouts; docs/hgpo-lambda.md has the derivation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np

from ..settings import Settings, setting
from ..steps.columns import FloatArray
from ..steps.labels import by_appearance, dense
from ..steps.order import Trajectories
from . import base
from .base import Estimator, Record
from .contexts import Key
from .cuts import Cuts, find_cuts
from .nested import divide, level_terms, nested_levels, nested_term, rollouts, task_roots
from .returns import discounted_returns
from .scale import FLOOR, Over, without_rounding
from .shrinkage import (
    Nested,
    Partition,
    PreparedLevel,
    level_weights,
    means_of_others,
    nested_means,
    nested_values,
    partitions,
    prepared,
)
from .terms import Following, Part, Result, Score, Sum, Term, plain_sum


@dataclass(frozen=True)
class HgpoLambdaSettings(Settings):
    """Settings of HGPO-lambda."""

    depth: int = setting(
        2,
        "K: steps of history that the deepest level shares; 0 values states alone. In a training run the memory's K.",
        low=0,
        high=1000,
        follows="history_length",
    )
    lam: float = setting(
        0.5,
        "lambda: how far to trust the rollout's own future; 0 trusts the values after one step, 1 "
        "only the return.",
        low=0.0,
        high=1.0,
    )
    value_lam: float | None = setting(
        None,
        "lambda of the returns that the values are fitted to; none is `lam`. Nearer to 1 is safer where different "
        "situations look alike.",
        low=0.0,
        high=1.0,
    )
    prior: float = setting(
        0.0,
        "How many rollouts it counts as in the value of a state what the steps before left to come; 0 takes the mean "
        "of the visits as it is.",
        low=0.0,
    )
    gamma: float = setting(0.95, "Discount.", low=0.0, high=1.0)
    sweeps: int = setting(5, "Times the values are fitted again to lambda-returns.", low=0, high=1000)
    shrinkage: Literal["empirical", "none"] = setting(
        "empirical",
        "Shrink deep means toward their parents as the data ask, or take the mean of the deepest "
        "group as it is.",
    )
    pool_actions: bool = setting(
        True,
        "Average the advantage over steps with the same action in the same context, where the batch "
        "has actions.",
    )
    baseline: Literal["group", "leave_one_out"] = setting(
        "group",
        "What the first term of A_t is compared with: values of the whole group, or those of other "
        "trajectories only.",
    )
    mode: base.Mode = setting(
        "mean_std_norm",
        "Divide by the deviation of the advantages (mean_std_norm) or leave them in reward units (mean_norm).",
    )
    normalise_over: Over = setting(
        "batch", "Deviation over the whole batch, which keeps the tasks in proportion, or over each task."
    )
    std_floor: float = setting(
        FLOOR, "A floor in reward units: the deviation becomes sqrt(deviation^2 + floor^2).", low=0.0
    )
    invalid_penalty: float = setting(
        0.0, "Subtracted from the reward of each action that is not valid.", low=0.0
    )
    time_limit: base.TimeLimit = setting(
        "end",
        "A rollout that reached its step limit (`truncated`) has ended, with nothing to come, or was cut, and "
        "the value of what came next stands for what was not played.",
    )
    key: Key = setting(
        "observation",
        "What makes two steps comparable: observation, observation_action, prompt or state_key.",
    )
    similarity: float = setting(
        1.0, "Merge texts of one task that are at least this similar; 1 merges none.", above=0.0, high=1.0
    )


def compute(record: Record, s: HgpoLambdaSettings) -> Result:
    """Advantages of all steps; see the module's formulas."""
    trajectories = record.trajectories
    rewards = record.rewards - s.invalid_penalty * record.invalid
    levels = record.levels(s.key, s.similarity, s.depth)
    returns = discounted_returns(rewards, trajectories, s.gamma)

    parts = partitions(levels, rollouts(record))
    weights = level_weights(parts, None, returns)
    if s.shrinkage == "none":
        weights = [np.ones(len(part.sizes)) for part in parts]
    valuation = Valuation.of(parts, weights, rewards, trajectories, 0.0 if s.shrinkage == "none" else s.prior)
    cuts = find_cuts(record, parts, s.key, s.similarity, s.time_limit)
    ready = prepared(parts, valuation.weights)
    fitted = fit(valuation, ready, returns, cuts, s)
    value = fitted.by_level[-1]
    following = next_values(value, trajectories, cuts, fitted.by_level)
    errors = td_errors(rewards, value, following, s.gamma)
    advantages = discounted_returns(errors, trajectories, s.gamma * s.lam)
    score = advantages + value
    if s.lam != value_lambda(s):
        fitted = Fitted(valuation.by_level(ready, score, value), score, value)
        advantages = score - fitted.by_level[-1]
    del ready  # nobody needs it any more, and fresh memory costs more than arithmetic
    baseline = fitted.by_level[-1]
    counts = [(weight > 0.0)[part.labels] for part, weight in zip(parts, weights)]
    seen = nested_levels(levels, fitted.targets, fitted.by_level, counts)
    if s.baseline == "leave_one_out":
        roots = task_roots(record)
        others = means_of_others(parts, weights, score, roots)
        advantages = score - others.result
        terms = level_terms(parts, seen, score, lambda: others, ("task", roots))
    else:
        means = cache(lambda: valuation.nested(fitted.targets, fitted.before))
        terms = level_terms(
            parts, seen, score, means, ("step before", parts[0]) if valuation.prior > 0.0 else None
        )
    own, own_terms = advantages, terms
    pools = s.pool_actions and "action" in record.batch
    if pools:
        advantages, terms = pooled(record, parts, advantages, returns - baseline)
    advantages = without_rounding(advantages, rewards, value)
    advantages, terms = divide(advantages, terms, record, s.mode, s.normalise_over, s.std_floor)
    sums = plain_sum(advantages, terms)
    if pools:
        sums = (
            Sum(
                "own advantage", "comparisons", "sum of share x (lambda-return - level mean)", own_terms, own
            ),
            Sum("advantage", "means", "sum of share x mean of own advantages / divisor", terms, advantages),
        )

    def lambda_returns() -> Score:
        columns = {"reward": rewards, "V": value, "V next": following}
        rest = Following("TD error", s.gamma * s.lam, errors, columns)
        formula = "V(t) + sum over j of (gamma lam)^j x TD error at t+j; TD error = reward + gamma V next - V"
        return Score("lambda-return", formula, score, (Part("V(t)", 1.0, value),), rest)

    return Result(advantages, returns, levels, sums, lambda_returns)


def value_lambda(s: HgpoLambdaSettings) -> float:
    """lambda of the returns that the values are fitted to."""
    return s.lam if s.value_lam is None else s.value_lam


@dataclass(frozen=True)
class Valuation:
    """How values of contexts are made from numbers of steps."""

    parts: list[Partition]
    weights: list[FloatArray]
    """[groups] of each level: how much its own mean counts."""
    rewards: FloatArray
    """[steps]"""
    trajectories: Trajectories
    prior: float

    @classmethod
    def of(
        cls,
        parts: list[Partition],
        weights: list[FloatArray],
        rewards: FloatArray,
        trajectories: Trajectories,
        prior: float,
    ) -> Valuation:
        """With weights [groups] of every level; a prior gives the mean over m rollouts the weight m / (m + prior)."""
        if prior > 0.0:
            visitors = parts[0].visits().num_trajectories
            weights = [visitors / (visitors + prior), *weights[1:]]
        return cls(parts, weights, rewards, trajectories, prior)

    def by_level(
        self, levels: list[PreparedLevel | None], targets: FloatArray, before: FloatArray | None
    ) -> list[FloatArray]:
        """v_k [steps] of every level, fitted to targets [steps]; `before` [steps] are the values until now.

        `levels` are these parts and weights, `prepared`.
        """
        return nested_values(levels, targets, self.root(targets, before))

    def nested(self, targets: FloatArray, before: FloatArray | None) -> Nested:
        """The same with what it is made of."""
        return nested_means(self.parts, self.weights, targets, self.root(targets, before))

    def root(self, targets: FloatArray, before: FloatArray | None) -> FloatArray:
        """What the value of a state is shrunk toward. Float64 [steps].

        The mean over its visits of V(t-1) - r_{t-1}, what the step before left to come; a visit that begins a
        rollout, and any visit while there are no values yet, has the state's own mean.
        """
        if self.prior == 0.0:
            return targets
        own = self.parts[0].means(targets)
        if before is None:
            return own
        left = own.copy()
        follows = np.flatnonzero(self.trajectories.step > 0)
        left[follows] = before[follows - 1] - self.rewards[follows - 1]
        return self.parts[0].means(left)


@dataclass(frozen=True)
class Fitted:
    """Values that were fitted."""

    by_level: list[FloatArray]
    """v_k [steps] as far as each level."""
    targets: FloatArray
    """[steps] what they were fitted to."""
    before: FloatArray | None
    """[steps] the values before that; None for the first."""


def fit(
    valuation: Valuation,
    levels: list[PreparedLevel | None],
    returns: FloatArray,
    cuts: Cuts,
    s: HgpoLambdaSettings,
) -> Fitted:
    """Values of all contexts, fitted to lambda-returns [steps]."""
    rewards, trajectories = valuation.rewards, valuation.trajectories
    targets, value, lam = returns, None, value_lambda(s)
    # With lambda = 1 the targets are the returns, whatever the values, unless a cut rollout bootstraps.
    sweeps = s.sweeps if lam < 1.0 or len(cuts.rows) or valuation.prior > 0.0 else 0
    for _ in range(sweeps):
        by_level = valuation.by_level(levels, targets, value)
        value = by_level[-1]
        following = next_values(value, trajectories, cuts, by_level)
        targets = value + generalised_advantages(rewards, value, following, trajectories, s.gamma, lam)
    return Fitted(valuation.by_level(levels, targets, value), targets, value)


def generalised_advantages(
    rewards: FloatArray,
    values: FloatArray,
    following: FloatArray,
    trajectories: Trajectories,
    gamma: float,
    lam: float,
) -> FloatArray:
    """GAE(lambda) over values and those of what followed [steps]: discounted sums of TD errors. Float64 [steps]."""
    return discounted_returns(td_errors(rewards, values, following, gamma), trajectories, gamma * lam)


def td_errors(rewards: FloatArray, values: FloatArray, following: FloatArray, gamma: float) -> FloatArray:
    """delta_t = r_t + gamma V(t+1) - V(t). Float64 [steps]."""
    errors: FloatArray = rewards + gamma * following - values
    return errors


def next_values(
    values: FloatArray, trajectories: Trajectories, cuts: Cuts, by_level: Sequence[FloatArray]
) -> FloatArray:
    """V(t+1) from V(t) [steps]: 0 after the end of a task, what `Cuts` says where one was cut. Float64 [steps]."""
    following = np.empty_like(values)
    following[:-1] = values[1:]
    following[trajectories.ends] = 0.0
    if len(cuts.rows):
        following[cuts.rows] = cuts.values(by_level)
    return following


def pooled(
    record: Record, contexts: list[Partition], advantages: FloatArray, residuals: FloatArray
) -> tuple[FloatArray, tuple[Term, ...]]:
    """Advantages averaged over steps with equal context and action, deeper levels as far as residuals support them.

    `contexts` are the levels without the action. `residuals` are returns minus values: unbiased for the advantage given
    exact values, and free of what the bootstrapped advantages of one batch have in common.
    """
    actions = record.batch.encoded("action")
    acted, count = by_appearance(actions.codes[record.trajectories.order]), len(actions.values)
    parts = [Partition.of(dense(one.labels * count + acted), one.rollouts) for one in contexts]
    weights = level_weights(parts, None, residuals)

    means = cache(lambda: nested_means(parts, weights, advantages, advantages))
    rows = np.arange(len(advantages))
    terms = [
        nested_term(f"same action, level {number}", rows, part, means, number)
        for number, part in enumerate(parts)
    ]
    return nested_values(prepared(parts, weights), advantages)[-1], tuple(terms)


# Values and the division look at the whole batch.
ESTIMATOR = Estimator(HgpoLambdaSettings, compute, by_task=lambda s: False)
