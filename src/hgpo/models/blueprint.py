"""A model without its weights: how processes that have no copy of it build the same one."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import torch

from .packed import base_model, played_weights
from .sharded import plain_class, played_dtype


@dataclass(frozen=True)
class Blueprint:
    """Everything about a transformers model but its weights; travels between processes."""

    kind: type
    config: Any
    generation: Any
    """Its `generation_config`."""
    dtype: torch.dtype
    """Of the weights."""

    @classmethod
    def of(cls, model: Any) -> Blueprint:
        """Of a model as it was before it had adapters or was spread over processes."""
        base = base_model(model)
        generation = getattr(base, "generation_config", None)
        return cls(plain_class(base), base.config, generation, played_dtype(base))

    def build(self) -> Any:
        """The model with weights and buffers that take no memory (torch's device `meta`)."""
        config = copy.deepcopy(self.config)
        config.dtype = self.dtype
        with torch.device("meta"):
            model = self.kind(config)
        model.tie_weights()
        for parameter in model.parameters():
            parameter.data = parameter.data.to(self.dtype)
        if self.generation is not None:
            model.generation_config = copy.deepcopy(self.generation)
        return model.eval()


def whole_copy(model: Any) -> Any:
    """A transformers model of its own with the weights that `model` plays with; of a sharded one, all together."""
    base = base_model(model)
    device = next(base.parameters()).device
    found = Blueprint.of(model).build().requires_grad_(False).to_empty(device=device)
    found.tie_weights()
    buffers = dict(base.named_buffers())
    for name, buffer in found.named_buffers():
        buffer.copy_(buffers[name])
    copy_weights(found, model)
    return found


def copy_weights(target: Any, model: Any) -> None:
    """Bring the weights that `model` plays with into its `whole_copy`."""
    with torch.no_grad():
        for name, weight in played_weights(model):
            target.get_parameter(name).copy_(weight)
