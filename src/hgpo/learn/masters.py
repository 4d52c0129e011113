"""Float32 copies of bfloat16 weights: what the optimiser changes.

An update of 1e-6 vanishes in a bfloat16 weight. The model computes in bfloat16 throughout, as it samples; gradients
of its passes are summed up in float32, the optimiser changes the float32 copies, and `publish` rounds them into the
model.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch


class Masters:
    """The float32 copies of a model's trained weights, by name."""

    def __init__(self, parameters: Mapping[str, torch.nn.Parameter]) -> None:
        self.parameters = dict(parameters)
        self.copies = {
            name: torch.nn.Parameter(parameter.detach().float().clone())
            for name, parameter in self.parameters.items()
        }

    def collect(self) -> None:
        """Move the gradients of one backward pass over, adding to those already there."""
        with torch.no_grad():
            pairs = [
                (self.copies[name], one) for name, one in self.parameters.items() if one.grad is not None
            ]
            # Rounded gradients of all weights become float32 in a few kernels, not one per weight.
            wide = [torch.empty_like(copy) for copy, _ in pairs]
            torch._foreach_copy_(wide, [one.grad for _, one in pairs])
            old = [(copy.grad, grad) for (copy, _), grad in zip(pairs, wide) if copy.grad is not None]
            if old:
                torch._foreach_add_([kept for kept, _ in old], [grad for _, grad in old])
            for (copy, one), grad in zip(pairs, wide):
                copy.grad = grad if copy.grad is None else copy.grad
                one.grad = None

    def publish(self) -> None:
        """Round the copies into the model's own weights."""
        with torch.no_grad():
            torch._foreach_copy_(list(self.parameters.values()), list(self.copies.values()))
