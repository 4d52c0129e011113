"""GraphGPO: the distance to success in the graph of all rollouts of a task.

arXiv 2605.26684, after the behaviour of its released recipe. The states of one task's rollouts are the nodes of a
graph, each step is an edge to the next state, and the last step of a successful rollout an edge to the node "success".
With d(s) the least number of steps from s to success in that graph, a step that leads from s to s' has the target

    g_t = goal gamma^d(s')                      or, with `progress`,  goal gamma^(d(s') - d(s) + 1)

A state from which success cannot be reached counts as one step further away than the furthest of its task from which it
can. Targets take the place of returns in GiGPO (depth 0) or HGPO (deeper): a good step of a failing rollout gets
credit, and luck after the step does not count. In a task without success all targets are equal and say nothing.

s' is the state of the next step; after the last step of a failed rollout it is the `next_observation`. Where that is
not recorded, the step led nowhere if the task ended there, and to the state it was taken in if the rollout was cut
(`done` false).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..settings import setting
from ..steps.columns import FloatArray, IntArray
from . import successor
from .base import Estimator, Record
from .following import NONE, recorded_next
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
    here, there = distances(record, s)
    # A graph distance cannot shrink by more than one a step, so the exponent is never negative.
    nearness = s.goal * np.power(s.gamma, there - here + 1.0 if s.progress else there)
    targets = nearness - s.invalid_penalty * record.invalid

    def score() -> Score:
        distance = "d(next) - d + 1" if s.progress else "d(next)"
        parts = (
            Part(f"goal gamma^({distance})", 1.0, nearness),
            Part("invalid action", -s.invalid_penalty, record.invalid),
        )
        formula = f"goal gamma^({distance}), d the steps to success in the task's graph"
        return Score("target", formula, targets, parts)

    return successor.compare(record, targets, s, score)


def distances(record: Record, s: successor.SuccessorSettings) -> tuple[FloatArray, FloatArray]:
    """Steps to success from the state of each step, and from the state it led to. Float64 [steps]."""
    state = record.contexts(s.key, s.similarity).current
    success = successor.succeeded(record)
    following = next_states(record, state, s)
    edges = np.flatnonzero((following != NONE) & ~success)
    distance = nearest(following[edges], state[edges], state[success], int(state.max()) + 1)
    here = distance[state]
    there = np.where(following == NONE, UNREACHED, distance[following])
    there[success] = 0.0
    beyond = furthest(here, record.trajectories.task_ids) + 1.0
    return np.minimum(here, beyond), np.minimum(there, beyond)


def next_states(record: Record, state: IntArray, s: successor.SuccessorSettings) -> IntArray:
    """The state that each step led to, `NONE` for one that nobody acted in. Int [steps]."""
    following = np.append(state[1:], NONE)
    following[record.last] = NONE
    following[record.unfinished] = state[record.unfinished]
    ends = np.flatnonzero(record.last)
    said = recorded_next(record, ends, s.key, s.similarity)
    following[ends[said.recorded]] = said.state[said.recorded]
    return following


def furthest(distance: FloatArray, tasks: IntArray) -> FloatArray:
    """The largest finite distance [steps] in the task of each step, 0 where none is. Float64 [steps]."""
    most = np.zeros(int(tasks.max()) + 1)
    np.maximum.at(most, tasks, np.where(np.isfinite(distance), distance, 0.0))
    return most[tasks]


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
