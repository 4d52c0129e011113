"""From steps to tensors: minibatches, micro-batches by token budget, padding that weighs nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

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
    """Tensors of one forward pass.

    Each row is prompt, reply, padding. Padding comes last, where no real token can see it under causal attention, so
    the pass needs no attention mask and may use the fastest kernels.
    """

    input_ids: torch.Tensor
    """[rows, width]"""
    prompt_mask: torch.Tensor
    """[rows, width]; 1.0 on the tokens of the prompt."""
    places: torch.Tensor
    """[rows, reply width] position whose logits predict each reply token."""
    sources: torch.Tensor
    """[reply tokens] such positions again, those of real tokens only, in the flattened [rows * width]."""
    cells: torch.Tensor
    """[reply tokens] where these tokens stand in the flattened [rows * reply width]."""
    response_ids: torch.Tensor
    """[rows, reply width]"""
    response_mask: torch.Tensor
    """[rows, reply width]; 1.0 on sampled tokens, 0.0 on padding."""
    old_logprobs: torch.Tensor
    """[rows, reply width]"""
    advantages: torch.Tensor
    """[rows]"""


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
    width = 0
    for index in order:  # longest first, so the first row of a pass decides its width
        if result and (len(result[-1]) + 1) * width <= token_budget:
            result[-1].append(index)
        else:
            result.append([index])
            width = rows[index].length
    return result


def share_out(
    rows: Sequence[TrainRow], indices: Sequence[int], token_budget: int, processes: int
) -> list[list[list[int]]]:
    """The micro-batches of each process: rows dealt out by length, equal numbers of passes for all.

    Processes with fewer passes get empty ones, which run a padding row of weight zero so that collective
    operations stay in step; without any rows every process gets one such pass.
    """
    order = sorted(indices, key=lambda i: (-rows[i].length, i))
    # Snake order keeps the token counts of the processes close.
    dealt: list[list[int]] = [[] for _ in range(processes)]
    for place, index in enumerate(order):
        lap, seat = divmod(place, processes)
        dealt[seat if lap % 2 == 0 else processes - 1 - seat].append(index)
    parts = [micro_batches(rows, part, token_budget) for part in dealt]
    longest = max(1, *(len(part) for part in parts))
    return [part + [[] for _ in range(longest - len(part))] for part in parts]


def tensors(rows: Sequence[TrainRow], pad_id: int, device: Any) -> MicroBatch:
    """The tensors of one forward pass; no rows give one padding row of weight zero."""
    weight = 1.0
    if not rows:
        rows, weight = [TrainRow([pad_id], [pad_id], [0.0], 0.0)], 0.0
    count, width = len(rows), max(row.length for row in rows)
    reply_width = max(len(row.response_ids) for row in rows)
    ids = np.full((count, width), pad_id, dtype=np.int64)
    prompts = np.zeros((count, width), dtype=np.float32)
    replies = np.full((count, reply_width), pad_id, dtype=np.int64)
    mask = np.zeros((count, reply_width), dtype=np.float32)
    old = np.zeros((count, reply_width), dtype=np.float32)
    starts = np.array([len(row.prompt_ids) - 1 for row in rows])
    for place, row in enumerate(rows):
        size = len(row.response_ids)
        ids[place, : row.length] = [*row.prompt_ids, *row.response_ids]
        prompts[place, : len(row.prompt_ids)] = weight
        replies[place, :size] = row.response_ids
        mask[place, :size] = weight
        old[place, :size] = row.logprobs
    # The last position of a row predicts nothing; places beyond it belong to masked tokens.
    places = np.minimum(starts[:, None] + np.arange(reply_width), width - 2)
    real = np.arange(reply_width) < np.array([len(row.response_ids) for row in rows])[:, None]

    def put(array: np.ndarray[Any, Any]) -> torch.Tensor:
        return torch.from_numpy(array).to(device, non_blocking=True)

    return MicroBatch(
        input_ids=put(ids),
        prompt_mask=put(prompts),
        places=put(places),
        sources=put((np.arange(count)[:, None] * width + places)[real]),
        cells=put(np.flatnonzero(real)),
        response_ids=put(replies),
        response_mask=put(mask),
        old_logprobs=put(old),
        advantages=put(np.array([row.advantage for row in rows], dtype=np.float32)),
    )


def largest_pass(rows: Sequence[TrainRow], batches: Sequence[Sequence[int]]) -> int:
    """Token positions, padding included, of the largest of the given forward passes."""
    return max((len(batch) * max(rows[i].length for i in batch) for batch in batches if batch), default=1)


def padding_share(rows: Sequence[TrainRow], batches: Sequence[Sequence[int]]) -> tuple[int, int]:
    """(real, all) token positions of the given forward passes."""
    real = everything = 0
    for batch in batches:
        if batch:
            real += sum(rows[i].length for i in batch)
            everything += max(rows[i].length for i in batch) * len(batch)
    return real, everything
