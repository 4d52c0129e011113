"""Episodes as rows for `StepBatch`: one per step, tokens and log-probabilities untouched."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .episode import Episode, Step


def rows(episodes: Iterable[Episode], *, inadmissible_is_invalid: bool = False) -> list[dict[str, Any]]:
    """One dict per step, in episode order.

    `valid` is false for malformed replies and, when asked, for inadmissible actions too.
    """
    return [_row(episode, step, inadmissible_is_invalid) for episode in episodes for step in episode.steps]


def _row(episode: Episode, step: Step, strict: bool) -> dict[str, Any]:
    row: dict[str, Any] = {
        "task": episode.group,
        "trajectory": episode.name,
        "step": step.index,
        "observation": step.observation,
        "action": step.action,
        "reward": step.reward,
        "valid": step.outcome == "ok" or (step.outcome == "inadmissible" and not strict),
        "prompt": step.prompt,
        "response": step.response,
        "done": step.terminated,
        "success": episode.success,
        "admissible": list(step.admissible),
        "truncated": step.truncated,
        "next_observation": step.next_observation,
        "outcome": step.outcome,
        "score": episode.score,
        "task_id": episode.task,
        "task_type": episode.kind,
        "episode_seed": episode.seed,
        "prompt_ids": list(step.prompt_ids),
        "response_ids": list(step.response_ids),
        "logprobs": list(step.logprobs),
    }
    if step.info.get("state_key") is not None:
        row["state_key"] = step.info["state_key"]
    return row
