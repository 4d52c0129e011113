"""GraphGPO: the distance to success in the graph of all rollouts of a task.

arXiv 2605.26684, after the behaviour of its released recipe. The states of one task's rollouts are the nodes of a
graph, each step is an edge to the next state, and the last step of a successful rollout an edge to the node "success".
With d(s) the least number of steps from s to success in that graph, a step that leads from s to s' has the target

    g_t = goal gamma^d(s')                      or, with `progress`,  goal gamma^(d(s') - d(s) + 1)

and 0 where success cannot be reached. Targets take the place of returns in GiGPO (depth 0) or HGPO (deeper): a good
step of a failing rollout gets credit, and luck after the step does not count. A group without success says nothing.

A trajectory succeeded when its last row has `success`, or without that column when its last reward is positive. The
state after a cut trajectory (`done` false) is unknown; the state it was cut in stands in.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..settings import setting
from ..steps.columns import BoolArray, FloatArray, IntArray
from . import successor
from .base import Estimator, Record
from .terms import Part, Result, Score

UNREACHED = np.inf


@dataclass(frozen=True)
class GraphgpoSettings(successor.SuccessorSettings):
    """Settings of GraphGPO."""

    gamma: float = setting(
        0.1, "Discount per step of distance; released 0.1 (ALFWorld) and 0.2 (WebShop).", low=0.0, high=1.0
    )
    goal: float = setting(10.0, "Target of the step that reaches success.", low=0.0)
    progress: bool = setting(False, "Judge a step by how much nearer it led instead of by how near it ended.")


def compute(record: Record, s: GraphgpoSettings) -> Result:
    """Advantages of all steps; see the module's formulas."""
    states = record.contexts(s.key, s.similarity)
    here, there = distances(record, states.current)
    steps = there - here + 1.0 if s.progress else there
    reached = np.isfinite(there)
    nearness = np.zeros(len(there))
    # A graph distance cannot shrink by more than one a step, so the exponent is never negative.
    nearness[reached] = s.goal * np.power(s.gamma, np.maximum(steps[reached], 0.0))
    targets = nearness - s.invalid_penalty * record.invalid

    def score() -> Score:
        distance = "d(next) - d + 1" if s.progress else "d(next)"
        formula = (
            f"goal gamma^({distance}), d the steps to success in the task's graph; 0 where it is not reached"
        )
        parts = (
            Part(f"goal gamma^({distance})", 1.0, nearness),
            Part("invalid action", -s.invalid_penalty, record.invalid),
        )
        return Score("target", formula, targets, parts)

    return successor.compare(record, targets, s, score)


def distances(record: Record, state: IntArray) -> tuple[FloatArray, FloatArray]:
    """Steps to success from the state of each step, and from the state it led to (inf: never). Float64 [steps]."""
    remaining = record.trajectories.remaining
    success = succeeded(record)
    stays = record.truncated & ~success
    inner = remaining > 0
    following = np.where(inner, np.append(state[1:], 0), state)
    edges = np.flatnonzero(inner)
    distance = nearest(following[edges], state[edges], state[success], int(state.max()) + 1)
    there = np.where(inner | stays, distance[following], UNREACHED)
    there[success] = 0.0
    return distance[state], there


def succeeded(record: Record) -> BoolArray:
    """The last steps of successful trajectories. Bool [steps]."""
    last = record.trajectories.remaining == 0
    if "success" in record.batch:
        flagged: BoolArray = last & record.batch.flag("success")[record.trajectories.order]
        return flagged
    rewarded: BoolArray = last & (record.rewards > 0.0)
    return rewarded


def nearest(heads: IntArray, tails: IntArray, goals: IntArray, count: int) -> FloatArray:
    """Length of the shortest way from each node 0..count-1 over edges tail -> head and out of a goal node.

    Breadth first from the goals against the edges; every edge is looked at once. Float64 [count].
    """
    order = np.argsort(heads, kind="stable")
    tails = tails[order]
    starts = np.searchsorted(heads[order], np.arange(count + 1))
    distance = np.full(count, UNREACHED)
    frontier = np.unique(goals)
    steps = 1.0
    while len(frontier):
        distance[frontier] = steps
        sizes = starts[frontier + 1] - starts[frontier]
        first = np.repeat(starts[frontier] - np.cumsum(sizes) + sizes, sizes)
        sources = tails[first + np.arange(int(sizes.sum()))]
        frontier = np.unique(sources[np.isinf(distance[sources])])
        steps += 1.0
    return distance


ESTIMATOR = Estimator(GraphgpoSettings, compute)
