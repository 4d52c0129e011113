"""TRL's `AsyncGRPOTrainer` on the CPU, to try a script before renting a GPU: its attention needs a GPU's kernel.

`activate` puts plain torch attention in the kernel's place, with the same result, and takes the look-up of the
device's speed away. It changes TRL in this process only.
"""

from __future__ import annotations

import types
from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention


def activate() -> None:
    """Make TRL of this process run on the CPU."""
    from trl.experimental.async_grpo import async_grpo_trainer, packing

    packing._flash_attn = lambda: types.SimpleNamespace(flash_attn_varlen_func=attend)
    async_grpo_trainer.get_peak_flops_per_device = lambda *_: None


def attend(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    query_ends: torch.Tensor,
    key_ends: torch.Tensor,
    *_: Any,
    softmax_scale: float | None = None,
    window_size: tuple[int, int] = (-1, -1),
    **__: Any,
) -> torch.Tensor:
    """Causal attention of sequences laid end to end; the last query of each sees all of its keys.

    Args:
        query: [queries, heads, size].
        key: [keys, key heads, size].
        value: [keys, key heads, size].
        query_ends: [sequences + 1] where each sequence begins among the queries, and the end.
        key_ends: [sequences + 1] the same among the keys.
        softmax_scale: factor of the scores; one over the root of the size where it is None.
        window_size: how many keys before its own place a query sees; -1 all.
    """
    parts = []
    repeats = query.shape[1] // key.shape[1]
    bounds = zip(query_ends[:-1], query_ends[1:], key_ends[:-1], key_ends[1:])
    for first, last, low, high in bounds:
        q = query[first:last].transpose(0, 1)
        k, v = (one[low:high].transpose(0, 1).repeat_interleave(repeats, dim=0) for one in (key, value))
        places = torch.arange(k.shape[1] - q.shape[1], k.shape[1])[:, None]
        others = torch.arange(k.shape[1])[None]
        seen = others <= places
        if window_size[0] >= 0:
            seen &= others >= places - window_size[0]
        parts.append(
            scaled_dot_product_attention(q, k, v, attn_mask=seen, scale=softmax_scale).transpose(0, 1)
        )
    return torch.cat(parts)
