"""A decoder-only transformer over packed rows, for training: the modules' own weights, fewer passes over memory.

`supported` says for which models. The same numbers as transformers' own pass up to rounding: what differs is that rows
are not padded (`packing.py`), that equal beginnings are computed once, that element-wise chains are one kernel each
(`fused.py`), and that adapters are folded into the weights they change.

**Adapters.** A layer W with an adapter computes x (W + s B A)'. The sum is rounded to the model's type once per
optimiser step, which is exactly what the sampler plays with, so that trainer and sampler hold the same policy; no
product with B or A is made for any token in the forward pass. The backward pass takes the rounding for none:

    dA = s (dy B)' x        dB = s dy' (x A')        dx = dy (W + s B A)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

from . import fused
from .attention import Layout, attend
from .packing import rounded
from .sharded import is_sharded, plain_class, played_dtype, whole

LOGITS = 2**26
"""At most so many logits stand in memory at once."""


def base_model(model: Any) -> Any:
    """The transformers model inside its adapters, if it has any."""
    return model.get_base_model() if hasattr(model, "get_base_model") else model


def supported(model: Any) -> bool:
    """Whether this package can run the model from its weights: a plain Llama- or Qwen2-shaped one."""
    base = base_model(model)
    config = base.config
    return (
        plain_class(base).__name__ in ("LlamaForCausalLM", "Qwen2ForCausalLM")
        and config.hidden_act == "silu"
        and not getattr(config, "use_sliding_window", False)
        and not getattr(config, "mlp_bias", False)
        and (config.rope_parameters or {}).get("rope_type", "default") in ("default", "llama3", "linear")
    )


def adapter(linear: Any) -> tuple[torch.Tensor, torch.Tensor, float] | None:
    """(A, B, scale) of a linear layer with an adapter, None without one."""
    if not hasattr(linear, "base_layer"):
        return None
    (name,) = linear.active_adapters
    return linear.lora_A[name].weight, linear.lora_B[name].weight, float(linear.scaling[name])


def folded(linear: Any, dtype: torch.dtype) -> torch.Tensor:
    """The matrix of a linear layer, its adapter folded in: W + s B A, summed in float32 and rounded once."""
    found = adapter(linear)
    if found is None:
        return whole(linear.weight.detach(), dtype)
    a, b, scale = (whole(one.detach()).float() if isinstance(one, torch.Tensor) else one for one in found)
    total = torch.addmm(whole(linear.base_layer.weight.detach()).float(), b, a, alpha=scale)
    return total.to(dtype)


class PackedModel:
    """Hidden states and log-probabilities of packed rows under a model of transformers, perhaps with adapters.

    Args:
        model: a model that is `supported`; its weights are read where they are.
        checkpointing: recompute each layer in the backward pass.
    """

    def __init__(self, model: Any, *, checkpointing: bool = False) -> None:
        self.model, self.base, self.checkpointing = model, base_model(model), checkpointing
        config = self.base.config
        self.heads, self.key_heads = config.num_attention_heads, config.num_key_value_heads
        self.head_size = getattr(config, "head_dim", None) or config.hidden_size // self.heads
        self.epsilon = config.rms_norm_eps
        self.dtype = self.base.model.norm.weight.dtype
        self.rotation: tuple[torch.Tensor, torch.Tensor] | None = None
        self.folded: dict[int, torch.Tensor] = {}
        """Weights with adapters folded in, by the layer's identity."""
        self.refresh()

    def refresh(self) -> None:
        """Fold the adapters in again, after they were changed."""
        with torch.no_grad():
            for layer in self.base.model.layers:
                for linear in _linears(layer):
                    if adapter(linear) is not None:
                        new = folded(linear, self.dtype)
                        old = self.folded.setdefault(id(linear), new)
                        if old is not new:
                            old.copy_(new)

    def hidden(self, layout: Layout, *, adapters: bool = True) -> torch.Tensor:
        """[tokens, hidden size] after the last norm; without `adapters`, of the model before it had any."""
        rotation = self._angles(layout)
        hidden = F.embedding(layout.tokens, self.base.model.embed_tokens.weight)
        for layer in self.base.model.layers:
            if self.checkpointing and torch.is_grad_enabled():
                hidden = checkpoint(
                    self._layer, layer, hidden, layout, rotation, adapters, use_reentrant=False
                )
            else:
                hidden = self._layer(layer, hidden, layout, rotation, adapters)
        return self._norm(hidden, self.base.model.norm)

    def scores(
        self,
        layout: Layout,
        sources: torch.Tensor,
        ids: torch.Tensor,
        temperature: float,
        *,
        adapters: bool = True,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Log-probability of `ids` [n] after the tokens at places `sources` [n], and the entropy there; both [n].

        Logits exist for these places only, and never for many at once.
        """
        hidden = self.hidden(layout, adapters=adapters)
        scale = temperature if temperature > 0 else 1.0
        count = len(ids)
        if hidden.is_cuda:
            missing = rounded(count) - count
            sources, ids = F.pad(sources, (0, missing)), F.pad(ids, (0, missing))
        picked = hidden.index_select(0, sources)
        chosen, entropy = _Scores.apply(picked, self.base.lm_head.weight, ids, scale)
        return chosen[:count], entropy[:count]

    def _layer(
        self,
        layer: Any,
        hidden: torch.Tensor,
        layout: Layout,
        rotation: tuple[torch.Tensor, torch.Tensor],
        adapters: bool,
    ) -> torch.Tensor:
        attention, mlp = layer.self_attn, layer.mlp
        normed = self._norm(hidden, layer.input_layernorm)
        three = (attention.q_proj, attention.k_proj, attention.v_proj)
        q, k, v = (
            one.view(len(hidden), -1, self.head_size) for one in self._linears(three, normed, adapters)
        )
        q, k = (fused.rotate(one, *rotation, layout.positions) for one in (q, k))
        seen = attend(q, k, v, layout).reshape(len(hidden), -1)
        hidden = hidden + self._linears((attention.o_proj,), seen, adapters)[0]
        normed = self._norm(hidden, layer.post_attention_layernorm)
        gate, up = self._linears((mlp.gate_proj, mlp.up_proj), normed, adapters)
        return hidden + self._gated(mlp.down_proj, gate, up, adapters)

    def _norm(self, hidden: torch.Tensor, norm: Any) -> torch.Tensor:
        return F.rms_norm(hidden, (hidden.shape[-1],), norm.weight, self.epsilon)

    def _linears(self, linears: Sequence[Any], x: torch.Tensor, adapters: bool) -> tuple[torch.Tensor, ...]:
        parts = [self._weights(linear, adapters) for linear in linears]
        scales = tuple(part[-1] for part in parts)
        given = (one for part in parts for one in part[:-1])
        out: tuple[torch.Tensor, ...] = _Linears.apply(x, scales, *given)
        return out

    def _gated(self, linear: Any, gate: torch.Tensor, up: torch.Tensor, adapters: bool) -> torch.Tensor:
        weight, _, a, b, scale = self._weights(linear, adapters)
        out: torch.Tensor = _Gated.apply(gate, up, weight, a, b, scale)
        return out

    def _weights(
        self, linear: Any, adapters: bool
    ) -> tuple[torch.Tensor, torch.Tensor | None, torch.Tensor | None, torch.Tensor | None, float]:
        """Matrix, bias, A, B and scale."""
        found = adapter(linear)
        if found is None:
            return linear.weight, linear.bias, None, None, 0.0
        base = linear.base_layer
        if not adapters:
            return base.weight, base.bias, None, None, 0.0
        return self.folded[id(linear)], base.bias, *found

    def _angles(self, layout: Layout) -> tuple[torch.Tensor, torch.Tensor]:
        """Cosines and sines [positions, head size / 2], rounded to the model's type as transformers rounds them."""
        longest = -(-layout.longest_keys // 1024) * 1024
        if self.rotation is None or len(self.rotation[0]) < longest:
            rotary = self.base.model.rotary_emb
            places = torch.arange(longest, device=layout.tokens.device, dtype=torch.float32)
            angles = places[:, None] * rotary.inv_freq.to(places)
            scaling = float(rotary.attention_scaling)
            self.rotation = (
                (angles.cos() * scaling).to(self.dtype),
                (angles.sin() * scaling).to(self.dtype),
            )
        return self.rotation


def _linears(layer: Any) -> list[Any]:
    attention, mlp = layer.self_attn, layer.mlp
    return [
        attention.q_proj,
        attention.k_proj,
        attention.v_proj,
        attention.o_proj,
        mlp.gate_proj,
        mlp.up_proj,
        mlp.down_proj,
    ]


def _adapter_grads(
    grad: torch.Tensor, x: torch.Tensor, a: torch.Tensor, b: torch.Tensor, scale: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """dA [rank, in] and dB [out, rank], in the type of the adapters."""
    small_a, small_b = a.to(x.dtype), b.to(x.dtype)
    back = (grad @ small_b).T @ x
    ahead = grad.T @ (x @ small_a.T)
    return back.to(a.dtype) * scale, ahead.to(b.dtype) * scale


class _Linears(torch.autograd.Function):  # type: ignore[misc]
    """Several x W' + bias of one x, each W perhaps with an adapter s B A folded in; gradients of x add up in place.

    After x and the scales come weight, bias, A and B of each.
    """

    @staticmethod
    def forward(
        ctx: Any, x: torch.Tensor, scales: tuple[float, ...], *given: torch.Tensor | None
    ) -> tuple[torch.Tensor, ...]:
        ctx.save_for_backward(x, *given)
        ctx.scales = scales
        return tuple(F.linear(x, weight, bias) for weight, bias in zip(given[::4], given[1::4]))

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        x, *given = ctx.saved_tensors
        back: torch.Tensor | None = None
        found: list[torch.Tensor | None] = []
        for number, (grad, scale) in enumerate(zip(grads, ctx.scales)):
            weight, _, a, b = given[4 * number : 4 * number + 4]
            wants_weight, wants_bias = ctx.needs_input_grad[2 + 4 * number : 4 + 4 * number]
            if ctx.needs_input_grad[0]:
                back = grad @ weight if back is None else back.addmm_(grad, weight)
            found += [grad.T @ x if wants_weight else None, grad.sum(0) if wants_bias else None]
            found += _adapter_grads(grad, x, a, b, scale) if a is not None else (None, None)
        return back, None, *found


class _Gated(torch.autograd.Function):  # type: ignore[misc]
    """(silu(gate) * up) W', W perhaps with an adapter folded in; the product in brackets is not kept."""

    @staticmethod
    def forward(
        ctx: Any,
        gate: torch.Tensor,
        up: torch.Tensor,
        weight: torch.Tensor,
        a: torch.Tensor | None,
        b: torch.Tensor | None,
        scale: float,
    ) -> torch.Tensor:
        ctx.save_for_backward(gate, up, weight, a, b)
        ctx.scale = scale
        return F.linear(fused.gate(gate, up), weight)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        gate, up, weight, a, b = ctx.saved_tensors
        grad = grads[0]
        x, gate_grad, up_grad = fused.gate_back(gate, up, grad @ weight)
        if a is not None:
            return gate_grad, up_grad, None, *_adapter_grads(grad, x, a, b, ctx.scale), None
        return gate_grad, up_grad, grad.T @ x if ctx.needs_input_grad[2] else None, None, None, None


class _Scores(torch.autograd.Function):  # type: ignore[misc]
    """Log-probabilities of ids and entropies, from hidden states; logits are made in parts, twice.

    With z = h W' / scale and p = softmax(z):  log-probability z[id] - log sum exp(z), entropy H = -sum p log p;
    d log-probability / dz = onehot(id) - p,  dH / dz = -p (log p + H).
    """

    @staticmethod
    def forward(
        ctx: Any, hidden: torch.Tensor, weight: torch.Tensor, ids: torch.Tensor, scale: float
    ) -> tuple[torch.Tensor, torch.Tensor]:
        chosen, entropy = (torch.empty(len(ids), dtype=torch.float32, device=ids.device) for _ in range(2))
        for part in _parts(len(ids), len(weight)):
            logs = torch.log_softmax((hidden[part] @ weight.T).float() / scale, dim=-1)
            chosen[part] = logs.gather(-1, ids[part, None]).squeeze(-1)
            entropy[part] = -(logs.exp() * logs).sum(-1)
        ctx.save_for_backward(hidden, weight, ids, entropy)
        ctx.scale = scale
        ctx.set_materialize_grads(False)
        return chosen, entropy

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor | None) -> Any:
        hidden, weight, ids, entropy = ctx.saved_tensors
        of_chosen = grads[0] if grads[0] is not None else torch.zeros_like(entropy)
        of_entropy = grads[1]
        back = torch.empty_like(hidden)
        total = None
        for part in _parts(len(ids), len(weight)):
            logs = torch.log_softmax((hidden[part] @ weight.T).float() / ctx.scale, dim=-1)
            factor = -of_chosen[part, None]
            if of_entropy is not None:
                factor = factor - of_entropy[part, None] * (logs + entropy[part, None])
            grad = logs.exp_().mul_(factor)
            rows = torch.arange(len(grad), device=grad.device)
            grad[rows, ids[part]] += of_chosen[part]
            small = grad.div_(ctx.scale).to(hidden.dtype)
            torch.mm(small, weight, out=back[part])
            if ctx.needs_input_grad[1]:
                total = small.T @ hidden[part] if total is None else total.addmm_(small.T, hidden[part])
        return back, total, None, None


def _parts(count: int, width: int) -> list[slice]:
    size = max(1, LOGITS // width)
    return [slice(at, min(at + size, count)) for at in range(0, count, size)]


def played_weights(model: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """Every weight of the transformers model by its name there, adapters folded in: what a sampler plays with.

    Of a model that is spread over processes each weight is put together when its turn comes, at all of them.
    """
    base = base_model(model)
    dtype = played_dtype(base) if is_sharded(base) else None
    for name, module in base.named_modules():
        if hasattr(module, "base_layer"):
            linear = module.base_layer
            yield f"{name}.weight", folded(module, dtype or linear.weight.dtype)
            if linear.bias is not None:
                yield f"{name}.bias", whole(linear.bias.detach(), dtype)
    for name, parameter in base.named_parameters():
        if ".base_layer." not in name and ".lora_" not in name:
            yield name, whole(parameter.detach(), dtype)
