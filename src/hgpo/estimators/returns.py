"""Returns: what followed a step.

Everything here works on arrays in the canonical order of `Trajectories`, where the steps of a trajectory are
neighbours and ascend.
"""

from __future__ import annotations

import numpy as np

from ..steps.columns import FloatArray, IntArray
from ..steps.order import Trajectories
from .groups import segment_sums


def discounted_returns(rewards: FloatArray, trajectories: Trajectories, gamma: float) -> FloatArray:
    """R_t = sum over j >= t of gamma^(j - t) r_j, within each trajectory. Float64 [steps].

    By doubling: after pass i a step holds the discounted sum of its next 2^i rewards, so the longest trajectory
    T needs log2(T) passes over the array, whatever the number of trajectories.
    """
    returns = rewards.astype(np.float64, copy=True)
    passing = np.empty_like(returns)
    for power, same in enumerate(trajectories.reaching):
        shift = 1 << power
        factor = float(gamma) ** shift
        if factor == 0.0:
            break
        ahead = np.multiply(returns[shift:], factor, out=passing[shift:])
        returns[:-shift] += np.multiply(ahead, same, out=ahead)
    return returns


def trajectory_sums(values: FloatArray, trajectories: Trajectories) -> FloatArray:
    """Sum of `values` [steps] over each trajectory. Float64 [trajectories]."""
    return segment_sums(trajectories.trajectory_ids, values, trajectories.num_trajectories)


def task_of_trajectory(trajectories: Trajectories) -> IntArray:
    """Task of each trajectory. Int [trajectories]."""
    starts = np.flatnonzero(trajectories.step == 0)
    tasks: IntArray = trajectories.task_ids[starts]
    return tasks
