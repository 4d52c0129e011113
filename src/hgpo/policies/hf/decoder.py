"""A decoder-only transformer run straight from its weights: fast sampling with a static cache.

For a small model the cost of generation is not arithmetic but the library code around each token. This module runs
Llama- and Qwen2-shaped models from a copy of their weights: prompts packed to the left of a fixed cache (so prefill
is plain causal attention), equal prompts prefilled once and prompts of similar length together, one decoding step per
token that touches only fixed buffers, sampling on the device. On a GPU the step is recorded as a
CUDA graph, once per batch size and again only when longer prompts than before need a longer cache; a token then costs
one launch. Nothing is compiled.

The draws are those of `sampling.sample`: one uniform number per token from the request's own stream.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from ...models.packed import supported
from ...seeds import generator
from .sampling import Sampled, pick
from .weights import Layer, Weights

__all__ = ["Decoder", "bucket", "supported"]

WIDTH_STEP = 128
"""Cache lengths are rounded up to multiples of this, so that few sizes occur."""
CHECK_EVERY = 4
"""Tokens between two looks at whether all rows have ended; a look waits for the device."""
PREFILL_TOKENS = 16384
"""Prompts are prefilled in parts of about this many tokens: enough to fill a GPU, few enough to pad little."""


def bucket(rows: int) -> int:
    """The batch size that `rows` rows run at: powers of two, and halves between them from 64 on."""
    size = 8
    while size < rows:
        if size >= 64 and rows <= size * 3 // 2:
            return size * 3 // 2
        size *= 2
    return size


@dataclass
class Buffers:
    """Fixed buffers of one batch size, and the recorded step."""

    cache: torch.Tensor
    """[layers, rows, key heads + value heads, length, head size]; the first rows of the decoder's cache."""
    tokens: torch.Tensor
    """[rows] the last token of each row."""
    lengths: torch.Tensor
    """[rows] tokens in the cache."""
    number: torch.Tensor
    """[1] how many tokens were sampled so far."""
    uniforms: torch.Tensor
    """[rows, max new tokens]"""
    out: torch.Tensor
    """[rows, max new tokens] sampled tokens."""
    logs: torch.Tensor
    ended: torch.Tensor
    """[rows]"""
    graphs: dict[float, Any] = field(default_factory=dict)
    """The recorded step by temperature."""


class Decoder:
    """Samples from a copy of a model's weights; `refresh` takes them over again after an update."""

    def __init__(self, model: Any, stop_ids: Sequence[int], max_new_tokens: int) -> None:
        self.weights = Weights(model)
        self.device = self.weights.device
        self.stops = torch.tensor(sorted(set(stop_ids)), device=self.device)
        self.max_new_tokens = max_new_tokens
        self.cache: torch.Tensor | None = None
        self.buffers: dict[int, Buffers] = {}
        self.padded = 0
        """Positions that prefills have padded so far."""

    def refresh(self, model: Any) -> None:
        """Copy the model's present weights, adapters merged, into the same memory as before."""
        self.weights.fill(model)

    def drop(self) -> None:
        """Free the cache and what was recorded for it; both come back when needed."""
        self.buffers.clear()
        self.cache = None

    # Sampling

    def sample(
        self, prompts: Sequence[Sequence[int]], seeds: Sequence[int], temperature: float
    ) -> list[Sampled]:
        """Sample a reply to every prompt, as `sampling.sample` does."""
        with torch.inference_mode():
            return self._sample(prompts, seeds, temperature)

    def _sample(
        self, prompts: Sequence[Sequence[int]], seeds: Sequence[int], temperature: float
    ) -> list[Sampled]:
        rows = len(prompts)
        buffers = self._buffers(rows, max(map(len, prompts)) + self.max_new_tokens)
        draws = np.stack([generator("sample", seed).random(self.max_new_tokens) for seed in seeds])
        buffers.uniforms[:rows] = torch.from_numpy(draws).to(self.device)
        # Rows beyond the batch run along on one cached token and are never read.
        buffers.lengths.fill_(1)
        buffers.lengths[:rows] = torch.tensor([len(prompt) for prompt in prompts], device=self.device)
        buffers.ended.fill_(True)
        buffers.ended[:rows] = False
        buffers.tokens.zero_()
        buffers.number.zero_()
        # cuDNN's attention would plan anew for the shape of every part of every prefill.
        with sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]):
            logits = self._prefill(prompts, buffers)
        self._choose(logits, buffers, temperature)
        for number in range(1, self.max_new_tokens):
            if number % CHECK_EVERY == 1 and bool(buffers.ended.all()):
                break
            self._step(buffers, temperature)
        return self._collect(buffers, rows)

    def _buffers(self, rows: int, length: int) -> Buffers:
        """The buffers for a batch: those of its batch size, all of which share one cache.

        A larger cache than needed does; a smaller one is replaced, and what was recorded for it with it.
        """
        size, width = bucket(rows), -(-length // WIDTH_STEP) * WIDTH_STEP
        old = (0, 0) if self.cache is None else (self.cache.shape[1], self.cache.shape[3])
        if self.cache is None or old[0] < size or old[1] < width:
            self.cache = self._make_cache(max(size, old[0]), max(width, old[1]))
        if size in self.buffers:
            return self.buffers[size]
        new = {"device": self.device}
        buffers = Buffers(
            cache=self.cache[:, :size],
            tokens=torch.zeros(size, dtype=torch.long, **new),
            lengths=torch.ones(size, dtype=torch.long, **new),
            number=torch.zeros(1, dtype=torch.long, **new),
            uniforms=torch.zeros((size, self.max_new_tokens), dtype=torch.float64, **new),
            out=torch.zeros((size, self.max_new_tokens), dtype=torch.long, **new),
            logs=torch.zeros((size, self.max_new_tokens), dtype=torch.float32, **new),
            ended=torch.ones(size, dtype=torch.bool, **new),
        )
        self.buffers[size] = buffers
        return buffers

    def _make_cache(self, rows: int, width: int) -> torch.Tensor:
        """An empty cache; the one before goes first, for there may be no room for both."""
        self.drop()
        weights = self.weights
        shape = (len(weights.layers), rows, 2 * weights.kv_heads, width, weights.head_size)
        return torch.zeros(shape, dtype=weights.dtype, device=self.device)

    def _step(self, buffers: Buffers, temperature: float) -> None:
        """One more token for every row, recorded on first use where there is a GPU."""
        if self.device.type != "cuda":
            self._decode(buffers, temperature)
            return
        if temperature not in buffers.graphs:
            self._record(buffers, temperature)
        buffers.graphs[temperature].replay()

    def _record(self, buffers: Buffers, temperature: float) -> None:
        """Record `_decode` for these buffers, leaving their contents as they were."""
        fixed = ("tokens", "lengths", "number", "out", "logs", "ended")
        saved = {name: getattr(buffers, name).clone() for name in fixed}
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):  # libraries allocate their workspaces on first use
                self._decode(buffers, temperature)
        torch.cuda.current_stream().wait_stream(side)
        for name, tensor in saved.items():
            getattr(buffers, name).copy_(tensor)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self._decode(buffers, temperature)
        buffers.graphs[temperature] = graph
        for name, tensor in saved.items():
            getattr(buffers, name).copy_(tensor)

    def _choose(self, logits: torch.Tensor, buffers: Buffers, temperature: float) -> None:
        """Sample the next token of every row into the buffers."""
        uniforms = buffers.uniforms.gather(1, buffers.number.expand(len(buffers.tokens))[:, None])[:, 0]
        tokens, logs = pick(logits, uniforms, temperature)
        column = buffers.number.expand(len(tokens))[:, None]
        buffers.out.scatter_(1, column, tokens[:, None])
        buffers.logs.scatter_(1, column, logs[:, None].float())
        buffers.tokens.copy_(tokens)
        buffers.ended |= (tokens[:, None] == self.stops).any(-1)
        buffers.number += 1

    def _collect(self, buffers: Buffers, rows: int) -> list[Sampled]:
        count = int(buffers.number)
        ids = buffers.out[:rows, :count].tolist()
        logs = buffers.logs[:rows, :count].tolist()
        stops = set(self.stops.tolist())
        replies = []
        for row_ids, row_logs in zip(ids, logs):
            end = next((place for place, token in enumerate(row_ids) if token in stops), None)
            cut = len(row_ids) if end is None else end + 1
            replies.append(Sampled(row_ids[:cut], row_logs[:cut], end is not None))
        return replies

    # The transformer

    def _prefill(self, prompts: Sequence[Sequence[int]], buffers: Buffers) -> torch.Tensor:
        """Fill the cache of all rows, each distinct prompt computed once; logits after them [rows, vocabulary]."""
        weights = self.weights
        owners: dict[tuple[int, ...], list[int]] = {}
        for row, prompt in enumerate(prompts):
            owners.setdefault(tuple(prompt), []).append(row)
        logits = torch.zeros(
            (len(buffers.tokens), len(weights.head)), dtype=weights.dtype, device=self.device
        )
        for part in _parts(sorted(owners, key=len)):
            count, width = len(part), len(part[-1])
            self.padded += count * width - sum(map(len, part))
            ids = np.zeros((count, width), dtype=np.int64)
            for place, prompt in enumerate(part):
                ids[place, : len(prompt)] = prompt
            pairs = [(row, place) for place, prompt in enumerate(part) for row in owners[prompt]]
            rows, source = torch.tensor(pairs, device=self.device).T
            last = torch.tensor([len(prompt) - 1 for prompt in part], device=self.device)
            cos, sin = self._rotation(torch.arange(width, device=self.device))
            hidden = weights.embedding[torch.from_numpy(ids).to(self.device).flatten()]
            for layer, cache in zip(weights.layers, buffers.cache):
                mixed = self._project(hidden, layer).view(count, width, -1, weights.head_size)
                self._rotate(mixed, cos, sin)
                mixed = mixed.transpose(1, 2)
                q, k, v = mixed.split([weights.heads, weights.kv_heads, weights.kv_heads], dim=1)
                cache[rows, :, :width] = mixed[source, weights.heads :]
                seen = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
                self._finish(hidden, seen.transpose(1, 2).reshape(count * width, -1), layer)
            ends = hidden.view(count, width, -1)[torch.arange(count, device=self.device), last]
            logits[rows] = self._logits(ends)[source]
        return logits

    def _decode(self, buffers: Buffers, temperature: float) -> None:
        """One token more for every row: few kernels, because at this size each costs more than its arithmetic."""
        weights = self.weights
        size, length = len(buffers.tokens), buffers.cache.shape[3]
        groups = weights.heads // weights.kv_heads
        hidden = weights.embedding[buffers.tokens]
        cos, sin = self._rotation(buffers.lengths)
        hides = torch.arange(length, device=self.device)[None] > buffers.lengths[:, None]
        bias = torch.zeros(hides.shape, dtype=weights.dtype, device=self.device)
        bias = bias.masked_fill_(hides, float("-inf"))[:, None, None]
        bias = bias.expand(size, weights.kv_heads, groups, length)
        place = buffers.lengths[:, None, None, None].expand(size, 2 * weights.kv_heads, 1, weights.head_size)
        for layer, cache in zip(weights.layers, buffers.cache):
            mixed = self._project(hidden, layer).view(size, -1, weights.head_size)
            self._rotate(mixed, cos, sin)
            cache.scatter_(2, place, mixed[:, weights.heads :, None])
            # The queries that share a key head stand side by side like positions, so no key is repeated.
            q = mixed[:, : weights.heads].unflatten(1, (weights.kv_heads, groups))
            keys, values = cache.split(weights.kv_heads, dim=1)
            with sdpa_kernel([SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]):
                seen = F.scaled_dot_product_attention(q, keys, values, attn_mask=bias)
            self._finish(hidden, seen.reshape(size, -1), layer)
        buffers.lengths += 1
        self._choose(self._logits(hidden), buffers, temperature)

    def _rotation(self, positions: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Cosines and sines [positions, 1, head size] of the rotary embedding; sines signed for `_rotate`."""
        angles = positions[:, None].float() * self.weights.frequencies
        cos, sin = angles.cos() * self.weights.scaling, angles.sin() * self.weights.scaling
        both = torch.cat([cos, cos], dim=-1), torch.cat([-sin, sin], dim=-1)
        return both[0].to(self.weights.dtype)[:, None], both[1].to(self.weights.dtype)[:, None]

    def _rotate(self, mixed: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> None:
        """Turn queries and keys of [.., heads, head size] in place: (a, b) -> (a cos - b sin, b cos + a sin)."""
        turning = mixed[..., : self.weights.heads + self.weights.kv_heads, :]
        swapped = turning.roll(self.weights.head_size // 2, -1)
        turning.mul_(cos).addcmul_(swapped, sin)

    def _project(self, hidden: torch.Tensor, layer: Layer) -> torch.Tensor:
        """Queries, keys and values of all heads, side by side: [tokens, all heads x head size]."""
        return F.linear(self._norm(hidden, layer.norm), layer.qkv, layer.qkv_bias)

    def _finish(self, hidden: torch.Tensor, seen: torch.Tensor, layer: Layer) -> None:
        """Add what was seen, and the feed-forward part, to `hidden` [tokens, hidden size] in place."""
        hidden.addmm_(seen, layer.out.T)
        if layer.out_bias is not None:
            hidden += layer.out_bias
        gate, up = F.linear(self._norm(hidden, layer.mlp_norm), layer.gate_up).chunk(2, dim=-1)
        hidden.addmm_(F.silu(gate).mul_(up), layer.down.T)

    def _norm(self, hidden: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return F.rms_norm(hidden, (hidden.shape[-1],), weight, self.weights.epsilon)

    def _logits(self, hidden: torch.Tensor) -> torch.Tensor:
        return F.linear(self._norm(hidden, self.weights.norm), self.weights.head)


def _parts(prompts: Sequence[tuple[int, ...]]) -> Iterator[list[tuple[int, ...]]]:
    """Cut prompts, shortest first, into parts of at most `PREFILL_TOKENS` padded tokens (one prompt at least)."""
    part: list[tuple[int, ...]] = []
    for prompt in prompts:
        if part and (len(part) + 1) * len(prompt) > PREFILL_TOKENS:
            yield part
            part = []
        part.append(prompt)
    if part:
        yield part
