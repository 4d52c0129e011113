"""G2PO-style successor values: a step is worth what its successor state is worth to the whole group.

After the idea of G2PO (arXiv 2606.22995): the value of a state is the mean return of all visits to it, and a step is
credited with the value of the state it led to instead of with its own rollout's return:

    V(s) = mean of R over the visits to s             g_t = r_t + gamma V(s_{t+1})

Targets take the place of returns in GiGPO (depth 0) or HGPO (deeper). It is one step of what `hgpo_lambda` does with
nested, shrunk and repeatedly fitted values. Nothing is added after the end of a task; the value of the last state
stands in where a rollout was cut (`done` false).
"""

from __future__ import annotations

from dataclasses import dataclass

from ..settings import setting
from . import successor
from .base import Estimator, Record
from .groups import Groups
from .hgpo_lambda import next_values
from .returns import discounted_returns
from .terms import Part, Result, Score


@dataclass(frozen=True)
class G2poSettings(successor.SuccessorSettings):
    """Settings of the G2PO-style estimator."""

    gamma: float = setting(0.95, "Discount.", low=0.0, high=1.0)


def compute(record: Record, s: G2poSettings) -> Result:
    """Advantages of all steps; see the module's formulas."""
    states = record.contexts(s.key, s.similarity)
    rewards = record.rewards - s.invalid_penalty * record.invalid
    visits = Groups.of(states.current, discounted_returns(rewards, record.trajectories, s.gamma))
    following = next_values(visits.means[states.current], record.trajectories, record.truncated)
    targets = rewards + s.gamma * following

    def score() -> Score:
        parts = (Part("reward", 1.0, rewards), Part("V(next state)", s.gamma, following))
        return Score(
            "target", "reward + gamma V(next state), V the mean return of all visits", targets, parts
        )

    return successor.compare(record, targets, s, score)


ESTIMATOR = Estimator(G2poSettings, compute)
