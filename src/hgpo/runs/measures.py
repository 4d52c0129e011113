"""The numbers of an iteration: what goes into metrics.jsonl beside what the parts report themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..learn.batching import TrainRow
from ..learn.selection import distinct_share
from ..play import Episode
from ..policies.engine import Counters
from .phases import Phases


def iteration_measures(
    played: Mapping[str, float],
    sampled: Counters,
    advantages: np.ndarray[Any, Any],
    rows: Sequence[TrainRow],
    losses: Mapping[str, float],
    phases: Phases,
) -> dict[str, float]:
    """Speed, padding and advantages of one iteration.

    Args:
        played: metrics of the rollout.
        sampled: what generation did.
        advantages: [steps].
        rows: what the update was given.
        losses: metrics of the update; empty when there was none.
        phases: its time.
    """
    tokens = played["prompt_tokens"] + played["response_tokens"]
    return {
        **phases.metrics(),
        "seconds/generate": sampled.seconds,
        "tokens_per_second": tokens / max(1e-9, phases.total - phases.seconds["eval"]),
        "train/distinct_prompt_share": distinct_share(rows),
        "train/tokens_per_second": losses.get("train/tokens", 0.0) / max(1e-9, phases.seconds["update"]),
        "rollout/padding_share": sampled.padded_tokens
        / max(1, sampled.padded_tokens + sampled.prompt_tokens),
        "advantage/mean": float(np.mean(advantages)),
        "advantage/std": float(np.std(advantages)),
        "advantage/zero_share": float(np.mean(advantages == 0)),
    }


def panel_measures(split: str, episodes: Sequence[Episode]) -> dict[str, float]:
    """Means over one pass of a panel, named by its split."""
    values: dict[str, list[float]] = {
        "success": [float(one.success) for one in episodes],
        "return": [one.reward for one in episodes],
        "score": [one.score for one in episodes],
        "steps": [len(one.steps) for one in episodes],
    }
    return {f"eval/{split}/{name}": float(np.mean(each)) for name, each in values.items()}
