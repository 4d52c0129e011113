"""Attention over packed rows in verl's training workers, without flash-attn.

verl packs the rows of a pass end to end when it is told to remove padding, and leaves it to the attention of the model
to keep them apart. In transformers only flash-attn's kernels do. This one does with what torch brings along: the
kernel of `hgpo.models.attention`, which the trainer of this package uses, too.
"""

from __future__ import annotations

from typing import Any

import torch

from ..errors import BadSetting
from ..models.attention import Layout, attend
from .names import PACKED_ATTENTION


def packed_attention(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    position_ids: torch.Tensor | None = None,
    **rest: Any,
) -> tuple[torch.Tensor, None]:
    """Causal attention inside each row; the interface of transformers.

    Args:
        module: the layer.
        query: [1, heads, tokens, head size].
        key: [1, key heads, tokens, head size].
        value: as `key`.
        attention_mask: None; packed rows have no padding.
        scaling: of the products; 1 / sqrt(head size) by default.
        dropout: 0.
        position_ids: [1, tokens] place of each token in its row.
        rest: what other kernels want.

    Returns:
        [1, tokens, heads, head size], and no weights.

    Raises:
        BadSetting: something that packed rows cannot have.
    """
    wanted = {
        "a batch of packed rows": len(query) == 1 and attention_mask is None and position_ids is not None,
        "no dropout": not dropout,
        "no sliding window": rest.get("sliding_window") is None,
        "no cap on the products": rest.get("softcap") is None,
    }
    for what, fits in wanted.items():
        if not fits:
            raise BadSetting(
                f"The attention {PACKED_ATTENTION!r} expects {what}, which this model or pass does not have. Give "
                "model.attention=eager, or model.attention=flash_attention_2 where flash-attn is installed."
            )
    assert position_ids is not None
    size = query.shape[-1]
    if scaling is not None and scaling != size**-0.5:
        query = query * (scaling * size**0.5)
    kind = query.dtype
    if kind == torch.float32 and torch.is_autocast_enabled(query.device.type):
        # Rotation is in float32; the kernel is made for halves.
        kind = torch.get_autocast_dtype(query.device.type)
    q, k, v = (one[0].transpose(0, 1).to(kind).contiguous() for one in (query, key, value))
    return attend(q, k, v, _layout(position_ids)).to(value.dtype)[None], None


def _layout(position_ids: torch.Tensor) -> Layout:
    """Made once a pass: every layer is given the same tensor."""
    layout = getattr(position_ids, "_hgpo_layout", None)
    if layout is None:
        layout = Layout.of_rows(position_ids.reshape(-1))
        position_ids._hgpo_layout = layout
    return layout


def register() -> None:
    """Make it known to transformers, in every process that imports verl."""
    from transformers import AttentionInterface

    AttentionInterface.register(PACKED_ATTENTION, packed_attention)
