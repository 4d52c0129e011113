"""From steps to tensors: minibatches, micro-batches by token budget, padding that weighs nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ..policies.sampling import left_pad
from ..seeds import generator


@dataclass(frozen=True)
class TrainRow:
    """One step as the update sees it."""

    prompt_ids: Sequence[int]
    response_ids: Sequence[int]
    logprobs: Sequence[float]
    """Log-probabilities under the policy that sampled the reply."""
    advantage: float

    @property
    def length(self) -> int:
        """Tokens of prompt and reply."""
        return len(self.prompt_ids) + len(self.response_ids)


@dataclass(frozen=True)
class MicroBatch:
    """Tensors of one forward pass: prompts end together, replies start together.

    Sequence layout [rows, prompt width + reply width]: padding, prompt | reply, padding.
    """

    input_ids: torch.Tensor
    attention_mask: torch.Tensor
    position_ids: torch.Tensor
    response_ids: torch.Tensor
    """[rows, reply width]"""
    response_mask: torch.Tensor
    """[rows, reply width]; 1.0 on sampled tokens, 0.0 on padding."""
    old_logprobs: torch.Tensor
    """[rows, reply width]"""
    advantages: torch.Tensor
    """[rows]"""
    weights: torch.Tensor
    """[rows]; 1.0 for real rows, 0.0 for padding rows."""

    @property
    def reply_width(self) -> int:
        """Width of the reply part."""
        return int(self.response_ids.shape[1])


def minibatches(
    count: int, *, updates: int, minibatch_rows: int, seed: int, epoch: int
) -> list[np.ndarray[Any, Any]]:
    """Row numbers of each optimiser step: a seeded shuffle cut into parts whose sizes differ by one at most.

    With `updates` the number of parts is fixed; otherwise it is `count / minibatch_rows`, rounded up.
    Nothing is duplicated and nothing is left out.
    """
    parts = updates if updates > 0 else -(-count // minibatch_rows)
    order = generator("minibatches", seed, epoch).permutation(count)
    return [part for part in np.array_split(order, max(1, min(parts, count))) if len(part)]


def micro_batches(rows: Sequence[TrainRow], indices: Sequence[int], token_budget: int) -> list[list[int]]:
    """Cut row numbers into forward passes of at most `token_budget` positions, rows of similar length together.

    A single row over the budget gets a pass of its own.
    """
    order = sorted(indices, key=lambda i: (-rows[i].length, i))
    result: list[list[int]] = []
    prompt = reply = 0
    for index in order:
        row = rows[index]
        wider = max(prompt, len(row.prompt_ids)), max(reply, len(row.response_ids))
        if result and (len(result[-1]) + 1) * sum(wider) <= token_budget:
            result[-1].append(index)
            prompt, reply = wider
        else:
            result.append([index])
            prompt, reply = len(row.prompt_ids), len(row.response_ids)
    return result


def share_out(
    rows: Sequence[TrainRow], indices: Sequence[int], token_budget: int, processes: int
) -> list[list[list[int]]]:
    """The micro-batches of each process: rows dealt out by length, equal numbers of passes for all.

    Processes with fewer passes get empty ones, which run a padding row of weight zero so that collective
    operations stay in step.
    """
    order = sorted(indices, key=lambda i: (-rows[i].length, i))
    # Snake order keeps the token counts of the processes close.
    dealt: list[list[int]] = [[] for _ in range(processes)]
    for place, index in enumerate(order):
        lap, seat = divmod(place, processes)
        dealt[seat if lap % 2 == 0 else processes - 1 - seat].append(index)
    parts = [micro_batches(rows, part, token_budget) for part in dealt]
    longest = max(len(part) for part in parts)
    return [part + [[] for _ in range(longest - len(part))] for part in parts]


def tensors(rows: Sequence[TrainRow], pad_id: int, device: Any) -> MicroBatch:
    """The tensors of one forward pass; no rows give one padding row of weight zero."""
    weight = 1.0
    if not rows:
        rows, weight = [TrainRow([pad_id], [pad_id], [0.0], 0.0)], 0.0
    prompts, prompt_mask = left_pad([row.prompt_ids for row in rows], pad_id, "cpu")
    width = max(len(row.response_ids) for row in rows)
    replies = np.full((len(rows), width), pad_id, dtype=np.int64)
    mask = np.zeros((len(rows), width), dtype=np.float32)
    old = np.zeros((len(rows), width), dtype=np.float32)
    for place, row in enumerate(rows):
        size = len(row.response_ids)
        replies[place, :size] = row.response_ids
        mask[place, :size] = weight
        old[place, :size] = row.logprobs
    response = torch.from_numpy(replies)
    attention = torch.cat([prompt_mask, torch.from_numpy((mask > 0).astype(np.int64))], dim=1)
    if weight == 0.0:
        attention = torch.ones_like(attention)
    return MicroBatch(
        input_ids=torch.cat([prompts, response], dim=1).to(device),
        attention_mask=attention.to(device),
        position_ids=(attention.cumsum(1) - 1).clamp_min(0).to(device),
        response_ids=response.to(device),
        response_mask=torch.from_numpy(mask).to(device),
        old_logprobs=torch.from_numpy(old).to(device),
        advantages=torch.tensor([row.advantage for row in rows], dtype=torch.float32, device=device),
        weights=torch.full((len(rows),), weight, device=device),
    )


def padding_share(rows: Sequence[TrainRow], batches: Sequence[Sequence[int]]) -> tuple[int, int]:
    """(real, all) token positions of the given forward passes."""
    real = everything = 0
    for batch in batches:
        if batch:
            real += sum(rows[i].length for i in batch)
            width = max(len(rows[i].prompt_ids) for i in batch) + max(
                len(rows[i].response_ids) for i in batch
            )
            everything += width * len(batch)
    return real, everything
