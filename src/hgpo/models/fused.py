"""Operations of a transformer in few passes over memory: torch anywhere, one kernel each where Triton works.

Each is a function with gradients; what stands here in torch is also what the kernels compute.
"""

from __future__ import annotations

import functools
import warnings
from typing import Any

import torch
import torch.nn.functional as F


@functools.cache
def _kernels() -> Any:
    """The module of Triton kernels, or None where they cannot run."""
    try:
        from . import triton_kernels

        triton_kernels.check()
    except Exception as error:
        if torch.cuda.is_available():
            reason = (str(error).splitlines() or [""])[0]
            warnings.warn(
                f"Triton does not work here ({type(error).__name__}: {reason}); torch's own kernels are used, which "
                "are slower.",
                RuntimeWarning,
                stacklevel=2,
            )
        return None
    return triton_kernels


def kernels(tensor: torch.Tensor) -> Any:
    """The kernels that take `tensor`, or None."""
    return _kernels() if tensor.is_cuda else None


def gate(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    """silu(gate) * up, without gradients."""
    fast = kernels(gate)
    if fast is not None and gate.is_contiguous() and up.is_contiguous():
        out: torch.Tensor = fast.gate(gate, up)
        return out
    return F.silu(gate) * up


def gate_back(
    gate: torch.Tensor, up: torch.Tensor, grad: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """silu(gate) * up again, and its gradients: silu'(g) = s (1 + g (1 - s)), s = sigmoid(g)."""
    fast = kernels(gate)
    if fast is not None and gate.is_contiguous() and up.is_contiguous():
        found: tuple[torch.Tensor, torch.Tensor, torch.Tensor] = fast.gate_back(gate, up, grad.contiguous())
        return found
    s = torch.sigmoid(gate)
    silu = gate * s
    return silu * up, grad * up * s * (1 + gate * (1 - s)), grad * silu


class _Rotation(torch.autograd.Function):  # type: ignore[misc]
    @staticmethod
    def forward(
        ctx: Any, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, positions: torch.Tensor
    ) -> torch.Tensor:
        ctx.save_for_backward(cos, sin, positions)
        return turn(x, cos, sin, positions, 1.0)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        cos, sin, positions = ctx.saved_tensors
        return turn(grads[0], cos, sin, positions, -1.0), None, None, None


def rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
    """The rotary embedding of queries or keys [tokens, heads, head size].

    cos, sin: [positions, head size / 2]. Halves (a, b) of a head become (a cos - b sin, b cos + a sin).
    """
    out: torch.Tensor = _Rotation.apply(x, cos, sin, positions)
    return out


def turn(
    x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, positions: torch.Tensor, sign: float
) -> torch.Tensor:
    """`rotate` without gradients, by the opposite angle where `sign` is -1."""
    fast = kernels(x)
    if fast is not None:
        x = x if x.stride()[1:] == (x.shape[2], 1) else x.contiguous()
        out: torch.Tensor = fast.rotate(x, cos, sin, positions, sign)
        return out
    c, s = cos[positions][:, None], sin[positions][:, None] * sign
    a, b = x.chunk(2, dim=-1)
    return torch.cat([a * c - b * s, b * c + a * s], dim=-1)


def gather_sum(
    given: torch.Tensor,
    keys: torch.Tensor,
    owners: torch.Tensor,
    uses: torch.Tensor,
    positions: torch.Tensor,
    key_starts: torch.Tensor,
) -> torch.Tensor:
    """The gradient of `x[keys]`: for every token the sum of `given` [keys, heads, head size] over its keys.

    Which keys these are also follows from `owners`, `uses` and `key_starts`; see `hgpo.models.packing`.
    """
    fast = kernels(given)
    if fast is not None:
        out: torch.Tensor = fast.gather_sum(given.contiguous(), owners, uses, positions, key_starts)
        return out
    wide = torch.zeros((len(owners), *given.shape[1:]), dtype=torch.float32, device=given.device)
    return wide.index_add_(0, keys, given.float()).to(given.dtype)


def store(
    mixed: torch.Tensor,
    cache: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    slots: torch.Tensor,
    lengths: torch.Tensor,
    heads: int,
) -> torch.Tensor:
    """One more token of every row: its queries, turned; its keys (turned) and values go into the cache.

    Args:
        mixed: [rows, heads + key heads + value heads, head size], contiguous.
        cache: [slots, width, key heads + value heads, head size].
        cos: [positions, head size / 2]; so is sin.
        sin: see cos.
        slots: [rows] the slot of each row.
        lengths: [slots] tokens that each slot holds so far.
        heads: how many heads ask.
    """
    fast = kernels(mixed)
    if fast is not None:
        q: torch.Tensor = fast.store(mixed, cache, cos, sin, slots, lengths, heads)
        return q
    places, keys = lengths[slots], cache.shape[2] // 2
    turned = turn(mixed[:, : heads + keys], cos, sin, places, 1.0)
    cache[slots, places, :keys] = turned[:, heads:]
    cache[slots, places, keys:] = mixed[:, heads + keys :]
    return turned[:, :heads]


def decode(q: torch.Tensor, cache: torch.Tensor, slots: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    """What the queries [rows, heads, head size] see of the `lengths[slot] + 1` tokens that their slots hold."""
    fast = kernels(q)
    if fast is not None and fast.decodes(q):
        out: torch.Tensor = fast.decode(q, cache, slots, lengths)
        return out
    rows, heads, size = q.shape
    keys = cache.shape[2] // 2
    held = cache[slots].transpose(1, 2)
    hidden = torch.arange(cache.shape[1], device=q.device)[None] > lengths[slots][:, None]
    bias = torch.zeros(hidden.shape, dtype=q.dtype, device=q.device).masked_fill_(hidden, float("-inf"))
    # The queries that share a key head stand side by side like positions, so no key is repeated.
    asked = q.view(rows, keys, heads // keys, size)
    bias = bias[:, None, None].expand(rows, keys, heads // keys, -1)
    seen = F.scaled_dot_product_attention(asked, held[:, :keys], held[:, keys:], attn_mask=bias)
    return seen.reshape(rows, heads, size)


def gated(both: torch.Tensor) -> torch.Tensor:
    """silu(gate) * up of [tokens, gate and up side by side], without gradients."""
    fast = kernels(both)
    if fast is not None:
        out: torch.Tensor = fast.gated(both)
        return out
    gate, up = both.chunk(2, dim=-1)
    return F.silu(gate).mul_(up)
