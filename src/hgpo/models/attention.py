"""Causal attention over packed rows: every segment's queries against the keys of its whole path."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from . import fused
from .packing import Packing, filled, rounded


@dataclass(frozen=True)
class Layout:
    """A `Packing` on the device, as the kernels want it."""

    tokens: torch.Tensor
    """[tokens] ids."""
    positions: torch.Tensor
    """[tokens] place of each in its row."""
    starts: torch.Tensor
    """[segments + 1] int32, where the queries of each segment begin."""
    key_starts: torch.Tensor
    """[segments + 1] int32, where its keys begin."""
    longest: int
    """Most queries of a segment."""
    longest_keys: int
    """Most keys of a segment."""
    keys: torch.Tensor | None
    """[keys] the token of each key; None where no rows begin alike: the keys are the tokens."""
    owners: torch.Tensor
    """[tokens] int32, the segment that stores each token."""
    uses: torch.Tensor
    """[tokens] int32, how many segments attend to it."""

    @classmethod
    def of(cls, packing: Packing, device: Any) -> Layout:
        """The layout of a packing on a device; on a GPU filled up to a number of tokens that recurs."""
        if torch.device(device).type == "cuda":
            packing = filled(packing, rounded(len(packing.tokens)))

        def put(array: np.ndarray[Any, Any], dtype: type[np.generic] = np.int64) -> torch.Tensor:
            return torch.from_numpy(np.ascontiguousarray(array, dtype)).to(device, non_blocking=True)

        sizes = np.diff(packing.starts)
        return cls(
            tokens=put(packing.tokens),
            positions=put(packing.positions),
            starts=put(packing.starts, np.int32),
            key_starts=put(packing.key_starts, np.int32),
            longest=int(sizes.max()),
            longest_keys=int(np.diff(packing.key_starts).max()),
            keys=put(packing.keys) if len(packing.keys) > len(packing.tokens) else None,
            owners=put(np.repeat(np.arange(len(sizes)), sizes), np.int32),
            uses=put(packing.uses, np.int32),
        )

    @classmethod
    def of_rows(cls, positions: torch.Tensor) -> Layout:
        """The layout of rows that stand end to end and share nothing.

        Args:
            positions: [tokens] place of each token in its row; a row begins wherever it is 0.
        """
        begins = torch.nonzero(positions == 0).flatten()
        starts = torch.cat([begins, begins.new_tensor([len(positions)])]).to(torch.int32)
        longest = int(starts.diff().max())
        none = positions.new_empty(0)
        return cls(positions, positions, starts, starts, longest, longest, None, none, none)


def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, layout: Layout) -> torch.Tensor:
    """What every token sees: [tokens, heads, head size].

    Args:
        q: [tokens, heads, head size].
        k: [tokens, key heads, head size]; a key head serves `heads / key heads` query heads, side by side.
        v: as k.
        layout: which tokens see which.
    """
    if (
        q.is_cuda
        and q.dtype in (torch.bfloat16, torch.float16)
        and q.shape[-1] % 8 == 0
        and q.shape[-1] <= 256
    ):
        out: torch.Tensor = _Flash.apply(q, k, v, layout)
        return out
    if layout.keys is not None:
        k, v = k[layout.keys], v[layout.keys]
    groups = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)
    queries, keys = layout.starts.tolist(), layout.key_starts.tolist()
    seen = []
    for a, b, c, d in zip(queries, queries[1:], keys, keys[1:]):
        # The last query stands at the last key.
        mask = torch.ones((b - a, d - c), dtype=torch.bool, device=q.device).tril(d - c - b + a)
        parts = (q[a:b].transpose(0, 1), k[c:d].transpose(0, 1), v[c:d].transpose(0, 1))
        seen.append(F.scaled_dot_product_attention(*parts, attn_mask=mask).transpose(0, 1))
    return torch.cat(seen)


class _Flash(torch.autograd.Function):  # type: ignore[misc]
    """Flash attention on rows of any lengths (what `torch.nn.attention.varlen` calls), keys gathered from paths.

    Keys and values are gathered again in the backward pass: rows that share much would else fill the memory with
    copies.
    """

    @staticmethod
    def forward(ctx: Any, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, layout: Layout) -> torch.Tensor:
        wide = (k, v) if layout.keys is None else (k[layout.keys], v[layout.keys])
        out, scores, state, unused, _ = torch.ops.aten._flash_attention_forward(
            q,
            *wide,
            layout.starts,
            layout.key_starts,
            layout.longest,
            layout.longest_keys,
            0.0,
            True,
            False,
        )
        ctx.save_for_backward(q, k, v, out, scores, state, unused)
        ctx.layout = layout
        found: torch.Tensor = out
        return found

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        q, k, v, out, scores, state, unused = ctx.saved_tensors
        layout: Layout = ctx.layout
        wide = (k, v) if layout.keys is None else (k[layout.keys], v[layout.keys])
        dq, dk, dv = torch.ops.aten._flash_attention_backward(
            grads[0].contiguous(),
            q,
            *wide,
            out,
            scores,
            layout.starts,
            layout.key_starts,
            layout.longest,
            layout.longest_keys,
            0.0,
            True,
            state,
            unused,
        )
        if layout.keys is not None:
            back = (layout.keys, layout.owners, layout.uses, layout.positions, layout.key_starts)
            dk, dv = fused.gather_sum(dk, *back), fused.gather_sum(dv, *back)
        return dq, dk, dv, None
