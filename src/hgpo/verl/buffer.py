"""Groups that lost a rollout are thrown away whole, counted, named and replaced.

verl's synchronous buffer keeps a group that lost some of its rollouts and trains on the rest. Rollouts of a group are
compared with one another, and which of them an environment killed is not chance, so here a group is complete or not
used. verl's asynchronous buffer does the same already; both say why here, and both stop when nothing can be played.
"""

from __future__ import annotations

import logging
from collections import Counter
from typing import Any

import transfer_queue as tq
from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer, ReplayBufferAsync

from ..errors import EnvironmentFailed
from .loop import CAUSE, FAILED

logger = logging.getLogger(__name__)

PATIENCE = 4
"""The run stops when, waiting for one batch, so many times its groups were lost."""
POLL = 0.2
"""Seconds between two looks at what was played. verl's own 2 would be a good part of a short iteration."""
LOST = "hgpo/lost_groups"
FAILURES = "hgpo/environment_failures"


class _Lost:
    """Counts and names lost groups; mixed into verl's buffers."""

    def __init__(self, *, sampler_kwargs: Any, **kwargs: Any) -> None:
        more = dict(sampler_kwargs or {})
        super().__init__(  # type: ignore[call-arg]
            sampler_kwargs=sampler_kwargs,
            filter_groups_metric=more.get("filter_groups_metric"),
            train_batch_size=more.get("train_batch_size"),
            max_inflight_gen_batches=more.get("max_inflight_gen_batches", 1),
            gen_batch_size=1,
            sync_refill_failed_groups=True,
            **{"poll_interval": POLL, **kwargs},
        )
        self.waiting_for, self.lost = 1, 0

    def sample(self, global_steps: int, partition_id: str, batch_size: int) -> tuple[Any, dict[str, Any]]:
        """Wait for a batch of complete groups."""
        self.waiting_for, self.lost = batch_size, 0
        batch, metrics = super().sample(global_steps, partition_id, batch_size)  # type: ignore[misc]
        if partition_id == "train":
            metrics = {LOST: 0, FAILURES: 0, **metrics}
        return batch, metrics

    def _evict_terminal_groups(self, global_steps: int, partition_id: str, eviction_reasons: Any) -> Any:
        failed = set(eviction_reasons[2])
        causes: Counter[str] = Counter()
        failures = 0
        if failed:
            tags = (tq.kv_list(partition_id) or {}).get(partition_id, {})
            for group in failed:
                tag = tags.get(group, {})
                causes[tag.get(CAUSE, "a rollout failed; its worker's log says why")] += 1
                failures += sum(int(value) for name, value in tag.items() if name.startswith(FAILED)) or 1
        result = super()._evict_terminal_groups(global_steps, partition_id, eviction_reasons)  # type: ignore[misc]
        if failed:
            self.lost += len(failed)
            text = "; ".join(f"{count} x {cause}" for cause, count in causes.most_common(3))
            logger.warning("hgpo: %d of the groups were lost and are replaced: %s", len(failed), text)
            result[3].update({LOST: len(failed), FAILURES: failures})
            if self.lost > PATIENCE * self.waiting_for:
                raise EnvironmentFailed(
                    f"{self.lost} groups were lost while waiting for {self.waiting_for} complete ones: {text}. "
                    "Repair the environment, or raise env.attempts or env.step_timeout."
                )
        return result


class WholeGroups(_Lost, ReplayBuffer):  # type: ignore[misc]
    """The synchronous buffer."""

    def _terminal_eviction_reasons(self, global_steps: int, partition_id: str) -> Any:
        stale, filtered, failed, counts = super()._terminal_eviction_reasons(global_steps, partition_id)
        if partition_id != "val":
            failed = set(self.failure_keys[partition_id])
        return stale, filtered, failed, counts


class WholeGroupsAsync(_Lost, ReplayBufferAsync):  # type: ignore[misc]
    """The asynchronous buffer."""
