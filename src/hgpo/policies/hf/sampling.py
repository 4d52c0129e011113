"""Sampling from a causal language model, in batches, one private random stream per row.

Each sampled token uses one uniform number of its request's own stream, looked up in the cumulative
distribution. A reply therefore depends on its prompt and seed, not on which other requests shared the batch
(up to the rounding of the forward pass).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ...seeds import generator


@dataclass(frozen=True)
class Sampled:
    """The reply to one prompt."""

    ids: list[int]
    """Sampled tokens, the end token included when it was reached."""
    logprobs: list[float]
    """Log-probability of each under the distribution it was sampled from."""
    stopped: bool
    """The end token was sampled."""


def left_pad(rows: Sequence[Sequence[int]], pad: int, device: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Ids and attention mask, both [rows, longest], padded on the left so that all prompts end together."""
    width = max(len(row) for row in rows)
    ids = np.full((len(rows), width), pad, dtype=np.int64)
    mask = np.zeros((len(rows), width), dtype=np.int64)
    for index, row in enumerate(rows):
        ids[index, width - len(row) :] = row
        mask[index, width - len(row) :] = 1
    return torch.from_numpy(ids).to(device), torch.from_numpy(mask).to(device)


def sample(
    model: Any,
    prompts: Sequence[Sequence[int]],
    seeds: Sequence[int],
    *,
    temperature: float,
    max_new_tokens: int,
    stop_ids: Sequence[int],
    pad_id: int,
) -> list[Sampled]:
    """Sample a reply to every prompt; rows that have ended leave the batch as the others go on.

    Args:
        model: a causal language model of transformers, in evaluation mode.
        prompts: token ids of each prompt.
        seeds: one seed per prompt.
        temperature: divides the logits; 0 takes the most likely token.
        max_new_tokens: limit of each reply.
        stop_ids: tokens that end a reply.
        pad_id: any id; padded positions are masked.
    """
    with torch.inference_mode():
        return _sample(model, prompts, seeds, temperature, max_new_tokens, stop_ids, pad_id)


def _sample(
    model: Any,
    prompts: Sequence[Sequence[int]],
    seeds: Sequence[int],
    temperature: float,
    max_new_tokens: int,
    stop_ids: Sequence[int],
    pad_id: int,
) -> list[Sampled]:
    device = next(model.parameters()).device
    ids, mask = left_pad(prompts, pad_id, device)
    positions = (mask.cumsum(1) - 1).clamp_min(0)
    draws = np.stack([generator("sample", seed).random(max_new_tokens) for seed in seeds])
    uniforms = torch.from_numpy(draws).to(device)
    stops = torch.tensor(sorted(stop_ids), device=device)
    out_ids: list[list[int]] = [[] for _ in prompts]
    out_logs: list[list[float]] = [[] for _ in prompts]
    stopped = [False] * len(prompts)
    live = np.arange(len(prompts))

    output = model(
        input_ids=ids, attention_mask=mask, position_ids=positions, use_cache=True, logits_to_keep=1
    )
    cache, next_position = output.past_key_values, positions[:, -1:] + 1
    for number in range(max_new_tokens):
        tokens, logs = pick(output.logits[:, -1], uniforms[:, number], temperature)
        ended = torch.isin(tokens, stops)
        for row, token, log, end in zip(live.tolist(), tokens.tolist(), logs.tolist(), ended.tolist()):
            if not stopped[row]:
                out_ids[row].append(token)
                out_logs[row].append(log)
                stopped[row] = end
        going = [place for place, row in enumerate(live.tolist()) if not stopped[row]]
        if not going or number + 1 == max_new_tokens:
            break
        # Dropping rows copies the cache, so wait until it pays.
        if len(going) <= 0.75 * len(live):
            keep = torch.tensor(going, device=device)
            cache.batch_select_indices(keep)
            mask, tokens = mask[keep], tokens[keep]
            uniforms, next_position = uniforms[keep], next_position[keep]
            live = live[going]
        mask = torch.cat([mask, mask.new_ones((len(mask), 1))], dim=1)
        output = model(
            input_ids=tokens[:, None],
            attention_mask=mask,
            position_ids=next_position,
            past_key_values=cache,
            use_cache=True,
        )
        cache, next_position = output.past_key_values, next_position + 1
    return [Sampled(*parts) for parts in zip(out_ids, out_logs, stopped)]


def pick(
    logits: torch.Tensor, uniforms: torch.Tensor, temperature: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """One token per row and its log-probability.

    Args:
        logits: [rows, vocabulary].
        uniforms: [rows], in [0, 1).
        temperature: 0 takes the largest logit.
    """
    logits = logits.float()
    if temperature <= 0:
        logs = torch.log_softmax(logits, dim=-1)
        tokens = logits.argmax(-1)
    else:
        logs = torch.log_softmax(logits / temperature, dim=-1)
        # float64: over 150,000 tokens a float32 running sum loses the tail.
        mass = logs.double().exp().cumsum(-1)
        total = mass[:, -1:]
        target = _below(uniforms.double()[:, None] * total, total)
        tokens = torch.searchsorted(mass, target, right=True).squeeze(-1)
    return tokens, logs.gather(-1, tokens[:, None]).squeeze(-1)


def draw(
    logits: torch.Tensor, uniforms: torch.Tensor, temperature: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """What `pick` gives, up to rounding, for large vocabularies: only sums of blocks of tokens are float64."""
    scores = logits.float()
    if temperature <= 0:
        tokens = scores.argmax(-1)
        return tokens, scores.gather(-1, tokens[:, None])[:, 0] - scores.logsumexp(-1)
    if temperature != 1:
        scores = scores / temperature
    top = scores.amax(-1, keepdim=True)
    weights = (scores - top).exp_().unflatten(-1, (-1, _block(scores.shape[-1])))
    blocks = weights.sum(-1, dtype=torch.float64)
    mass = blocks.cumsum(-1)
    target = _below(uniforms[:, None].double() * mass[:, -1:], mass[:, -1:])
    block = torch.searchsorted(mass, target, right=True)
    before = mass.gather(-1, block) - blocks.gather(-1, block)
    inside = weights.gather(1, block[..., None].expand(-1, 1, weights.shape[-1]))[:, 0].double().cumsum(-1)
    place = torch.searchsorted(inside, _below((target - before).clamp_min(0), inside[:, -1:]), right=True)
    tokens = block * weights.shape[-1] + place
    logs = scores.gather(-1, tokens) - top - mass[:, -1:].log().float()
    return tokens[:, 0], logs[:, 0]


def _below(target: torch.Tensor, total: torch.Tensor) -> torch.Tensor:
    """At most the largest number below the total, so that the token that is found has a probability above zero."""
    return torch.minimum(target, torch.nextafter(total, total * 0))


def _block(vocabulary: int) -> int:
    """The smallest divisor of the vocabulary's size from its root on: about as many blocks as tokens in each."""
    return next(
        size for size in range(math.isqrt(vocabulary - 1) + 1, vocabulary + 1) if vocabulary % size == 0
    )
