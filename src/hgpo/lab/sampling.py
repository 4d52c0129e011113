"""Rollouts of a policy in a world, as the recorded steps that estimators take."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..steps.batch import StepBatch
from ..steps.columns import BoolArray, Categorical, FloatArray, IntArray, object_array
from .situations import Situations


@dataclass(frozen=True)
class SampledSteps:
    """Steps of n rollouts, rollout by rollout; arrays are [steps]."""

    rollout: IntArray
    step: IntArray
    situation: IntArray
    action: IntArray
    reward: FloatArray
    done: BoolArray
    """At the last step of a rollout: whether the task ended there. False at a cut."""
    success: BoolArray
    """Whether the rollout reached the goal."""
    arrival: IntArray
    """What was seen after the step."""

    def between(self, first: int, last: int) -> SampledSteps:
        """The rollouts `first` <= n < `last`, numbered from 0."""
        rows = slice(*np.searchsorted(self.rollout, [first, last]))
        return SampledSteps(
            self.rollout[rows] - first,
            self.step[rows],
            self.situation[rows],
            self.action[rows],
            self.reward[rows],
            self.done[rows],
            self.success[rows],
            self.arrival[rows],
        )


def sample(places: Situations, policy: FloatArray, count: int, rng: np.random.Generator) -> SampledSteps:
    """Play `count` rollouts of `policy` [C, A] side by side."""
    knobs = places.world.knobs
    horizon = knobs.horizon
    choose = np.cumsum(policy, axis=1)[:, :-1]
    happen = np.cumsum(places.chances, axis=2)[:, :, :-1]
    draws = rng.random((horizon, 2, count))
    situation = np.zeros((horizon, count), dtype=np.int64)
    action, reward = np.zeros_like(situation), np.zeros((horizon, count))
    arrival = np.zeros_like(situation)
    ended, solved = np.zeros((horizon, count), dtype=bool), np.zeros(count, dtype=bool)
    length = np.full(count, horizon)
    here, alive = np.zeros(count, dtype=np.int64), np.arange(count)
    for t in range(horizon):
        act = (draws[t, 0, alive, None] >= choose[places.context[here]]).sum(axis=1)
        outcome = (draws[t, 1, alive, None] >= happen[here, act]).sum(axis=1)
        situation[t, alive], action[t, alive] = here, act
        reward[t, alive] = places.rewards[here, act, outcome]
        arrival[t, alive] = places.arrivals[here, act, outcome]
        over = places.ends[here, act, outcome]
        ended[t, alive] = over
        solved[alive[over]] = True
        length[alive[over]] = t + 1
        here, alive = places.following[here, act, outcome][~over], alive[~over]
        if len(alive) == 0:
            break
    if not knobs.cut:
        ended[horizon - 1] = True
    taken = np.arange(horizon)[:, None] < length
    rows = np.flatnonzero(taken.T.reshape(-1))
    rollout, step = rows // horizon, rows % horizon
    return SampledSteps(
        rollout,
        step,
        situation[step, rollout],
        action[step, rollout],
        reward[step, rollout],
        ended[step, rollout],
        solved[rollout],
        arrival[step, rollout],
    )


def as_batch(places: Situations, rollouts: SampledSteps) -> StepBatch:
    """The rollouts as one task's batch of steps."""
    names = object_array([f"see {number}" for number in range(places.world.num_observations)])
    acts = object_array([f"do {number}" for number in range(places.chances.shape[1])])
    count = int(rollouts.rollout[-1]) + 1
    return StepBatch(
        {
            "task": Categorical(np.zeros_like(rollouts.rollout), object_array(["task"])),
            "trajectory": Categorical(rollouts.rollout, object_array(list(range(count)))),
            "step": rollouts.step,
            "observation": Categorical(places.observation[rollouts.situation], names),
            "action": Categorical(rollouts.action, acts),
            "reward": rollouts.reward,
            "done": rollouts.done,
            "success": rollouts.success,
            "next_observation": Categorical(rollouts.arrival, names),
        }
    )
