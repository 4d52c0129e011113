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


@triton.jit
def _store_kernel(
    mixed, q_out, cache, cos, sin, slots, lengths, width,
    HEADS: tl.constexpr, KV: tl.constexpr, HALF: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    slot = tl.load(slots + row).to(tl.int64)
    length = tl.load(lengths + slot).to(tl.int64)
    cell = tl.arange(0, BLOCK)
    inside = cell < (HEADS + 2 * KV) * HALF
    head, place = cell // HALF, cell % HALF
    turns = inside & (head < HEADS + KV)
    c = tl.load(cos + length * HALF + place, mask=turns, other=1.0).to(tl.float32)
    s = tl.load(sin + length * HALF + place, mask=turns, other=0.0).to(tl.float32)
    first = mixed + row * (HEADS + 2 * KV) * 2 * HALF + head * 2 * HALF + place
    a = tl.load(first, mask=inside, other=0.0).to(tl.float32)
    b = tl.load(first + HALF, mask=inside, other=0.0).to(tl.float32)
    low, high = a * c - b * s, b * c + a * s
    asks = inside & (head < HEADS)
    query = q_out + (row * HEADS + head) * 2 * HALF + place
    tl.store(query, low, mask=asks)
    tl.store(query + HALF, high, mask=asks)
    kept = inside & (head >= HEADS)
    target = cache + ((slot * width + length) * 2 * KV + head - HEADS) * 2 * HALF + place
    tl.store(target, low, mask=kept)
    tl.store(target + HALF, high, mask=kept)


@triton.jit
def _decode_kernel(
    q, cache, out, marks, slots, lengths, width, scale, chunk,
    HEADS: tl.constexpr, KV: tl.constexpr, SIZE: tl.constexpr, GROUP: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    # One part of one row's tokens, for the queries that share a key head; `out` is [rows, parts, heads, size].
    row, head, part = tl.program_id(0).to(tl.int64), tl.program_id(1), tl.program_id(2)
    slot = tl.load(slots + row).to(tl.int64)
    length = tl.load(lengths + slot) + 1
    member, place, step = tl.arange(0, GROUP), tl.arange(0, SIZE), tl.arange(0, BLOCK)
    real = member < HEADS // KV
    asking = head * (HEADS // KV) + member
    query = tl.load(q + (row * HEADS + asking)[:, None] * SIZE + place[None], mask=real[:, None], other=0.0)
    top = tl.full([GROUP], -1e30, dtype=tl.float32)
    total = tl.zeros([GROUP], dtype=tl.float32)
    seen = tl.zeros([GROUP, SIZE], dtype=tl.float32)
    keys = cache + (slot * width * 2 * KV + head) * SIZE
    for begin in range(part * chunk, tl.minimum(length, (part + 1) * chunk), BLOCK):
        at = begin + step
        inside = at < length
        where = at[:, None] * (2 * KV * SIZE) + place[None]
        k = tl.load(keys + where, mask=inside[:, None], other=0.0)
        scores = tl.dot(query, tl.trans(k), input_precision="ieee").to(tl.float32) * scale
        scores = tl.where(inside[None], scores, -1e30)
        best = tl.maximum(top, tl.max(scores, 1))
        weights = tl.exp(scores - best[:, None])
        shrink = tl.exp(top - best)
        total = total * shrink + tl.sum(weights, 1)
        v = tl.load(keys + KV * SIZE + where, mask=inside[:, None], other=0.0)
        seen = seen * shrink[:, None] + tl.dot(weights.to(v.dtype), v, input_precision="ieee").to(tl.float32)
        top = best
    to = (row * tl.num_programs(2) + part) * HEADS + asking
    tl.store(
        out + to[:, None] * SIZE + place[None], seen / tl.maximum(total, 1e-30)[:, None], mask=real[:, None]
    )
    tl.store(marks + to, top + tl.log(tl.maximum(total, 1e-30)), mask=real)


@triton.jit
def _join_kernel(parts, marks, out, PARTS: tl.constexpr, HEADS: tl.constexpr, SIZE: tl.constexpr):
    row, head, place = tl.program_id(0).to(tl.int64), tl.program_id(1), tl.arange(0, SIZE)
    top = -1e30
    for part in tl.static_range(PARTS):
        top = tl.maximum(top, tl.load(marks + (row * PARTS + part) * HEADS + head))
    total = 0.0
    seen = tl.zeros([SIZE], dtype=tl.float32)
    for part in tl.static_range(PARTS):
        at = (row * PARTS + part) * HEADS + head
        weight = tl.exp(tl.load(marks + at) - top)
        seen += weight * tl.load(parts + at * SIZE + place)
        total += weight
    tl.store(out + (row * HEADS + head) * SIZE + place, seen / total)


def store(
    mixed: torch.Tensor,
    cache: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    slots: torch.Tensor,
    lengths: torch.Tensor,
    heads: int,
) -> torch.Tensor:
    """Turn the new queries and keys in `mixed` [rows, heads + key + value heads, size]; keys, values into the cache.

    `cache` is [slots, width, key + value heads, size]; row r belongs to slot `slots[r]`, which holds `lengths[slot]`
    tokens so far. Returns the queries [rows, heads, size].
    """
    rows, all_heads, size = mixed.shape
    q = torch.empty((rows, heads, size), dtype=mixed.dtype, device=mixed.device)
    block = triton.next_power_of_2(all_heads * size // 2)
    _store_kernel[(rows,)](
        mixed, q, cache, cos, sin, slots, lengths, cache.shape[1],
        HEADS=heads, KV=cache.shape[2] // 2, HALF=size // 2, BLOCK=block,
    )  # fmt: skip
    return q


def decodes(q: torch.Tensor) -> bool:
    """Whether `decode` takes queries of this head size: a power of two that fills the units for matrix products."""
    return q.shape[-1] in (16, 32, 64, 128, 256)


def decode(q: torch.Tensor, cache: torch.Tensor, slots: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    """What each query [rows, heads, size] sees of its slot's `lengths[slot] + 1` cached tokens; others are not read.

    Few rows would leave most of a GPU idle: their tokens are read in several parts at once, and then joined.
    """
    rows, heads, size = q.shape
    width, kv = cache.shape[1], cache.shape[2] // 2
    parts = min(8, triton.cdiv(width, 256)) if rows * kv <= 128 else 1
    out = torch.empty_like(q)
    halves = (
        out if parts == 1 else torch.empty((rows, parts, heads, size), dtype=torch.float32, device=q.device)
    )
    marks = torch.empty((rows, parts, heads), dtype=torch.float32, device=q.device)
    group = max(16, triton.next_power_of_2(heads // kv))
    chunk = triton.cdiv(triton.cdiv(width, parts), 64) * 64
    _decode_kernel[(rows, kv, parts)](
        q, cache, halves, marks, slots, lengths, width, size**-0.5, chunk,
        HEADS=heads, KV=kv, SIZE=size, GROUP=group, BLOCK=64, num_warps=4,
    )  # fmt: skip
    if parts > 1:
        _join_kernel[(rows, heads)](halves, marks, out, PARTS=parts, HEADS=heads, SIZE=size)
    return out


@triton.jit
def _gated_kernel(both, out, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    row, at = tl.program_id(0).to(tl.int64), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = at < WIDTH
    g = tl.load(both + row * 2 * WIDTH + at, mask=inside, other=0.0).to(tl.float32)
    u = tl.load(both + row * 2 * WIDTH + WIDTH + at, mask=inside, other=0.0).to(tl.float32)
    tl.store(out + row * WIDTH + at, g * tl.sigmoid(g) * u, mask=inside)


def gated(both: torch.Tensor) -> torch.Tensor:
    """silu(gate) * up of [tokens, gate and up side by side], contiguous."""
    tokens, width = both.shape[0], both.shape[1] // 2
    out = torch.empty((tokens, width), dtype=both.dtype, device=both.device)
    block = min(1024, triton.next_power_of_2(width))
    _gated_kernel[(tokens, triton.cdiv(width, block))](both, out, WIDTH=width, BLOCK=block)
    return out
