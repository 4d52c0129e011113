"""Batches of made-up tokens for tests of the update."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from hgpo import StepBatch
from hgpo.steps.columns import Ragged


class Row(NamedTuple):
    """What the update sees of one step."""

    prompt_ids: Sequence[int]
    response_ids: Sequence[int]
    logprobs: Sequence[float]
    advantage: float


def batch_of(rows: Sequence[Row]) -> StepBatch:
    """A batch of rollouts of one step each."""
    return StepBatch.from_arrays(
        task=["task"] * len(rows),
        trajectory=list(range(len(rows))),
        step=np.zeros(len(rows), dtype=np.int64),
        observation=["here"] * len(rows),
        reward=np.zeros(len(rows)),
        prompt_ids=Ragged.of([row.prompt_ids for row in rows], np.int64),
        response_ids=Ragged.of([row.response_ids for row in rows], np.int64),
        logprobs=Ragged.of([row.logprobs for row in rows], np.float64),
        advantage=np.array([row.advantage for row in rows]),
    )
