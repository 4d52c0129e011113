"""The advantage step: our `estimate` on the steps that verl is about to train on.

verl hands an estimator flat rows without keys, tags or extra fields, re-ordered by length and padded with synthetic
rows. So the trainer (`trainer`) looks up our records, computes the advantages here, and lets verl's own advantage
step (with its rollout correction) pick them up through the registered estimator.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..config import estimator_settings
from ..config.schema import Config
from ..errors import BadSetting, BadSteps
from ..estimators.estimate import Estimate, estimate
from ..estimators.scale import root_mean_square
from ..play import episode_metrics
from ..steps.batch import StepBatch
from ..steps.tokens import spread_over_tokens
from .names import ESTIMATOR

PREFIX = "hgpo/"
Record = Mapping[str, Any]


@dataclass(frozen=True)
class Advantages:
    """Advantages of a verl batch."""

    values: np.ndarray[Any, Any]
    """float64 [rows], in the batch's order; 0 on padding rows."""
    places: np.ndarray[Any, Any]
    """int [steps]: the batch row of each real step."""
    batch: StepBatch
    """The real steps, in the order of `places`."""
    estimate: Estimate
    metrics: dict[str, float]
    """Named as in the local trainer's metrics.jsonl, with `hgpo/` before."""


def advantages(records: Sequence[Record | None], config: Config) -> Advantages:
    """Estimate the advantages of a batch.

    Args:
        records: our record of each row, None for padding.
        config: estimator and its settings.
    """
    places = np.array([place for place, record in enumerate(records) if record is not None], dtype=np.int64)
    steps = [record for record in records if record is not None]
    if not steps:
        raise BadSteps("verl's batch has no row with a record of ours; is agent.default_agent_loop=hgpo set?")
    batch = StepBatch.from_rows(steps)
    result = estimate(batch, config.estimator.name, **estimator_settings(config))
    scale = root_mean_square(result.advantages) if config.update.normalise_advantages else 1.0
    values = np.zeros(len(records))
    values[places] = result.advantages / scale
    metrics = {**episode_metrics(batch), **{f"estimator/{k}": v for k, v in result.metrics.items()}}
    metrics |= {
        "padding_rows": float(len(records) - len(steps)),
        # Failures of episodes that were played again; groups that were lost are counted by the buffer.
        "episode_retries": float(np.sum(batch["environment_failures"][batch["step"] == 0])),
    }
    finite = {f"{PREFIX}{key}": float(value) for key, value in metrics.items() if np.isfinite(value)}
    return Advantages(values, places, batch, result, finite)


def logprob_gap(trainer: Sequence[Any], sampler: Sequence[Any], masks: Sequence[Any]) -> dict[str, float]:
    """How far the trainer's log-probabilities of the sampled tokens are from the sampler's, before any update.

    Args:
        trainer: a tensor [reply tokens] of each row.
        sampler: the same.
        masks: the same, 1 where a token is trained on.

    Returns:
        `engine/logprob_gap`, the mean absolute difference over all tokens, and the largest; none without tokens.
    """
    gaps: list[float] = []
    for ours, theirs, mask in zip(trainer, sampler, masks):
        gaps += (ours.float() - theirs.float()).abs()[mask.bool()].tolist()
    if not gaps:
        return {}
    return {"engine/logprob_gap": float(np.mean(gaps)), "engine/logprob_gap_max": float(np.max(gaps))}


_ready: ContextVar[np.ndarray[Any, Any] | None] = ContextVar("hgpo_advantages", default=None)


@contextlib.contextmanager
def handed_over(values: np.ndarray[Any, Any]) -> Iterator[None]:
    """While this is open, the registered estimator gives out `values` [rows]."""
    token = _ready.set(values)
    try:
        yield
    finally:
        _ready.reset(token)


def registered(token_level_rewards: Any, response_mask: Any, **_: Any) -> tuple[Any, Any]:
    """verl's estimator interface: advantages and returns [rows, tokens], equal on all tokens of a step.

    Args:
        token_level_rewards: [rows, tokens]; not used, see the module's docstring.
        response_mask: [rows, tokens].
    """
    values = _ready.get()
    if values is None:
        raise BadSetting(
            "algorithm.adv_estimator=hgpo needs the trainer that records our steps: set trainer.v1.trainer_mode to "
            "hgpo_sync, hgpo_colocate_async or hgpo_separate_async (`hgpo verl launch` does)."
        )
    if len(values) != len(response_mask):
        raise BadSteps(f"{len(values)} advantages were computed for a batch of {len(response_mask)} rows.")
    spread = spread_over_tokens(values, response_mask)
    return spread, spread.clone()


def register() -> None:
    """Make the estimator known to verl in this process."""
    from verl.trainer.ppo.core_algos import register_adv_est

    register_adv_est(ESTIMATOR)(registered)
