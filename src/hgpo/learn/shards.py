"""A model spread over the processes of a run with FSDP2, each layer a unit of its own.

**Types.** The shards of what is trained are float32: the optimiser's own weights, as the float32 copies of one process
are (`masters.py`). For a pass each unit is put together in the type that the model computes in, gradients are summed
over passes and processes in float32.

**Loading.** The first process has the whole model in its host's memory, the others a model without weights. Every
weight is handed out as it comes up; no process holds more of the others' shards than one weight.

**Memory.** When a process runs out of memory in the middle of a pass, the others are in it too. All leave it at the
next exchange (`Processes.together`); what FSDP2 had begun is thrown away by building the wrapper anew around the same
shards (`renew`).
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import torch
import torch.distributed as dist

from .distributed import Processes


class Shards:
    """A model whose weights are spread over processes.

    Args:
        empty: the model without weights, on torch's device `meta`; its types are those of the shards.
        processes: those that share it.
        compute: the type of passes where it is not that of the shards.
    """

    def __init__(self, empty: Any, processes: Processes, compute: torch.dtype | None) -> None:
        from torch.distributed.device_mesh import init_device_mesh

        self.empty, self.processes, self.compute = empty, processes, compute
        self.mesh = init_device_mesh(processes.device.type, (processes.size,))
        self.weights: dict[str, torch.nn.Parameter] = {}
        """By name, tied ones under each; they outlive the wrapper."""
        self.buffers: dict[str, torch.Tensor] = {
            name: torch.empty(buffer.shape, dtype=buffer.dtype, device=processes.device)
            for name, buffer in empty.named_buffers()
        }
        self.renew()

    def renew(self) -> None:
        """Wrap the shards anew: nothing is left of a pass that failed."""
        from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard

        policy = MixedPrecisionPolicy(param_dtype=self.compute, reduce_dtype=torch.float32)
        model = copy.deepcopy(self.empty)
        for layer in [module for name, module in model.named_modules() if _is_layer(name)]:
            fully_shard(layer, mesh=self.mesh, mp_policy=policy)
        fully_shard(model, mesh=self.mesh, mp_policy=policy)
        for module in model.modules():
            if isinstance(module, FSDPModule):
                module.set_custom_all_gather(_Gather(self.processes))
                module.set_custom_reduce_scatter(_Reduce(self.processes))
        self._adopt(model)
        self.model = model

    def _adopt(self, model: Any) -> None:
        """Put the shards and buffers in the place of those without memory, making shards the first time."""
        made: dict[int, torch.nn.Parameter] = {}
        for name, parameter in list(model.named_parameters(remove_duplicate=False)):
            if name not in self.weights:
                if id(parameter) not in made:
                    made[id(parameter)] = self._shard_like(parameter)
                self.weights[name] = made[id(parameter)]
            owner, _, leaf = name.rpartition(".")
            model.get_submodule(owner)._parameters[leaf] = self.weights[name]
        for name, buffer in self.buffers.items():
            owner, _, leaf = name.rpartition(".")
            model.get_submodule(owner)._buffers[leaf] = buffer

    def _shard_like(self, parameter: Any) -> torch.nn.Parameter:
        from torch.distributed.tensor import DTensor

        local = torch.empty(parameter.to_local().shape, dtype=parameter.dtype, device=self.processes.device)
        shard = DTensor.from_local(
            local,
            parameter.device_mesh,
            parameter.placements,
            run_check=False,
            shape=parameter.shape,
            stride=parameter.stride(),
        )
        return torch.nn.Parameter(shard, requires_grad=parameter.requires_grad)

    def reduce(self, now: bool) -> None:
        """Whether the next backward pass exchanges gradients, or only adds to those of this process."""
        self.model.set_requires_gradient_sync(now)


def hand_out(source: Any, *targets: Shards) -> None:
    """Bring the weights and buffers of the first process's whole model into shards, one at a time (collective).

    Args:
        source: the model, at the first process; it loses its weights. None at the others.
        targets: models of its structure.
    """
    weights: Mapping[str, Any] = dict(source.named_parameters()) if source is not None else {}
    buffers: Mapping[str, Any] = dict(source.named_buffers()) if source is not None else {}
    with torch.no_grad():
        for name, _ in targets[0].empty.named_parameters():
            given = weights.get(name)
            for shards in targets:
                put(shards.weights[name], given.detach() if given is not None else None)
            if given is not None:
                given.data = torch.empty(0)
        for shards in targets:
            for name, buffer in shards.buffers.items():
                if name in buffers:
                    buffer.copy_(buffers[name])
                dist.broadcast(buffer, 0)


def put(target: torch.Tensor, value: torch.Tensor | None) -> None:
    """Copy a whole tensor into a (perhaps sharded) one; only the first process has to have it."""
    if not hasattr(target, "device_mesh"):
        assert value is not None
        target.copy_(value.to(target.device, target.dtype))
        return
    from torch.distributed.tensor import distribute_tensor

    given = (
        torch.empty(target.shape, dtype=target.dtype, device=target.device)
        if value is None
        else value.to(target.device, target.dtype)
    )
    target.copy_(distribute_tensor(given, target.device_mesh, target.placements))


class _Comm:
    """What FSDP2 calls to exchange tensors: as it would, once all processes are known to be there."""

    def __init__(self, processes: Processes) -> None:
        self.processes = processes

    def allocate(self, size: Any, *, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
        return torch.empty(*size, dtype=dtype, device=device)


class _Gather(_Comm):
    def __call__(
        self, output_tensor: torch.Tensor, input_tensor: torch.Tensor, group: Any, async_op: bool = False
    ) -> Any:
        self.processes.check()
        gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
        return gather(output_tensor, input_tensor, group=group, async_op=async_op)


class _Reduce(_Comm):
    def __call__(
        self,
        output_tensor: torch.Tensor,
        input_tensor: torch.Tensor,
        group: Any,
        op: Any,
        async_op: bool = False,
    ) -> Any:
        self.processes.check()
        reduce = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor
        return reduce(output_tensor, input_tensor, group=group, op=op, async_op=async_op)


def _is_layer(name: str) -> bool:
    head, _, last = name.rpartition(".")
    return last.isdigit() and head.endswith(("layers", ".h"))
