"""G2PO: a step is judged by the value of the state it led to, and by how much better that is than where it was taken.

arXiv 2606.22995, with the arithmetic of its released code. With L the length of a rollout, S the sum of its rewards and
t from 0, all rollouts of a task value its states:

    V(s)  = mean over the visits of s of gamma^(L - t) S
    V(s') = S after the last step of a success, 0 after that of a failure

    A(t) = A_E + w (A_V + A_D)
    A_E  = (S - mean) / (deviation + epsilon)                  over the step rows of the task, as in GiGPO
    A_V  = (V(s') - mean) / (deviation + epsilon)              over the steps of the task in the same state
    A_D  = (V(s') - V(s) - mean) / (deviation + epsilon)       over all steps of the task

An action that is not valid has the penalty taken off S in A_E and off V(s') in A_V. `mean_norm` leaves out all three
deviations. A step that is alone in its group has no such part; A_E of a task with one step row is its raw score.

Failure and success alone say what comes after a rollout; `done`, `truncated` and `next_observation` are not looked at.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..settings import setting
from ..steps.columns import FloatArray, IntArray
from ..steps.labels import dense
from . import base, successor
from .base import Estimator, Record
from .groups import Groups
from .returns import trajectory_sums
from .terms import Numbers, Part, Result, Score, Term


@dataclass(frozen=True)
class G2poSettings(successor.SuccessorSettings):
    """Settings of G2PO."""

    gamma: float = setting(0.95, "Discount per step to the end of a rollout.", low=0.0, high=1.0)


def compute(record: Record, s: G2poSettings) -> Result:
    """Advantages of all steps; see the module's formulas."""
    states = record.contexts(s.key, s.similarity).current
    here, there = state_values(record, states, s.gamma)
    targets = there - s.invalid_penalty * record.invalid

    def score() -> Score:
        parts = (
            Part("V(next state)", 1.0, there),
            Part("invalid action", -s.invalid_penalty, record.invalid),
        )
        formula = "V(next state), V the mean of gamma^(steps to the end) x episode's reward over all visits"
        return Score("target", formula, targets, parts)

    return successor.compare(record, targets, s, score, gains(record, there - here, s.mode))


def state_values(record: Record, states: IntArray, gamma: float) -> tuple[FloatArray, FloatArray]:
    """V of the state of each step, and of the state that it led to. Float64 [steps]."""
    trajectories = record.trajectories
    episode = trajectory_sums(record.rewards, trajectories)[trajectories.trajectory_ids]
    visits = Groups.of(states, np.power(gamma, trajectories.remaining + 1.0) * episode)
    here = visits.means[states]
    there = np.empty_like(here)
    there[:-1] = here[1:]
    there[record.last] = 0.0
    success = successor.succeeded(record)
    there[success] = episode[success]
    return here, there


def gains(record: Record, scores: FloatArray, mode: base.Mode) -> tuple[FloatArray, Term]:
    """A_D: V(s') - V(s) [steps] against those of all steps of the task, and how it was made."""
    groups = Groups.of(dense(record.trajectories.task_ids), scores)
    values, divisor = base.normalise(groups, groups.deviations, mode, "sample", successor.EPISODE.epsilon)

    def numbers() -> Numbers:
        labels = groups.labels
        sizes, means = groups.sizes[labels], groups.means[labels]
        return Numbers(labels, sizes, scores, means, divisor[labels], values, np.ones(len(values)))

    return values, Term("gain", np.arange(len(values)), "steps", numbers)


ESTIMATOR = Estimator(G2poSettings, compute)
