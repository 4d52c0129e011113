"""A step of ours as a row of TRL: prompt and reply in one sequence, the loss on the reply's tokens only."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..errors import BadSteps, MissingExtra
from ..steps.batch import StepBatch


def samples(batch: StepBatch, version: int, groups: dict[str, int]) -> Iterator[Any]:
    """The steps of a batch as TRL's `RolloutSample`s, in the order of the batch.

    Args:
        batch: steps with `prompt_ids`, `response_ids`, `logprobs` and `advantage`; none with an empty reply.
        version: of the weights that played them.
        groups: TRL's number of each group (`task`).

    Raises:
        BadSteps: a reply does not have one log-probability for each of its tokens.
    """
    try:
        from trl.experimental.async_grpo.async_rollout_worker import RolloutSample
    except ImportError as error:
        raise MissingExtra("trl", "trl", "Training with TRL") from error
    columns = ("prompt_ids", "response_ids", "logprobs")
    lists = [batch.lists(name) for name in columns]
    for place, row in enumerate(batch.rows()):
        prompt, reply, logs = (one[place] for one in lists)
        if len(logs) != len(reply):
            raise BadSteps(
                f"Step {row['step']} of {row['trajectory']!r} has {len(reply)} tokens and {len(logs)} "
                "log-probabilities; TRL needs one for each. Use a policy that returns them (the engine `completions`, "
                "or `hgpo.trl.local.LocalPlayer`)."
            )
        before = np.zeros(len(prompt))
        yield RolloutSample(
            prompt=[{"role": "user", "content": row["prompt"]}],
            completion=[{"role": "assistant", "content": row["response"]}],
            input_ids=np.concatenate([prompt, reply]).astype(np.int64),
            completion_mask=np.concatenate([before, np.ones(len(reply))]).astype(np.int64),
            old_log_probs=np.concatenate([before, logs]).astype(np.float32),
            advantage=float(row["advantage"]),
            model_version=version,
            group_id=groups[row["task"]],
            metrics={"reward": float(row["reward"])},
            enqueued_at=time.time(),
        )
