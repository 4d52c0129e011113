"""A decoder-only transformer run straight from its weights: fast sampling with a static cache.

For a small model the cost of generation is not arithmetic but the library code around each token. This module runs
Llama- and Qwen2-shaped models from a copy of their weights: prompts packed to the left of a fixed cache (so prefill
is plain causal attention), equal prompts prefilled once, one decoding step per token that touches only fixed
buffers, sampling on the device. On a GPU the step is recorded once per batch size as a CUDA graph and replayed, so a
token costs one launch; nothing is compiled and nothing is recorded again during a run.

The draws are those of `sampling.sample`: one uniform number per token from the request's own stream.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from ..seeds import generator
from .sampling import Sampled, pick

WIDTH_STEP = 128
"""Cache lengths are rounded up to multiples of this, so that few sizes occur."""
CHECK_EVERY = 8
"""Tokens between two looks at whether all rows have ended; a look waits for the device."""


def supported(model: Any) -> bool:
    """Whether this module can run the model: a plain Llama- or Qwen2-shaped one."""
    base = model.get_base_model() if hasattr(model, "get_base_model") else model
    config = base.config
    return (
        type(base).__name__ in ("LlamaForCausalLM", "Qwen2ForCausalLM")
        and config.hidden_act == "silu"
        and not getattr(config, "use_sliding_window", False)
        and not getattr(config, "mlp_bias", False)
        and (config.rope_parameters or {}).get("rope_type", "default") in ("default", "llama3", "linear")
    )


def bucket(rows: int) -> int:
    """The batch size that `rows` rows run at: powers of two, and halves between them from 64 on."""
    size = 8
    while size < rows:
        if size >= 64 and rows <= size * 3 // 2:
            return size * 3 // 2
        size *= 2
    return size


@dataclass
class Layer:
    """Weights of one layer; query, key and value in one matrix, gate and up in another."""

    norm: torch.Tensor
    qkv: torch.Tensor
    qkv_bias: torch.Tensor | None
    out: torch.Tensor
    out_bias: torch.Tensor | None
    mlp_norm: torch.Tensor
    gate_up: torch.Tensor
    down: torch.Tensor


@dataclass
class Slots:
    """Fixed buffers of one batch size, and the recorded step."""

    keys: torch.Tensor
    """[layers, rows, key heads, length, head size]"""
    values: torch.Tensor
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
        base = model.get_base_model() if hasattr(model, "get_base_model") else model
        config = base.config
        self.device, self.dtype = base.lm_head.weight.device, base.model.norm.weight.dtype
        self.heads, self.kv_heads = config.num_attention_heads, config.num_key_value_heads
        self.head_size = getattr(config, "head_dim", None) or config.hidden_size // self.heads
        self.epsilon = config.rms_norm_eps
        rotary = base.model.rotary_emb
        self.frequencies = rotary.inv_freq.to(self.device, torch.float32)
        self.scaling = float(rotary.attention_scaling)
        self.stops = torch.tensor(sorted(set(stop_ids)), device=self.device)
        self.max_new_tokens = max_new_tokens
        self.layers: list[Layer] = []
        self.slots: dict[tuple[int, int], Slots] = {}
        self.refresh(model)

    # Weights

    def refresh(self, model: Any) -> None:
        """Copy the model's present weights, adapters merged, into the same memory as before."""
        with torch.no_grad():
            self._copy(model)

    def _copy(self, model: Any) -> None:
        base = model.get_base_model() if hasattr(model, "get_base_model") else model
        new = [_layer(layer, self.dtype) for layer in base.model.layers]
        ends = {
            "embedding": base.model.embed_tokens.weight.detach().to(self.dtype),
            "norm": base.model.norm.weight.detach().to(self.dtype),
            "head": base.lm_head.weight.detach().to(self.dtype),
        }
        if not self.layers:
            self.layers = new
            self.embedding, self.norm = ends["embedding"].clone(), ends["norm"].clone()
            tied = base.lm_head.weight is base.model.embed_tokens.weight
            self.head = self.embedding if tied else ends["head"].clone()
            return
        # Recorded graphs read these very tensors, so they are filled, never replaced.
        self.embedding.copy_(ends["embedding"])
        self.norm.copy_(ends["norm"])
        self.head.copy_(ends["head"])
        for old, fresh in zip(self.layers, new):
            for name, tensor in vars(fresh).items():
                if tensor is not None:
                    getattr(old, name).copy_(tensor)

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
        unique = sorted({tuple(prompt) for prompt in prompts}, key=len)
        place = {prompt: number for number, prompt in enumerate(unique)}
        which = torch.tensor([place[tuple(prompt)] for prompt in prompts], device=self.device)
        longest = len(unique[-1])
        slots = self._slots(len(prompts), longest + self.max_new_tokens)
        logits = self._prefill(unique, slots, which)

        rows = len(prompts)
        draws = np.stack([generator("sample", seed).random(self.max_new_tokens) for seed in seeds])
        slots.uniforms[:rows] = torch.from_numpy(draws).to(self.device)
        lengths = torch.tensor([len(prompt) for prompt in prompts], device=self.device)
        # Rows beyond the batch run along on one cached token and are never read.
        slots.lengths.fill_(1)
        slots.lengths[:rows] = lengths
        slots.ended.fill_(True)
        slots.ended[:rows] = False
        slots.tokens.zero_()
        slots.number.zero_()
        full = logits.new_zeros((len(slots.tokens), logits.shape[-1]))
        full[:rows] = logits[which]
        self._choose(full, slots, temperature)
        for number in range(1, self.max_new_tokens):
            if number % CHECK_EVERY == 1 and bool(slots.ended.all()):
                break
            self._step(slots, temperature)
        return self._collect(slots, rows)

    def _slots(self, rows: int, length: int) -> Slots:
        """The buffers for a batch; a longer cache than needed does, a shorter one is made anew."""
        size, width = bucket(rows), -(-length // WIDTH_STEP) * WIDTH_STEP
        fitting = [key for key in self.slots if key[0] == size and key[1] >= width]
        if fitting:
            return self.slots[min(fitting)]
        for key in [key for key in self.slots if key[0] == size]:
            del self.slots[key]
        shape = (len(self.layers), size, self.kv_heads, width, self.head_size)
        new = {"device": self.device}
        slots = Slots(
            keys=torch.zeros(shape, dtype=self.dtype, **new),
            values=torch.zeros(shape, dtype=self.dtype, **new),
            tokens=torch.zeros(size, dtype=torch.long, **new),
            lengths=torch.ones(size, dtype=torch.long, **new),
            number=torch.zeros(1, dtype=torch.long, **new),
            uniforms=torch.zeros((size, self.max_new_tokens), dtype=torch.float64, **new),
            out=torch.zeros((size, self.max_new_tokens), dtype=torch.long, **new),
            logs=torch.zeros((size, self.max_new_tokens), dtype=torch.float32, **new),
            ended=torch.ones(size, dtype=torch.bool, **new),
        )
        self.slots[size, width] = slots
        return slots

    def _prefill(self, prompts: Sequence[Sequence[int]], slots: Slots, which: torch.Tensor) -> torch.Tensor:
        """Fill the cache of all rows from their distinct prompts; logits after each of those [prompts, vocabulary]."""
        width = len(prompts[-1])
        ids = np.zeros((len(prompts), width), dtype=np.int64)
        for row, prompt in enumerate(prompts):
            ids[row, : len(prompt)] = prompt
        last = torch.tensor([len(prompt) - 1 for prompt in prompts], device=self.device)
        hidden = self.embedding[torch.from_numpy(ids).to(self.device)]
        cos, sin = self._rotation(torch.arange(width, device=self.device)[None])
        rows = len(which)
        for number, layer in enumerate(self.layers):
            q, k, v = self._project(hidden, layer, cos, sin)
            slots.keys[number, :rows, :, :width] = k[which]
            slots.values[number, :rows, :, :width] = v[which]
            mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
            hidden = self._finish(hidden, mixed.transpose(1, 2).flatten(2), layer)
        picked = hidden[torch.arange(len(prompts), device=self.device), last]
        return self._logits(picked)

    def _step(self, slots: Slots, temperature: float) -> None:
        """One more token for every row, recorded on first use where there is a GPU."""
        if self.device.type != "cuda":
            self._decode(slots, temperature)
            return
        if temperature not in slots.graphs:
            self._record(slots, temperature)
        slots.graphs[temperature].replay()

    def _record(self, slots: Slots, temperature: float) -> None:
        """Record `_decode` for these buffers, leaving their contents as they were."""
        fixed = ("tokens", "lengths", "number", "out", "logs", "ended")
        saved = {name: getattr(slots, name).clone() for name in fixed}
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):  # libraries allocate their workspaces on first use
                self._decode(slots, temperature)
        torch.cuda.current_stream().wait_stream(side)
        for name, tensor in saved.items():
            getattr(slots, name).copy_(tensor)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self._decode(slots, temperature)
        slots.graphs[temperature] = graph
        for name, tensor in saved.items():
            getattr(slots, name).copy_(tensor)

    def _decode(self, slots: Slots, temperature: float) -> None:
        hidden = self.embedding[slots.tokens][:, None]
        position = slots.lengths[:, None]
        cos, sin = self._rotation(position)
        rows, length = slots.keys.shape[1], slots.keys.shape[3]
        seen = torch.arange(length, device=self.device)[None] <= position
        bias = torch.zeros_like(seen, dtype=torch.float32).masked_fill_(~seen, float("-inf"))[:, None, None]
        place = position[:, None, :, None].expand(rows, self.kv_heads, 1, self.head_size)
        groups = self.heads // self.kv_heads
        for number, layer in enumerate(self.layers):
            q, k, v = self._project(hidden, layer, cos, sin)
            keys, values = slots.keys[number], slots.values[number]
            keys.scatter_(2, place, k)
            values.scatter_(2, place, v)
            q = q.reshape(rows, self.kv_heads, groups, self.head_size)
            scores = (q @ keys.transpose(2, 3)).float() * self.head_size**-0.5 + bias
            mixed = scores.softmax(-1).to(self.dtype) @ values
            hidden = self._finish(hidden, mixed.reshape(rows, 1, self.heads * self.head_size), layer)
        slots.lengths += 1
        self._choose(self._logits(hidden[:, 0]), slots, temperature)

    def _choose(self, logits: torch.Tensor, slots: Slots, temperature: float) -> None:
        """Sample the next token of every row into the buffers."""
        uniforms = slots.uniforms.gather(1, slots.number.expand(len(slots.tokens))[:, None])[:, 0]
        tokens, logs = pick(logits, uniforms, temperature)
        column = slots.number.expand(len(tokens))[:, None]
        slots.out.scatter_(1, column, tokens[:, None])
        slots.logs.scatter_(1, column, logs[:, None].float())
        slots.tokens.copy_(tokens)
        slots.ended |= (tokens[:, None] == self.stops).any(-1)
        slots.number += 1

    def _collect(self, slots: Slots, rows: int) -> list[Sampled]:
        count = int(slots.number)
        ids = slots.out[:rows, :count].tolist()
        logs = slots.logs[:rows, :count].tolist()
        stops = set(self.stops.tolist())
        found = []
        for row_ids, row_logs in zip(ids, logs):
            end = next((place for place, token in enumerate(row_ids) if token in stops), None)
            cut = len(row_ids) if end is None else end + 1
            found.append(Sampled(row_ids[:cut], row_logs[:cut], end is not None))
        return found

    # The transformer

    def _rotation(self, positions: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Cosines and sines [.., 1, positions, head size] for positions [.., positions]."""
        angles = positions[..., None].float() * self.frequencies
        angles = torch.cat([angles, angles], dim=-1)[:, None]
        return (angles.cos() * self.scaling).to(self.dtype), (angles.sin() * self.scaling).to(self.dtype)

    def _norm(self, hidden: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        wide = hidden.float()
        scaled = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + self.epsilon)
        return weight * scaled.to(hidden.dtype)

    def _project(
        self, hidden: torch.Tensor, layer: Layer, cos: torch.Tensor, sin: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Queries, keys (both rotated) and values [rows, heads, positions, head size]."""
        mixed = F.linear(self._norm(hidden, layer.norm), layer.qkv, layer.qkv_bias)
        split = mixed.unflatten(-1, (self.heads + 2 * self.kv_heads, self.head_size)).transpose(1, 2)
        q, k, v = split.split([self.heads, self.kv_heads, self.kv_heads], dim=1)
        return q * cos + _half_turn(q) * sin, k * cos + _half_turn(k) * sin, v

    def _finish(self, hidden: torch.Tensor, mixed: torch.Tensor, layer: Layer) -> torch.Tensor:
        hidden = hidden + F.linear(mixed, layer.out, layer.out_bias)
        gate, up = F.linear(self._norm(hidden, layer.mlp_norm), layer.gate_up).chunk(2, dim=-1)
        return hidden + F.linear(F.silu(gate) * up, layer.down)

    def _logits(self, hidden: torch.Tensor) -> torch.Tensor:
        return F.linear(self._norm(hidden, self.norm), self.head)


def _half_turn(x: torch.Tensor) -> torch.Tensor:
    first, second = x.chunk(2, dim=-1)
    return torch.cat([-second, first], dim=-1)


def _weight(linear: Any, dtype: torch.dtype) -> torch.Tensor:
    """The matrix of a linear layer, with its adapters merged in."""
    if not hasattr(linear, "base_layer"):
        weight: torch.Tensor = linear.weight.detach().to(dtype)
        return weight
    weight = linear.base_layer.weight.detach().float()
    for adapter in linear.active_adapters:
        weight = weight + linear.get_delta_weight(adapter).detach().float()
    return weight.to(dtype)


def _bias(linear: Any, dtype: torch.dtype) -> torch.Tensor | None:
    bias = getattr(linear, "base_layer", linear).bias
    return None if bias is None else bias.detach().to(dtype).clone()


def _layer(layer: Any, dtype: torch.dtype) -> Layer:
    attention, mlp = layer.self_attn, layer.mlp
    three = (attention.q_proj, attention.k_proj, attention.v_proj)
    biases = [_bias(linear, dtype) for linear in three]
    return Layer(
        norm=layer.input_layernorm.weight.detach().to(dtype).clone(),
        qkv=torch.cat([_weight(linear, dtype) for linear in three]),
        qkv_bias=torch.cat([bias for bias in biases if bias is not None]) if biases[0] is not None else None,
        out=_weight(attention.o_proj, dtype).clone(),
        out_bias=_bias(attention.o_proj, dtype),
        mlp_norm=layer.post_attention_layernorm.weight.detach().to(dtype).clone(),
        gate_up=torch.cat([_weight(mlp.gate_proj, dtype), _weight(mlp.up_proj, dtype)]),
        down=_weight(mlp.down_proj, dtype).clone(),
    )
