"""Weights that are spread over processes, seen from one of them: FSDP2's models and their tensors."""

from __future__ import annotations

from typing import Any

import torch


def whole(tensor: torch.Tensor, dtype: torch.dtype | None = None) -> torch.Tensor:
    """The whole of a tensor, in `dtype` if given; of one that is spread over processes all must ask for it together."""
    tensor = tensor if dtype is None else tensor.to(dtype)  # before the exchange: half the traffic
    gather = getattr(tensor, "full_tensor", None)
    return gather() if gather is not None else tensor


def is_sharded(model: Any) -> bool:
    """Whether the weights of a model are spread over processes."""
    return any(hasattr(parameter, "full_tensor") for parameter in model.parameters())


def plain_class(model: Any) -> type:
    """The class of a model before FSDP2 put one of its own in front of it."""
    return next(kind for kind in type(model).__mro__ if not kind.__module__.startswith("torch.distributed."))


def played_dtype(model: Any) -> torch.dtype:
    """The type in which a transformers model is sampled from and saved.

    Shards are the optimiser's own weights, wider than what is played with: there the model's config says the type.
    """
    weight = next(model.parameters())
    dtype: torch.dtype = model.config.dtype if is_sharded(model) else weight.dtype
    return dtype
