"""From steps to tensors: minibatches, micro-batches by token budget, padding that weighs nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ..seeds import generator
from ..steps.batch import StepBatch
from ..steps.columns import FloatArray, IntArray, Ragged


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


def minibatches(count: int, *, updates: int, minibatch_rows: int, seed: int, epoch: int) -> list[IntArray]:
    """Row numbers of each optimiser step: a seeded shuffle cut into parts whose sizes differ by one at most.

    With `updates` the number of parts is fixed; otherwise it is `count / minibatch_rows`, rounded up.
    Nothing is duplicated and nothing is left out.
    """
    parts = updates if updates > 0 else -(-count // minibatch_rows)
    order = generator("minibatches", seed, epoch).permutation(count)
    return [part for part in np.array_split(order, max(1, min(parts, count))) if len(part)]


def row_lengths(batch: StepBatch) -> IntArray:
    """[steps] tokens of prompt and reply."""
    return batch.lists("prompt_ids").lengths + batch.lists("response_ids").lengths


def micro_batches(lengths: IntArray, rows: IntArray, token_budget: int) -> list[IntArray]:
    """Cut row numbers into forward passes of at most `token_budget` positions, rows of similar length together.

    A single row over the budget gets a pass of its own. `lengths` is what `row_lengths` gives.
    """
    order = _longest_first(lengths, rows)
    sizes = lengths[order].tolist()
    cuts: list[int] = []
    start = 0
    for place in range(1, len(order)):  # longest first, so the first row of a pass decides its width
        if (place - start + 1) * sizes[start] > token_budget:
            cuts.append(place)
            start = place
    return np.split(order, cuts) if len(order) else []


def share_out(lengths: IntArray, rows: IntArray, token_budget: int, processes: int) -> list[list[IntArray]]:
    """The micro-batches of each process: rows dealt out by length, equal numbers of passes for all.

    Processes with fewer passes get empty ones, which run a padding row of weight zero so that collective
    operations stay in step; without any rows every process gets one such pass.
    """
    order = _longest_first(lengths, rows)
    # Snake order keeps the token counts of the processes close.
    lap, seat = np.divmod(np.arange(len(order)), processes)
    seat = np.where(lap % 2 == 0, seat, processes - 1 - seat)
    parts = [micro_batches(lengths, order[seat == process], token_budget) for process in range(processes)]
    longest = max(1, *(len(part) for part in parts))
    return [part + [order[:0]] * (longest - len(part)) for part in parts]


def _longest_first(lengths: IntArray, rows: IntArray) -> IntArray:
    """The row numbers by falling length, then rising number."""
    return rows[np.lexsort((rows, -lengths[rows]))]


def tensors(batch: StepBatch, rows: IntArray, pad_id: int, device: Any) -> MicroBatch:
    """The tensors of one forward pass over the rows with the given numbers; none give a padding row of weight zero.

    The batch needs `prompt_ids`, `response_ids` and `advantage`; without `logprobs` the old ones are 0.
    """
    if not len(rows):
        padding = Ragged(np.array([pad_id]), np.array([0, 1]))
        return _pad(padding, padding, None, np.zeros(1), 0.0, pad_id, device)
    prompts, replies = batch.lists("prompt_ids").take(rows), batch.lists("response_ids").take(rows)
    logprobs = batch.lists("logprobs").take(rows).values if "logprobs" in batch else None
    return _pad(prompts, replies, logprobs, batch["advantage"][rows], 1.0, pad_id, device)


def _pad(
    prompts: Ragged,
    replies: Ragged,
    logprobs: FloatArray | None,
    advantages: FloatArray,
    weight: float,
    pad_id: int,
    device: Any,
) -> MicroBatch:
    """Rows of prompt, reply and padding; `logprobs` is [reply tokens], `weight` what every real token counts."""
    count, prompt_lengths, reply_lengths = len(prompts), prompts.lengths, replies.lengths
    row_ends = prompt_lengths + reply_lengths
    width, reply_width = int(row_ends.max()), int(reply_lengths.max())
    # Filling a mask goes row by row, which is the order in which ragged columns hold their items.
    in_prompt = np.arange(width) < prompt_lengths[:, None]
    in_reply = ~in_prompt & (np.arange(width) < row_ends[:, None])
    real = np.arange(reply_width) < reply_lengths[:, None]
    ids = np.full((count, width), pad_id, dtype=np.int64)
    ids[in_prompt] = prompts.values
    ids[in_reply] = replies.values
    reply_ids = np.full((count, reply_width), pad_id, dtype=np.int64)
    reply_ids[real] = replies.values
    old = np.zeros((count, reply_width), dtype=np.float32)
    if logprobs is not None:
        old[real] = logprobs
    # The last position of a row predicts nothing; places beyond it belong to masked tokens.
    places = np.minimum(prompt_lengths[:, None] - 1 + np.arange(reply_width), width - 2)

    def put(array: np.ndarray[Any, Any]) -> torch.Tensor:
        return torch.from_numpy(array).to(device, non_blocking=True)

    return MicroBatch(
        input_ids=put(ids),
        prompt_mask=put(in_prompt * np.float32(weight)),
        places=put(places),
        sources=put((np.arange(count)[:, None] * width + places)[real]),
        cells=put(np.flatnonzero(real)),
        response_ids=put(reply_ids),
        response_mask=put(real * np.float32(weight)),
        old_logprobs=put(old),
        advantages=put(advantages.astype(np.float32)),
    )


def largest_pass(lengths: IntArray, passes: Sequence[IntArray]) -> int:
    """Token positions, padding included, of the largest of the given forward passes."""
    return max((len(rows) * int(lengths[rows].max()) for rows in passes if len(rows)), default=1)


def pass_tokens(lengths: IntArray, passes: Sequence[IntArray]) -> tuple[int, int]:
    """(real, all) token positions of the given forward passes."""
    filled = [rows for rows in passes if len(rows)]
    return (
        sum(int(lengths[rows].sum()) for rows in filled),
        sum(len(rows) * int(lengths[rows].max()) for rows in filled),
    )
