"""A decoder-only transformer run straight from its weights: fast sampling with a static cache.

For a small model the cost of generation is not arithmetic but the library code around each token. This module runs
Llama- and Qwen2-shaped models from a copy of their weights:

- Prompts are prefilled packed (`hgpo.models.packing`): no padding, and a beginning that several share computed once.
- Every reply under way has a slot: its keys and values, tokens and random numbers. One step gives the rows of a batch
  one more token each; a batch is a list of slots, so rows that have ended leave it and waiting requests enter it by
  changing that list, and nothing is moved.
- On a GPU the step is recorded as a CUDA graph, once per batch size and again only when longer prompts than before need
  longer slots; a token then costs one launch. Attention reads what a slot holds, not what it could hold. Nothing is
  compiled but the kernels of `hgpo.models.fused`.

The draws are those of `sampling.sample`: one uniform number per token from the request's own stream.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from ...models import fused
from ...models.attention import Layout, attend
from ...models.packed import supported
from ...models.packing import pack, packs
from ...seeds import generator
from ...steps.columns import IntArray, Ragged
from .sampling import Sampled, draw
from .weights import Layer, Weights

__all__ = ["Decoder", "bucket", "supported"]

WIDTH_STEP = 128
"""The length of slots is rounded up to a multiple of this, so that few lengths occur."""
CHECK_EVERY = 4
"""Tokens between two looks at which rows have ended; a look waits for the device."""
PREFILL_TOKENS = 65536
"""Prompts are prefilled in parts of about this many tokens: enough to fill a GPU, few enough for its memory."""


def bucket(rows: int) -> int:
    """The batch size that `rows` rows run at: powers of two, and halves between them from 64 on."""
    size = 8
    while size < rows:
        if size >= 64 and rows <= size * 3 // 2:
            return size * 3 // 2
        size *= 2
    return size


@dataclass
class Slots:
    """What is known of every reply under way. The last slot is nobody's: rows that only fill a batch up use it."""

    cache: torch.Tensor
    """[layers, slots, length, key heads + value heads, head size]"""
    tokens: torch.Tensor
    """[slots] the last token."""
    lengths: torch.Tensor
    """[slots] tokens in the cache."""
    counts: torch.Tensor
    """[slots] how many tokens were sampled."""
    ended: torch.Tensor
    """[slots]"""
    uniforms: torch.Tensor
    """[slots, max new tokens + 1]"""
    out: torch.Tensor
    """[slots, max new tokens + 1] sampled tokens; the last column takes what rows that have ended go on to sample."""
    logs: torch.Tensor
    """As `out`: their log-probabilities."""
    batches: dict[int, torch.Tensor] = field(default_factory=dict)
    """[batch size] the slots of the batch, by batch size: what recorded steps read."""
    graphs: dict[tuple[int, float], Any] = field(default_factory=dict)
    """The recorded step by batch size and temperature."""

    def batch(self, numbers: Sequence[int]) -> torch.Tensor:
        """The slots with the given numbers as a batch of a size that recurs."""
        size = bucket(len(numbers))
        spare = len(self.tokens) - 1
        if size not in self.batches:
            self.batches[size] = torch.full((size,), spare, device=self.tokens.device)
        filled = [*numbers, *[spare] * (size - len(numbers))]
        self.batches[size].copy_(torch.tensor(filled))
        return self.batches[size]


class Decoder:
    """Samples from a copy of a model's weights; `refresh` takes them over again after an update."""

    def __init__(self, model: Any, stop_ids: Sequence[int], max_new_tokens: int) -> None:
        self.weights = Weights(model)
        self.device = self.weights.device
        self.stops = torch.tensor(sorted(set(stop_ids)), device=self.device)
        self.ends = frozenset(stop_ids)
        self.max_new_tokens = max_new_tokens
        self.slots: Slots | None = None
        self.pool: Any = None
        self.rotation: tuple[torch.Tensor, torch.Tensor] | None = None

    def refresh(self, model: Any) -> None:
        """Copy the model's present weights, adapters folded in, into the same memory as before."""
        self.weights.fill(model)

    def drop(self) -> None:
        """Free the cache and what was recorded for it; both come back when needed."""
        self.slots = None
        self.pool = None

    # Sampling

    def sample(
        self,
        prompts: Sequence[Sequence[int]],
        seeds: Sequence[int],
        temperature: float,
        *,
        rows: int | None = None,
    ) -> list[Sampled]:
        """Sample a reply to every prompt, as `sampling.sample` does; at most `rows` at a time, the others wait."""
        with torch.inference_mode():
            return self._sample(prompts, seeds, temperature, min(rows or len(prompts), len(prompts)))

    def _sample(
        self, prompts: Sequence[Sequence[int]], seeds: Sequence[int], temperature: float, rows: int
    ) -> list[Sampled]:
        state = self._slots(bucket(rows), max(map(len, prompts)) + self.max_new_tokens)
        replies: dict[int, Sampled] = {}
        free, waiting = list(range(rows))[::-1], list(range(len(prompts)))[::-1]
        live: dict[int, int] = {}
        while waiting or live:
            # A prefill is worth its launches when it fills a good part of the batch, or when nothing else is to do.
            if waiting and (len(free) >= min(len(waiting), max(1, rows // 8)) or not live):
                entering = {free.pop(): waiting.pop() for _ in range(min(len(free), len(waiting)))}
                self._admit(state, entering, prompts, seeds, temperature)
                live |= entering
            if self.max_new_tokens > 1:
                batch = state.batch(sorted(live))
                for _ in range(CHECK_EVERY):
                    self._step(state, batch, temperature)
            done = self._ended(state, live)
            for slot, reply in zip(done, self._collect(state, done)):
                replies[live.pop(slot)] = reply
                free.append(slot)
        return [replies[number] for number in range(len(prompts))]

    def _ended(self, state: Slots, live: dict[int, int]) -> list[int]:
        """Those of the live slots whose replies have ended."""
        ended = state.ended.tolist()
        return [slot for slot in sorted(live) if ended[slot]]

    def _slots(self, rows: int, length: int) -> Slots:
        """Slots for a batch of `rows` rows; more or longer ones than needed do, fewer or shorter ones are replaced."""
        width = -(-length // WIDTH_STEP) * WIDTH_STEP
        old = (0, 0) if self.slots is None else self.slots.cache.shape[1:3]
        if self.slots is None or old[0] <= rows or old[1] < width:
            self.slots = self._make_slots(max(rows + 1, old[0]), max(width, old[1]))
        return self.slots

    def _make_slots(self, count: int, width: int) -> Slots:
        """Empty slots; those before go first, for there may be no room for both."""
        self.drop()
        weights, columns = self.weights, self.max_new_tokens + 1
        shape = (len(weights.layers), count, width, 2 * weights.kv_heads, weights.head_size)
        new: dict[str, Any] = {"device": self.device}
        angles = torch.arange(width, dtype=torch.float32, **new)[:, None] * weights.frequencies
        self.rotation = (
            (angles.cos() * weights.scaling).to(weights.dtype),
            (angles.sin() * weights.scaling).to(weights.dtype),
        )
        return Slots(
            cache=torch.zeros(shape, dtype=weights.dtype, **new),
            tokens=torch.zeros(count, dtype=torch.long, **new),
            lengths=torch.zeros(count, dtype=torch.long, **new),
            counts=torch.zeros(count, dtype=torch.long, **new),
            ended=torch.ones(count, dtype=torch.bool, **new),
            uniforms=torch.zeros((count, columns), dtype=torch.float64, **new),
            out=torch.zeros((count, columns), dtype=torch.long, **new),
            logs=torch.zeros((count, columns), dtype=torch.float32, **new),
        )

    def _admit(
        self,
        state: Slots,
        entering: dict[int, int],
        prompts: Sequence[Sequence[int]],
        seeds: Sequence[int],
        temperature: float,
    ) -> None:
        """Prefill the prompts that take the given slots, and sample the first token of each."""
        numbers = list(entering.values())
        slots = torch.tensor(list(entering), device=self.device)
        draws = np.zeros((len(numbers), self.max_new_tokens + 1))
        draws[:, :-1] = [generator("sample", seeds[one]).random(self.max_new_tokens) for one in numbers]
        state.uniforms[slots] = torch.from_numpy(draws).to(self.device)
        lengths = torch.tensor([len(prompts[one]) for one in numbers], device=self.device)
        state.lengths[slots] = lengths
        state.counts[slots] = 0
        state.ended[slots] = False
        rows = Ragged.of([prompts[one] for one in numbers], np.int64)
        logits = torch.empty(
            (len(numbers), len(self.weights.head)), dtype=self.weights.dtype, device=self.device
        )
        for part, _ in packs(rows, np.arange(len(numbers)), PREFILL_TOKENS):
            places = torch.from_numpy(part).to(self.device)
            logits[places] = self._prefill(state, rows, part, slots[places])
        self._choose(state, slots, logits, temperature)

    def _step(self, state: Slots, batch: torch.Tensor, temperature: float) -> None:
        """One more token for every row of the batch, recorded on first use where there is a GPU."""
        if self.device.type != "cuda":
            self._decode(state, batch, temperature)
            return
        key = (len(batch), temperature)
        if key not in state.graphs:
            self._record(state, batch, temperature)
        state.graphs[key].replay()

    def _record(self, state: Slots, batch: torch.Tensor, temperature: float) -> None:
        """Record `_decode` for this batch size, leaving the slots as they were."""
        fixed = ("tokens", "lengths", "counts", "ended", "out", "logs")
        saved = {name: getattr(state, name).clone() for name in fixed}
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):  # libraries allocate their workspaces on first use
                self._decode(state, batch, temperature)
        torch.cuda.current_stream().wait_stream(side)
        for name, tensor in saved.items():
            getattr(state, name).copy_(tensor)
        # Steps run one at a time and leave everything in the slots, so all may work in the same memory.
        self.pool = self.pool or torch.cuda.graph_pool_handle()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self.pool):
            self._decode(state, batch, temperature)
        state.graphs[len(batch), temperature] = graph

    def _choose(self, state: Slots, slots: torch.Tensor, logits: torch.Tensor, temperature: float) -> None:
        """Sample the next token of the given slots; those that have ended stay as they are."""
        ended, counts = state.ended[slots], state.counts[slots]
        column = counts.masked_fill(ended, self.max_new_tokens)
        tokens, logs = draw(logits, state.uniforms[slots, column], temperature)
        state.out[slots, column] = tokens
        state.logs[slots, column] = logs
        state.tokens[slots] = tokens
        counts = counts + ~ended
        state.counts[slots] = counts
        stopped = (tokens[:, None] == self.stops).any(-1)
        state.ended[slots] = ended | stopped | (counts >= self.max_new_tokens)

    def _collect(self, state: Slots, slots: Sequence[int]) -> list[Sampled]:
        """The replies in the given slots, which have ended."""
        if not slots:
            return []
        where = torch.tensor(slots, device=self.device)
        ids, logs = state.out[where].tolist(), state.logs[where].tolist()
        counts = state.counts[where].tolist()
        return [
            Sampled(row_ids[:count], row_logs[:count], row_ids[count - 1] in self.ends)
            for row_ids, row_logs, count in zip(ids, logs, counts)
        ]

    # The transformer

    def _prefill(self, state: Slots, rows: Ragged, part: IntArray, slots: torch.Tensor) -> torch.Tensor:
        """Fill the slots with the rows numbered `part`; logits after them [len(part), vocabulary]."""
        weights = self.weights
        packing = pack([rows[int(row)] for row in part])
        layout = Layout.of(packing, self.device)
        lengths = rows.lengths[part]
        owners, ends = np.repeat(np.arange(len(part)), lengths), np.cumsum(lengths)
        positions = np.arange(int(ends[-1])) - np.repeat(ends - lengths, lengths)
        sources = torch.from_numpy(packing.places(owners, positions)).to(self.device)
        width = state.cache.shape[2]
        targets = slots[torch.from_numpy(owners).to(self.device)] * width
        targets += torch.from_numpy(positions).to(self.device)
        assert self.rotation is not None
        hidden = weights.embedding[layout.tokens]
        for layer, cache in zip(weights.layers, state.cache):
            mixed = self._project(hidden, layer).view(len(hidden), -1, weights.head_size)
            q, k, v = mixed.split([weights.heads, weights.kv_heads, weights.kv_heads], dim=1)
            q, k = (fused.turn(one, *self.rotation, layout.positions, 1.0) for one in (q, k))
            cache.flatten(0, 1)[targets] = torch.cat([k, v], dim=1)[sources]
            self._finish(hidden, attend(q, k, v.contiguous(), layout).flatten(1), layer)
        last = torch.from_numpy(ends - 1).to(self.device)
        return self._logits(hidden[sources[last]])

    def _decode(self, state: Slots, batch: torch.Tensor, temperature: float) -> None:
        """One token more for every row: few kernels, because at this size each costs more than its arithmetic."""
        weights = self.weights
        assert self.rotation is not None
        hidden = weights.embedding[state.tokens[batch]]
        for layer, cache in zip(weights.layers, state.cache):
            mixed = self._project(hidden, layer).view(len(batch), -1, weights.head_size)
            q = fused.store(mixed, cache, *self.rotation, batch, state.lengths, weights.heads)
            self._finish(hidden, fused.decode(q, cache, batch, state.lengths).flatten(1), layer)
        # Whoever has ended holds what it held; the next token is written where this one was.
        state.lengths[batch] += ~state.ended[batch]
        self._choose(state, batch, self._logits(hidden), temperature)

    def _project(self, hidden: torch.Tensor, layer: Layer) -> torch.Tensor:
        """Queries, keys and values of all heads, side by side: [tokens, all heads x head size]."""
        return F.linear(self._norm(hidden, layer.norm), layer.qkv, layer.qkv_bias)

    def _finish(self, hidden: torch.Tensor, seen: torch.Tensor, layer: Layer) -> None:
        """Add what was seen, and the feed-forward part, to `hidden` [tokens, hidden size] in place."""
        hidden.addmm_(seen, layer.out.T)
        if layer.out_bias is not None:
            hidden += layer.out_bias
        both = F.linear(self._norm(hidden, layer.mlp_norm), layer.gate_up)
        hidden.addmm_(fused.gated(both), layer.down.T)

    def _norm(self, hidden: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return F.rms_norm(hidden, (hidden.shape[-1],), weight, self.weights.epsilon)

    def _logits(self, hidden: torch.Tensor) -> torch.Tensor:
        return F.linear(self._norm(hidden, self.weights.norm), self.weights.head)
