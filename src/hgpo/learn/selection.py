"""Which of an iteration's steps are trained on, and with what advantage."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..config.schema import UpdateConfig
from .batching import TrainRow


def train_rows(
    steps: Sequence[Mapping[str, Any]], advantages: np.ndarray[Any, Any], settings: UpdateConfig
) -> tuple[list[TrainRow], int]:
    """The rows of the update, and how many groups they come from.

    Args:
        steps: one dict per step, as `roll_out` leaves them.
        advantages: [steps].
        settings: `filter_groups` leaves out groups whose members all earned the same; `normalise_advantages` divides
            all advantages by their root mean square.
    """
    groups: dict[str, dict[str, float]] = {}
    for step in steps:
        members = groups.setdefault(step["task"], {})
        members[step["trajectory"]] = members.get(step["trajectory"], 0.0) + step["reward"]
    left_out: set[str] = set()
    if settings.filter_groups:
        left_out = {
            name for name, members in groups.items() if max(members.values()) - min(members.values()) < 1e-9
        }
    scale = 1.0
    if settings.normalise_advantages:
        scale = math.sqrt(float(np.mean(np.square(advantages)))) or 1.0
    rows = [
        TrainRow(step["prompt_ids"], step["response_ids"], step["logprobs"], float(advantage) / scale)
        for step, advantage in zip(steps, advantages)
        if step["task"] not in left_out and step["response_ids"]
    ]
    return rows, len(groups) - len(left_out)


def distinct_share(rows: Sequence[TrainRow]) -> float:
    """Share of the prompt tokens that is left when equal prompts count once: what sharing them could save."""
    everything = sum(len(row.prompt_ids) for row in rows)
    return sum(map(len, {tuple(row.prompt_ids) for row in rows})) / max(1, everything)
