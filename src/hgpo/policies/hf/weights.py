"""A copy of a decoder-only transformer's weights, laid out for sampling: fused matrices, adapters merged.

Recorded CUDA graphs read these very tensors, so `Weights.fill` overwrites them and never replaces them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from ...models.packed import base_model, folded
from ...models.sharded import played_dtype, whole


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


class Weights:
    """The weights of a Llama- or Qwen2-shaped model and the numbers that go with them.

    A model that is spread over processes is put together tensor by tensor, by all of them at the same time.
    """

    def __init__(self, model: Any) -> None:
        base = base_model(model)
        config = base.config
        self.device, self.dtype = base.lm_head.weight.device, played_dtype(base)
        self.heads, self.kv_heads = config.num_attention_heads, config.num_key_value_heads
        self.head_size = getattr(config, "head_dim", None) or config.hidden_size // self.heads
        self.epsilon = config.rms_norm_eps
        rotary = base.model.rotary_emb
        self.frequencies = rotary.inv_freq.to(self.device, torch.float32)
        self.scaling = float(rotary.attention_scaling)
        with torch.no_grad():
            self.layers = [_layer(layer, self.dtype) for layer in base.model.layers]
            self.embedding = _own(base.model.embed_tokens.weight, self.dtype)
            self.norm = _own(base.model.norm.weight, self.dtype)
            tied = base.lm_head.weight is base.model.embed_tokens.weight
            self.head = self.embedding if tied else _own(base.lm_head.weight, self.dtype)

    def fill(self, model: Any) -> None:
        """Take over the model's present weights, in the same memory as before."""
        base = base_model(model)
        with torch.no_grad():
            self.embedding.copy_(whole(base.model.embed_tokens.weight.detach(), self.dtype))
            self.norm.copy_(whole(base.model.norm.weight.detach(), self.dtype))
            if self.head is not self.embedding:
                self.head.copy_(whole(base.lm_head.weight.detach(), self.dtype))
            for old, layer in zip(self.layers, base.model.layers):
                for name, tensor in vars(_layer(layer, self.dtype)).items():
                    if tensor is not None:
                        getattr(old, name).copy_(tensor)


def _own(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return whole(tensor.detach(), dtype).clone()


def _bias(linear: Any, dtype: torch.dtype) -> torch.Tensor | None:
    bias = getattr(linear, "base_layer", linear).bias
    return None if bias is None else _own(bias, dtype)


def _layer(layer: Any, dtype: torch.dtype) -> Layer:
    attention, mlp = layer.self_attn, layer.mlp
    three = (attention.q_proj, attention.k_proj, attention.v_proj)
    biases = [_bias(linear, dtype) for linear in three]
    return Layer(
        norm=_own(layer.input_layernorm.weight, dtype),
        qkv=torch.cat([folded(linear, dtype) for linear in three]),
        qkv_bias=torch.cat([bias for bias in biases if bias is not None]) if biases[0] is not None else None,
        out=folded(attention.o_proj, dtype).clone(),
        out_bias=_bias(attention.o_proj, dtype),
        mlp_norm=_own(layer.post_attention_layernorm.weight, dtype),
        gate_up=torch.cat([folded(mlp.gate_proj, dtype), folded(mlp.up_proj, dtype)]),
        down=folded(mlp.down_proj, dtype).clone(),
    )
