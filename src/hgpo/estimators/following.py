"""The state that a step led to: the next step's, or what `next_observation` says where no step follows.

`next_observation` is a text like `observation`, so it can be found among the states of a task where those are
observations; a `state_key` or a whole prompt of the moment after the last step is in no column.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import BadSteps, MissingExtra
from ..steps.columns import BoolArray, Categorical, IntArray
from .base import Record
from .contexts import Contexts, Key

NONE = -1
"""No state that the task's rollouts acted in."""


@dataclass(frozen=True)
class NextStates:
    """What followed some steps, [m]."""

    state: IntArray
    """Number of the state as in `Contexts.current`, or `NONE`."""
    recorded: BoolArray
    """Whether the batch says what followed; a recorded state that nobody acted in is `NONE` too."""


def recorded_next(record: Record, rows: IntArray, key: Key, similarity: float) -> NextStates:
    """The states named by `next_observation` in canonical `rows` [m]."""
    nothing = NextStates(np.full(len(rows), NONE), np.zeros(len(rows), dtype=bool))
    if (
        len(rows) == 0
        or "next_observation" not in record.batch
        or key not in ("observation", "observation_action")
    ):
        return nothing
    order, tasks = record.trajectories.order, record.trajectories.task_ids
    texts = _texts(record, order[rows])
    recorded = np.array([text is not None for text in texts])
    column = record.batch.encoded("observation")
    codes = column.codes[order]
    known = {column.values[code]: code for code in np.unique(codes).tolist()}
    asked = np.array([known.get(text, NONE) for text in texts], dtype=np.int64)
    states = record.contexts(key, similarity)
    found = _labels(
        tasks * len(column.values) + codes, states.current, tasks[rows] * len(column.values) + asked
    )
    state = np.where((asked >= 0) & recorded, found, NONE)
    if similarity < 1.0:
        _similar(record, rows, texts, (state == NONE) & recorded, state, states, column, similarity)
    return NextStates(state, recorded)


def _texts(record: Record, rows: IntArray) -> list[Any]:
    """`next_observation` of rows of the batch; None where it is missing."""
    texts: list[Any] = record.batch["next_observation"][rows].tolist()
    for row, text in zip(rows.tolist(), texts):
        try:
            hash(text)
        except TypeError:
            raise BadSteps(
                f"Row {row} has a next_observation of type {type(text).__name__}, which cannot be hashed; expected "
                f"what the column observation holds: text, a number or a tuple."
            ) from None
    return texts


def _labels(keys: IntArray, labels: IntArray, asked: IntArray) -> IntArray:
    """Label [m] of each asked key [m] among keys [n] with labels [n], or `NONE`."""
    distinct, first = np.unique(keys, return_index=True)
    place = np.minimum(np.searchsorted(distinct, asked), len(distinct) - 1)
    found: IntArray = np.where(distinct[place] == asked, labels[first[place]], NONE)
    return found


def _similar(
    record: Record,
    rows: IntArray,
    texts: Sequence[Any],
    missing: BoolArray,
    state: IntArray,
    states: Contexts,
    column: Categorical,
    threshold: float,
) -> None:
    """Give texts that are no observation of their task the state of the most similar one that is similar enough."""
    try:
        from rapidfuzz import fuzz, process
    except ImportError:
        raise MissingExtra("rapidfuzz", "data", "Merging similar observations") from None
    order, tasks = record.trajectories.order, record.trajectories.task_ids
    for task in np.unique(tasks[rows[missing]]):
        members = np.flatnonzero(tasks == task)
        codes, first = np.unique(column.codes[order[members]], return_index=True)
        names, labels = [column.values[code] for code in codes], states.current[members[first]]
        ranked = sorted(range(len(names)), key=names.__getitem__)
        for at in np.flatnonzero(missing & (tasks[rows] == task)).tolist():
            nearest = process.extractOne(
                texts[at],
                [names[i] for i in ranked],
                scorer=fuzz.ratio,
                processor=None,
                score_cutoff=100 * threshold,
            )
            if nearest is not None:
                state[at] = labels[ranked[nearest[2]]]
