"""Episodes as a `StepBatch`: one row per step, with the very tokens and log-probabilities of the policy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..steps.batch import StepBatch
from ..steps.columns import Ragged
from .episode import Episode


def record(episodes: Sequence[Episode], *, inadmissible_is_invalid: bool = False) -> StepBatch:
    """The steps of all episodes, in episode order.

    `task` is the episode's group and `trajectory` its name. `valid` is false for malformed replies and, when asked,
    for inadmissible actions too.
    """
    of = [episode for episode in episodes for _ in episode.steps]
    steps = [step for episode in episodes for step in episode.steps]
    invalid = ("malformed", "inadmissible") if inadmissible_is_invalid else ("malformed",)
    columns: dict[str, Any] = {
        "task": [episode.group for episode in of],
        "trajectory": [episode.name for episode in episodes for _ in episode.steps],
        "step": [step.index for step in steps],
        "observation": [step.observation for step in steps],
        "action": [step.action for step in steps],
        "reward": [step.reward for step in steps],
        "valid": [step.outcome not in invalid for step in steps],
        "prompt": [step.prompt for step in steps],
        "response": [step.response for step in steps],
        "done": [step.terminated for step in steps],
        "success": [episode.success for episode in of],
        "admissible": [step.admissible for step in steps],
        "truncated": [step.truncated for step in steps],
        "next_observation": [step.next_observation for step in steps],
        "outcome": [step.outcome for step in steps],
        "shortened": [step.shortened for step in steps],
        "score": [episode.score for episode in of],
        "task_id": [episode.task for episode in of],
        "task_type": [episode.kind for episode in of],
        "episode_seed": [episode.seed for episode in of],
        "prompt_ids": Ragged.of([step.prompt_ids for step in steps], np.int64),
        "response_ids": Ragged.of([step.response_ids for step in steps], np.int64),
        "logprobs": Ragged.of([step.logprobs for step in steps], np.float64),
    }
    states = [step.info.get("state_key") for step in steps]
    if any(state is not None for state in states):
        columns["state_key"] = states
    return StepBatch.from_arrays(**columns)
