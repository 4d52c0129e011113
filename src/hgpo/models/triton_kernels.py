"""The few operations of a transformer for which one kernel of our own beats several of torch; needs Triton and a GPU.

`fused.py` says what each computes, in torch. All arithmetic is float32, whatever the tensors hold, and every sum has
a fixed order.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

# Triton's functions have no types; the wrappers below do.
# mypy: disable-error-code="untyped-decorator,no-untyped-def,no-untyped-call,valid-type"


@triton.jit
def _gate_kernel(gate, up, out, count, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    g = tl.load(gate + at, mask=inside, other=0.0).to(tl.float32)
    u = tl.load(up + at, mask=inside, other=0.0).to(tl.float32)
    tl.store(out + at, g * tl.sigmoid(g) * u, mask=inside)


@triton.jit
def _gate_back_kernel(gate, up, grad, out, gate_grad, up_grad, count, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    g = tl.load(gate + at, mask=inside, other=0.0).to(tl.float32)
    u = tl.load(up + at, mask=inside, other=0.0).to(tl.float32)
    d = tl.load(grad + at, mask=inside, other=0.0).to(tl.float32)
    s = tl.sigmoid(g)
    tl.store(out + at, g * s * u, mask=inside)
    tl.store(gate_grad + at, d * u * s * (1.0 + g * (1.0 - s)), mask=inside)
    tl.store(up_grad + at, d * g * s, mask=inside)


@triton.jit
def _rotate_kernel(
    x, out, cos, sin, positions, stride, sign, HEADS: tl.constexpr, HALF: tl.constexpr, BLOCK: tl.constexpr
):
    token = tl.program_id(0).to(tl.int64)
    cell = tl.arange(0, BLOCK)
    inside = cell < HEADS * HALF
    head, place = cell // HALF, cell % HALF
    where = tl.load(positions + token) * HALF + place
    c = tl.load(cos + where, mask=inside, other=0.0).to(tl.float32)
    s = tl.load(sin + where, mask=inside, other=0.0).to(tl.float32) * sign
    first = x + token * stride + head * 2 * HALF + place
    a = tl.load(first, mask=inside, other=0.0).to(tl.float32)
    b = tl.load(first + HALF, mask=inside, other=0.0).to(tl.float32)
    target = out + (token * HEADS + head) * 2 * HALF + place
    tl.store(target, a * c - b * s, mask=inside)
    tl.store(target + HALF, b * c + a * s, mask=inside)


@triton.jit
def _gather_sum_kernel(
    given, out, owners, uses, positions, key_starts, WIDTH: tl.constexpr, BLOCK: tl.constexpr
):
    token = tl.program_id(0).to(tl.int64)
    cell = tl.arange(0, BLOCK)
    inside = cell < WIDTH
    owner, place = tl.load(owners + token), tl.load(positions + token)
    total = tl.zeros([BLOCK], dtype=tl.float32)
    for number in range(tl.load(uses + token)):
        row = tl.load(key_starts + owner + number).to(tl.int64) + place
        total += tl.load(given + row * WIDTH + cell, mask=inside, other=0.0).to(tl.float32)
    tl.store(out + token * WIDTH + cell, total, mask=inside)


def gate(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    """silu(gate) * up; both contiguous."""
    out = torch.empty_like(gate)
    _gate_kernel[(triton.cdiv(gate.numel(), 1024),)](gate, up, out, gate.numel(), BLOCK=1024)
    return out


def gate_back(
    gate: torch.Tensor, up: torch.Tensor, grad: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """silu(gate) * up again, and its gradients for `gate` and `up`."""
    out, gate_grad, up_grad = (torch.empty_like(gate) for _ in range(3))
    blocks = (triton.cdiv(gate.numel(), 1024),)
    _gate_back_kernel[blocks](gate, up, grad, out, gate_grad, up_grad, gate.numel(), BLOCK=1024)
    return out, gate_grad, up_grad


def rotate(
    x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, positions: torch.Tensor, sign: float
) -> torch.Tensor:
    """x [tokens, heads, head size], each head contiguous, turned by the angles of the tokens' positions."""
    tokens, heads, size = x.shape
    out = torch.empty((tokens, heads, size), dtype=x.dtype, device=x.device)
    block = triton.next_power_of_2(heads * size // 2)
    _rotate_kernel[(tokens,)](
        x, out, cos, sin, positions, x.stride(0), sign, HEADS=heads, HALF=size // 2, BLOCK=block
    )
    return out


def gather_sum(
    given: torch.Tensor,
    owners: torch.Tensor,
    uses: torch.Tensor,
    positions: torch.Tensor,
    key_starts: torch.Tensor,
) -> torch.Tensor:
    """For every token the sum of `given` [keys, ..] over its `uses` keys; see `hgpo.models.packing`."""
    out = torch.empty((len(owners), *given.shape[1:]), dtype=given.dtype, device=given.device)
    width = given[0].numel()
    block = triton.next_power_of_2(width)
    _gather_sum_kernel[(len(owners),)](
        given, out, owners, uses, positions, key_starts, WIDTH=width, BLOCK=block
    )
    return out


def check() -> None:
    """Run one kernel; raises whatever keeps Triton from working here."""
    one: Any = torch.ones(8, device="cuda")
    gate(one, one)
    torch.cuda.synchronize()
