"""HGPO-lambda: advantages from bootstrapped values of nested groups.

The return of one rollout is mostly luck that came after the step. The group already holds what is needed to take it
out: an estimate of the value of every context that was visited. So

1. values: V(t) = nested means over the levels G_0 .. G_K of the step's context, each shrunk toward its parent
   (`shrinkage.py`), fitted to lambda-returns y by a few sweeps, from y = plain returns:

       delta_t = r_t + gamma V(t+1) - V(t)
       y_t     = V(t) + sum_{j >= 0} (gamma lam)^j delta_{t+j}

2. advantage: the same sum of delta over the fitted values (generalised advantage estimation),

       A_t = sum_{j >= 0} (gamma lam)^j delta_{t+j}

3. steps that took the same action in the same context estimate the same advantage, so A is averaged over them,
   again over nested levels (only where the batch has actions);
4. one division by the deviation over the batch, with a floor in reward units.

After the last step of a trajectory V is 0 if the task ended there (`done`). If `done` is false the rollout was cut
(truncated): what came next was not seen, and the value of the last context stands in for it. A batch without a `done`
column has only ended trajectories. No critic, no further rollouts; docs/hgpo-lambda.md has the derivation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from ..settings import Settings, setting
from ..steps.columns import BoolArray, FloatArray
from ..steps.order import Trajectories
from . import base
from .base import Record, Result
from .contexts import Key, contexts
from .groups import dense
from .hierarchy import hierarchy
from .nested import FLOOR, Over, divide, level_values, task_roots, without_rounding
from .returns import discounted_returns
from .shrinkage import Nested, Partition, level_weights, means_of_others, nested_means, partitions


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
    key: Key = setting(
        "observation",
        "What makes two steps comparable: observation, observation_action, prompt or state_key.",
    )
    similarity: float = setting(
        1.0, "Merge texts of one task that are at least this similar; 1 merges none.", low=0.0, high=1.0
    )


def compute(record: Record, s: HgpoLambdaSettings) -> Result:
    """Advantages of all steps; see the module's formulas."""
    trajectories = record.trajectories
    rewards = record.rewards - s.invalid_penalty * record.invalid
    levels = hierarchy(contexts(record.batch, s.key, s.similarity), trajectories, s.depth)
    returns = discounted_returns(rewards, trajectories, s.gamma)

    parts = partitions(levels, trajectories.trajectory_ids)
    weights = level_weights(parts, None, returns)
    if s.shrinkage == "none":
        weights = [np.ones(len(part.sizes)) for part in parts]
    cut = truncated(record)
    values, targets = fit(rewards, returns, trajectories, parts, weights, cut, s)
    advantages = generalised_advantages(rewards, values.values[-1], trajectories, cut, s.gamma, s.lam)
    if s.baseline == "leave_one_out":
        own = advantages + values.values[-1]
        advantages = own - means_of_others(parts, weights, own, task_roots(record)).values[-1]
    if s.pool_actions and "action" in record.batch:
        residuals = returns - values.values[-1]
        advantages = pooled(record, levels, advantages, residuals)
    advantages = without_rounding(advantages, rewards, values.values[-1])
    if s.mode == "mean_std_norm":
        advantages = divide(advantages, record, s.normalise_over, s.std_floor)
    return Result(advantages, returns, levels, level_values(levels, targets, values))


def fit(
    rewards: FloatArray,
    returns: FloatArray,
    trajectories: Trajectories,
    parts: list[Partition],
    weights: list[FloatArray],
    cut: BoolArray,
    s: HgpoLambdaSettings,
) -> tuple[Nested, FloatArray]:
    """Values of all contexts, and the lambda-returns [steps] they were fitted to."""
    targets = returns
    values = nested_means(parts, weights, targets, targets)
    # With lambda = 1 the targets are the returns, whatever the values, unless a cut rollout bootstraps.
    sweeps = s.sweeps if s.lam < 1.0 or cut.any() else 0
    for _ in range(sweeps):
        estimate = values.values[-1]
        targets = estimate + generalised_advantages(rewards, estimate, trajectories, cut, s.gamma, s.lam)
        values = nested_means(parts, weights, targets, targets)
    return values, targets


def truncated(record: Record) -> BoolArray:
    """The last steps of trajectories that were cut while the task went on. Bool [steps]."""
    if "done" not in record.batch:
        return np.zeros(len(record.rewards), dtype=bool)
    last = record.trajectories.remaining == 0
    cut: BoolArray = last & ~record.batch.flag("done")[record.trajectories.order]
    return cut


def generalised_advantages(
    rewards: FloatArray,
    values: FloatArray,
    trajectories: Trajectories,
    cut: BoolArray,
    gamma: float,
    lam: float,
) -> FloatArray:
    """GAE(lambda) over values [steps]: discounted sums of r + gamma V(next) - V. Float64 [steps]."""
    following = np.zeros_like(values)
    following[:-1] = values[1:]
    following[trajectories.remaining == 0] = 0.0
    following[cut] = values[cut]
    return discounted_returns(rewards + gamma * following - values, trajectories, gamma * lam)


def pooled(
    record: Record, levels: npt.NDArray[np.int64], advantages: FloatArray, residuals: FloatArray
) -> FloatArray:
    """Advantages averaged over steps with equal context and action, deeper levels as far as residuals support them.

    `residuals` are returns minus values: unbiased for the advantage given exact values, and free of what the
    bootstrapped advantages of one batch have in common.
    """
    actions = record.batch.encoded("action")
    acted = actions.codes[record.trajectories.order]
    count = len(actions.values)
    labels = np.full_like(levels, -1)
    for level, groups in zip(labels, levels):
        rows = groups >= 0
        level[rows] = dense(groups[rows] * count + acted[rows])
    parts = partitions(labels, record.trajectories.trajectory_ids)
    weights = level_weights(parts, None, residuals)
    found: FloatArray = nested_means(parts, weights, advantages, advantages).values[-1]
    return found
