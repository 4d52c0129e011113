"""Contexts: what makes two steps comparable.

The k-step context of step t is its state and the k steps before it:

    C_k(t) = (e_{t-k}, ..., e_{t-1}, s_t)

with s_t the state of the step and e_j what is remembered of step j. The key mode says what those are:

| key | s_t | e_j |
| --- | --- | --- |
| `observation` | observation | observation (the released code) |
| `observation_action` | observation | observation and action, as the prompt's history has them |
| `prompt` | whole prompt | whole prompt; depth 0 compares only steps with the very same prompt |
| `state_key` | the caller's `state_key` column | the same |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from ..errors import BadSetting, BadSteps, MissingExtra
from ..steps.batch import StepBatch
from ..steps.columns import Categorical, IntArray
from ..steps.labels import by_appearance, changes, dense
from .groups import within_task

Key = Literal["observation", "observation_action", "prompt", "state_key"]


@dataclass(frozen=True)
class Contexts:
    """Integer elements of all contexts, in canonical order."""

    current: IntArray
    """[steps] state of the step; never equal across tasks."""
    past: IntArray
    """[steps] what later steps remember of the step."""


def contexts(batch: StepBatch, key: Key = "observation", similarity: float = 1.0) -> Contexts:
    """Number the states of a batch; `similarity` < 1 merges near-equal text of a task first."""
    if key not in get_args(Key):
        raise BadSetting(f"key={key!r} was given; expected one of {', '.join(get_args(Key))}.")
    order = batch.trajectories.order
    # Numbers follow the canonical order: sums over groups are taken in the order of their numbers, and a column's are
    # those of the rows.
    tasks = np.cumsum(changes(batch.trajectories.task_ids))
    column = batch.encoded("observation" if key == "observation_action" else key)
    state = column.codes[order]
    if similarity < 1.0:
        state = merge_similar(tasks, state, column, similarity)
    state = within_task(by_appearance(state), tasks)
    current = dense(tasks * (int(state.max()) + 1) + state)
    if key != "observation_action":
        return Contexts(current, current)
    actions = batch.encoded("action")
    return Contexts(current, dense(current * len(actions.values) + by_appearance(actions.codes[order])))


def merge_similar(tasks: IntArray, state: IntArray, column: Categorical, threshold: float) -> IntArray:
    """Give near-equal texts of one task the same state. Int [steps].

    Within a task the distinct texts are taken by falling frequency (equal counts by text); each joins the most
    similar earlier leader with similarity >= threshold, or becomes a leader. So the result depends on the set of
    steps alone, never on their order, and nothing is chained: every member is similar to its leader.
    Similarity is 1 - d / (len a + len b) with d the number of inserted and deleted characters.
    """
    try:
        from rapidfuzz import fuzz, process
    except ImportError:
        raise MissingExtra("rapidfuzz", "data", "Merging similar observations") from None
    if not all(isinstance(value, str) for value in column.values):
        raise BadSteps("Similarity merging needs text; some observations are not. Use similarity=1.")
    pairs, inverse, counts = np.unique(
        tasks * len(column.values) + state, return_inverse=True, return_counts=True
    )
    leader_of = np.empty(len(pairs), dtype=np.int64)
    pair_task, pair_state = pairs // len(column.values), pairs % len(column.values)
    for task in np.unique(pair_task):
        members = np.flatnonzero(pair_task == task)
        texts = [column.values[code] for code in pair_state[members]]
        ranked = sorted(range(len(members)), key=lambda i: (-int(counts[members[i]]), texts[i]))
        leaders: list[int] = []
        names: list[str] = []
        for i in ranked:
            nearest = process.extractOne(
                texts[i], names, scorer=fuzz.ratio, processor=None, score_cutoff=100 * threshold
            )
            if nearest is None:
                leaders.append(i)
                names.append(texts[i])
                leader_of[members[i]] = pair_state[members[i]]
            else:
                leader_of[members[i]] = pair_state[members[leaders[nearest[2]]]]
    merged: IntArray = leader_of[inverse]
    return merged


def history(past: IntArray, lag: int) -> IntArray:
    """Element of the step `lag` places earlier, in canonical order; meaningless where there is none. Int [steps]."""
    shifted = np.empty_like(past)
    shifted[lag:] = past[: len(past) - lag]
    shifted[:lag] = 0
    return shifted
