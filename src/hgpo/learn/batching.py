"""From steps to tensors: minibatches, micro-batches by token budget, padding that weighs nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ..models.attention import Layout
from ..models.packing import pack
from ..seeds import generator
from ..steps.batch import StepBatch
from ..steps.columns import FloatArray, IntArray, Ragged

CORRECTION = "correction"
"""The column of a batch whose lists multiply the policy loss of each reply token."""


@dataclass(frozen=True)
class Replies:
    """What the loss needs of the replies of one forward pass, padded to the same width."""

    cells: torch.Tensor
    """[reply tokens] where real tokens stand in the flattened [rows * reply width]."""
    response_ids: torch.Tensor
    """[rows, reply width]"""
    response_mask: torch.Tensor
    """[rows, reply width]; 1.0 on sampled tokens, 0.0 on padding."""
    old_logprobs: torch.Tensor
    """[rows, reply width]"""
    advantages: torch.Tensor
    """[rows]"""
    corrections: torch.Tensor
    """[rows, reply width]; what a token's policy loss is multiplied by, 1.0 where nothing is to be corrected."""


@dataclass(frozen=True)
class MicroBatch(Replies):
    """Tensors of one forward pass over padded rows.

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


@dataclass(frozen=True)
class PackedBatch(Replies):
    """Tensors of one forward pass over packed rows: no padding, equal beginnings once (`hgpo.models.packing`)."""

    layout: Layout
    """The rows, without their last tokens, after which nothing is predicted."""
    sources: torch.Tensor
    """[reply tokens] the place in the layout's tokens whose logits predict each reply token."""


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
        return _pad(padding, padding, None, None, np.zeros(1), 0.0, pad_id, device)
    prompts, replies = batch.lists("prompt_ids").take(rows), batch.lists("response_ids").take(rows)
    logprobs = batch.lists("logprobs").take(rows).values if "logprobs" in batch else None
    corrections = batch.lists(CORRECTION).take(rows).values if CORRECTION in batch else None
    return _pad(prompts, replies, logprobs, corrections, batch["advantage"][rows], 1.0, pad_id, device)


def inputs(batch: StepBatch) -> Ragged:
    """The tokens after which something is predicted: every prompt and reply but the reply's last token."""
    prompts, replies = batch.lists("prompt_ids"), batch.lists("response_ids")
    sizes = prompts.lengths + replies.lengths - 1
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    values = np.empty(int(offsets[-1]), dtype=np.int64)
    starts = offsets[:-1]
    values[_spans(starts, prompts.lengths)] = prompts.values
    cut = replies.lengths - 1
    values[_spans(starts + prompts.lengths, cut)] = replies.values[_spans(replies.offsets[:-1], cut)]
    return Ragged(values, offsets)


def _spans(starts: IntArray, lengths: IntArray) -> IntArray:
    """starts[0], starts[0] + 1, ..: `lengths[0]` numbers, then those of the next span."""
    ends = np.cumsum(lengths)
    spans: IntArray = np.arange(int(ends[-1]) if len(ends) else 0) + np.repeat(
        starts - ends + lengths, lengths
    )
    return spans


def packed_tensors(batch: StepBatch, tokens: Ragged, rows: IntArray, pad_id: int, device: Any) -> PackedBatch:
    """The tensors of one pass over the rows with the given numbers, packed; `tokens` is what `inputs` gives.

    No rows give one token that predicts nothing.
    """
    if not len(rows):
        return _nothing(pad_id, device)
    prompts, replies = batch.lists("prompt_ids").take(rows), batch.lists("response_ids").take(rows)
    packing = pack([tokens[int(row)] for row in rows])
    logprobs = batch.lists("logprobs").take(rows).values if "logprobs" in batch else None
    lengths = replies.lengths
    owners = np.repeat(np.arange(len(rows)), lengths)
    sources = packing.places(owners, _spans(prompts.lengths - 1, lengths))
    width = int(lengths.max())
    real = np.arange(width) < lengths[:, None]
    ids = np.full((len(rows), width), pad_id, dtype=np.int64)
    ids[real] = replies.values
    old = np.zeros((len(rows), width), dtype=np.float32)
    if logprobs is not None:
        old[real] = logprobs
    corrections = np.ones((len(rows), width), dtype=np.float32)
    if CORRECTION in batch:
        corrections[real] = batch.lists(CORRECTION).take(rows).values

    def put(array: np.ndarray[Any, Any]) -> torch.Tensor:
        return torch.from_numpy(array).to(device, non_blocking=True)

    return PackedBatch(
        cells=put(np.flatnonzero(real)),
        response_ids=put(ids),
        response_mask=put(real.astype(np.float32)),
        old_logprobs=put(old),
        advantages=put(batch["advantage"][rows].astype(np.float32)),
        corrections=put(corrections),
        layout=Layout.of(packing, device),
        sources=put(sources),
    )


def _nothing(pad_id: int, device: Any) -> PackedBatch:
    none = torch.zeros(0, dtype=torch.long, device=device)
    return PackedBatch(
        cells=none,
        response_ids=torch.full((1, 1), pad_id, device=device),
        response_mask=torch.zeros((1, 1), device=device),
        old_logprobs=torch.zeros((1, 1), device=device),
        advantages=torch.zeros(1, device=device),
        corrections=torch.ones((1, 1), device=device),
        layout=Layout.of(pack([np.array([pad_id])]), device),
        sources=none,
    )


def _pad(
    prompts: Ragged,
    replies: Ragged,
    logprobs: FloatArray | None,
    corrections: FloatArray | None,
    advantages: FloatArray,
    weight: float,
    pad_id: int,
    device: Any,
) -> MicroBatch:
    """Rows of prompt, reply and padding.

    `logprobs` and `corrections` are [reply tokens], `weight` is what every real token counts.
    """
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
    factors = np.ones((count, reply_width), dtype=np.float32)
    if corrections is not None:
        factors[real] = corrections
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
        corrections=put(factors),
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
