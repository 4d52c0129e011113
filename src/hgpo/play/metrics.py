"""What episodes were like: the one set of episode metrics of the trainer, of evaluations and of verl runs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..steps.batch import StepBatch
from .episode import Episode
from .record import record

PANEL = {"success": "success", "return": "return", "score": "score", "steps": "episode_length"}
"""Metrics of a pass over a panel (`eval/SPLIT/...`), and their names among the episode metrics."""


def episode_metrics(batch: StepBatch) -> dict[str, float]:
    """Means and counts over the episodes of a batch that `record` made; docs/metrics.md has the table.

    `success`, `return`, `score` and `episode_length` are means over episodes, each counting once however long it is;
    `malformed_share`, `inadmissible_share` and `shortened_share` are shares of the steps; `response_tokens` and
    `prompt_tokens` are sums, left out where another engine keeps the tokens. `action_disagreement` is left out where no
    two steps of a task saw the same.
    """
    order = batch.trajectories
    first = order.order[order.step == 0]
    # Episodes in the order in which they were given: a mean's last digit depends on it.
    place = np.argsort(first)
    first = first[place]
    returns = np.bincount(order.trajectory_ids, batch.rewards[order.order])[place]
    outcome = batch["outcome"]
    metrics = {
        "success": np.mean(batch.flag("success")[first]),
        "return": np.mean(returns),
        "score": np.mean(batch["score"][first]),
        "episodes": len(first),
        "steps": len(batch),
        "episode_length": np.mean(order.lengths[place]),
        "malformed_share": np.mean(outcome == "malformed"),
        "inadmissible_share": np.mean(outcome == "inadmissible"),
        "shortened_share": np.mean(batch["shortened"]),
    }
    for name, tokens in (("response_tokens", "response_ids"), ("prompt_tokens", "prompt_ids")):
        if tokens in batch:
            metrics[name] = batch.lists(tokens).offsets[-1]
    metrics["groups"] = len(np.unique(order.task_ids))
    disagreement = action_disagreement(batch)
    if disagreement is not None:
        metrics["action_disagreement"] = disagreement
    return {name: float(value) for name, value in metrics.items()}


def action_disagreement(batch: StepBatch) -> float | None:
    """How often two steps of a task that saw the same took different actions; None without such pairs.

    Over all pairs of steps with equal task and observation, the share whose actions differ: 0 when the policy always
    does the same in the same place, so that a group has nothing to compare.
    """
    order = batch.trajectories
    seen = batch.encoded("observation").codes[order.order]
    acted = batch.encoded("action").codes[order.order]
    places = np.unique(np.stack([order.task_ids, seen]), axis=1, return_inverse=True)[1].reshape(-1)
    choices = np.unique(np.stack([places, acted]), axis=1, return_inverse=True)[1].reshape(-1)
    pairs, alike = (
        float(np.sum(sizes * (sizes - 1.0))) for sizes in (np.bincount(places), np.bincount(choices))
    )
    return 1.0 - alike / pairs if pairs else None


def panel_metrics(episodes: Sequence[Episode]) -> dict[str, float]:
    """Means over one pass of a panel: `success`, `return`, `score`, `steps`."""
    metrics = episode_metrics(record(episodes))
    return {name: metrics[source] for name, source in PANEL.items()}
