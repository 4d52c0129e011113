"""The truth about a policy in a world: exact values, advantages, visits and gradient.

    Q_t(m, a) = sum over outcomes of p (r + gamma V_{t+1}(m'))        V_t(m) = sum_a pi(a | m) Q_t(m, a)

over situations m = (state, memory) and time t, with V = 0 once the task has ended. Where the horizon ends the task,
V_T = 0; where it only cuts the recording, values do not depend on time and are the fixed point of the same equations.

The true gradient of the objective every estimator here is used for is

    g = sum_t E[ A_t(m_t, a_t) grad log pi(a_t | c_t) ]

with t running over the recorded steps.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..steps.columns import FloatArray
from .situations import Situations

FIXED_POINT = 1e-12


@dataclass(frozen=True)
class Truth:
    """Exact quantities of one policy."""

    policy: FloatArray
    """[C, A] action probabilities by context."""
    advantages: FloatArray
    """[T, M, A]"""
    values: FloatArray
    """[T + 1, M]"""
    visits: FloatArray
    """[T, M] chance to be in a situation at a time."""
    gradient: FloatArray
    """[C, A] of the logits."""
    success: float
    """Chance to reach the goal within the horizon."""


def truth(places: Situations, policy: FloatArray) -> Truth:
    """Everything about `policy` [C, A], by dynamic programming."""
    acting = policy[places.context]
    values, qualities = _values(places, acting)
    advantages = qualities - values[:-1, :, None]
    visits, success = visit_chances(places, acting)
    flow = (visits[:, :, None] * advantages).sum(axis=0) * acting
    gradient = np.zeros_like(policy)
    np.add.at(gradient, places.context, flow)
    return Truth(policy, advantages, values, visits, gradient, success)


def _values(places: Situations, acting: FloatArray) -> tuple[FloatArray, FloatArray]:
    """V [T + 1, M] and Q [T, M, A]."""
    knobs = places.world.knobs
    horizon, gamma = knobs.horizon, knobs.gamma
    going_on = np.where(places.ends, 0.0, gamma * places.chances)
    earned = (places.chances * places.rewards).sum(axis=-1)

    def back_up(later: FloatArray) -> FloatArray:
        quality: FloatArray = earned + (going_on * later[places.following]).sum(axis=-1)
        return quality

    values = np.zeros((horizon + 1, len(places.context)))
    qualities = np.zeros((horizon, *acting.shape))
    if knobs.cut:
        value = np.zeros(len(places.context))
        change = np.inf
        while change > FIXED_POINT:
            quality = back_up(value)
            new = (acting * quality).sum(axis=-1)
            change, value = float(np.abs(new - value).max()), new
        return np.broadcast_to(value, values.shape).copy(), np.broadcast_to(quality, qualities.shape).copy()
    for t in range(horizon - 1, -1, -1):
        qualities[t] = back_up(values[t + 1])
        values[t] = (acting * qualities[t]).sum(axis=-1)
    return values, qualities


def visit_chances(places: Situations, acting: FloatArray) -> tuple[FloatArray, float]:
    """Chance of each situation at each time [T, M], and of success within the horizon."""
    horizon, count = places.world.knobs.horizon, len(places.context)
    visits = np.zeros((horizon, count))
    visits[0, 0] = 1.0
    success = 0.0
    moving = np.where(places.ends, 0.0, places.chances)
    ending = np.where(places.ends, places.chances, 0.0).sum(axis=-1)
    target = places.following.reshape(-1)
    for t in range(horizon):
        flow = visits[t][:, None] * acting
        success += float((flow * ending).sum())
        if t + 1 < horizon:
            visits[t + 1] = np.bincount(target, (flow[:, :, None] * moving).reshape(-1), minlength=count)
    return visits, success
