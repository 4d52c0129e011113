"""What a checkpoint keeps of training: the weights that an optimiser changes, and its moments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch

from ..errors import BadFile
from ..models.sharded import whole
from ..models.tensors import Tensors
from .shards import put

MOMENTS = ("exp_avg", "exp_avg_sq")


class State(Tensors):
    """What an optimiser changes and its moments, whole: `weight/NAME`, `exp_avg/NAME`, `exp_avg_sq/NAME`."""

    def __init__(self, parameters: Mapping[str, Any], optimizer: torch.optim.Optimizer) -> None:
        self.tensors: dict[str, Any] = {}
        for name, parameter in parameters.items():
            self.tensors[f"weight/{name}"] = parameter
            moments = optimizer.state.get(parameter, {})
            self.tensors |= {f"{key}/{name}": moments[key] for key in MOMENTS if key in moments}

    def __getitem__(self, name: str) -> torch.Tensor:
        return whole(self.tensors[name].detach()).cpu()

    def __iter__(self) -> Iterator[str]:
        return iter(self.tensors)

    def __len__(self) -> int:
        return len(self.tensors)

    def __contains__(self, name: object) -> bool:
        return name in self.tensors

    def shape(self, name: str) -> tuple[int, ...]:
        """Of the whole tensor."""
        return tuple(self.tensors[name].shape)


def restore(
    parameters: Mapping[str, Any],
    optimizer: torch.optim.Optimizer,
    tensors: Tensors,
    updates: int,
    first: bool,
) -> None:
    """Put weights and moments back, in place; of several processes all must do it together.

    Args:
        parameters: what the optimiser changes, by name.
        optimizer: AdamW.
        tensors: as a `State` gave them.
        updates: optimiser steps made until then.
        first: whether this process reads them; the others receive theirs.

    Raises:
        BadFile: the tensors are those of another model; nothing was changed.
    """
    for name, parameter in parameters.items():
        stored = tensors.shape(f"weight/{name}") if f"weight/{name}" in tensors else None
        if stored != tuple(parameter.shape):
            given = "missing" if stored is None else f"of shape {stored}"
            raise BadFile(
                f"The checkpoint belongs to another model: {name} is {given}, expected {tuple(parameter.shape)}. "
                "Resume with the settings the run was started with, or choose another folder with --run."
            )

    def read(name: str) -> torch.Tensor | None:
        return tensors[name] if first else None

    state = optimizer.state_dict()
    with torch.no_grad():
        for number, (name, parameter) in enumerate(parameters.items()):
            put(parameter, read(f"weight/{name}"))
            if f"exp_avg/{name}" in tensors:
                moments: dict[str, Any] = {"step": torch.tensor(float(updates))}
                for key in MOMENTS:
                    moments[key] = torch.zeros_like(parameter)
                    put(moments[key], read(f"{key}/{name}"))
                state["state"][number] = moments
    # Where the count of steps has to lie depends on the kind of AdamW (fused: on the device); torch knows.
    optimizer.load_state_dict(state)
