"""How much memory of each GPU a run takes under verl, with the arithmetic: a sum of named parts, in bytes.

It is an estimate for choosing a machine, not a measurement: allocators and libraries take some GB more.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..config.schema import Config
from ..models.shape import Shape
from .overrides import Cluster
from .translation import packs, pass_tokens

GB = 1e9
CHUNK = 512
"""Tokens whose logits verl's fused kernel holds at once."""
PADDING = 4
"""Rows without a kernel for packing are padded to the longest of their pass, which the token budget does not see: we
reckon with rows a quarter as long as the longest."""
LIBRARIES = 4 * GB
"""CUDA, NCCL, cuBLAS and the allocator's holes."""


@dataclass(frozen=True)
class Part:
    """One part of the memory."""

    name: str
    bytes: float
    arithmetic: str


@dataclass(frozen=True)
class Memory:
    """Of each GPU."""

    update: tuple[Part, ...]
    """While the policy is updated; the rollout server sleeps."""
    play: tuple[Part, ...]
    """While episodes are played."""
    total: float

    def fits(self) -> bool:
        """Whether both phases stay below the GPU's memory."""
        return max(_sum(self.update), _sum(self.play)) <= self.total

    def lines(self) -> list[str]:
        """The arithmetic in words."""
        shown = []
        for phase, parts in (("update", self.update), ("play", self.play)):
            shown.append(f"{phase}: {_sum(parts) / GB:.1f} of {self.total / GB:.0f} GB a GPU")
            shown += [f"  {part.bytes / GB:6.1f}  {part.name}: {part.arithmetic}" for part in parts]
        return shown


def _sum(parts: tuple[Part, ...]) -> float:
    return sum(part.bytes for part in parts)


def reckon(config: Config, cluster: Cluster, shape: Shape, gpu: float = 80 * GB) -> Memory:
    """The memory of each GPU for a run of `config` on `cluster`.

    Args:
        config: the settings of the run.
        cluster: where it runs.
        shape: of its model.
        gpu: bytes of each GPU.
    """
    count, shards = shape.weights, cluster.nodes * cluster.gpus
    billions = f"{count / 1e9:.2f} billion weights"
    trained = count
    rank = config.model.lora_rank
    if rank:
        trained = shape.adapter_weights(rank)
        state = count * 4 + trained * 12
        sentence = f"({billions} x 4 bytes + {trained / 1e6:.0f} million of adapters x 12) / {shards} GPUs"
    else:
        state = count * 16
        sentence = f"{billions} x 16 bytes (float32 weight, gradient, two moments) / {shards} GPUs"
    padded = 1 if packs(config) else PADDING
    tokens = pass_tokens(config) * padded
    kept = shape.layers if config.model.gradient_checkpointing else 0
    inside = 2 * (8 * shape.hidden + 4 * shape.intermediate)
    layers = 1 if config.model.gradient_checkpointing else shape.layers
    note = (
        ""
        if padded == 1
        else f" ({pass_tokens(config):,} in the budget, {padded} times as many with padding)"
    )
    activations = tokens * (2 * shape.hidden * kept + inside * layers)
    update = (
        Part("weights, gradients, optimiser", state / shards, sentence),
        Part(
            "activations",
            activations,
            f"{tokens:,} tokens a pass{note} x ({kept} kept layers x {2 * shape.hidden:,} bytes + "
            f"{layers} x {inside:,})",
        ),
        Part(
            "logits",
            12 * CHUNK * shape.vocabulary,
            f"{CHUNK} tokens at a time x {shape.vocabulary:,} x 12 bytes",
        ),
        Part(
            "gathered embeddings",
            4 * shape.vocabulary * shape.hidden,
            f"{shape.vocabulary:,} x {shape.hidden:,} x 4 bytes",
        ),
        Part("libraries", LIBRARIES, "CUDA, NCCL, holes of the allocator"),
    )
    served = 2 * count / cluster.tensor_parallel
    server = cluster.gpu_memory * gpu
    room = max(0.0, server - served) * cluster.tensor_parallel
    cache = 2 * shape.cached()  # bfloat16
    longest = config.agent.max_prompt_tokens + config.agent.max_response_tokens
    play = (
        Part(
            "rollout server",
            server,
            f"{cluster.gpu_memory:g} x {gpu / GB:.0f} GB: weights {served / GB:.1f}, the rest for "
            f"{room / cache / 1e6:.1f} million cached tokens ({int(room / cache / longest):,} of the "
            "longest prompts with replies)",
        ),
        Part(
            "trainer",
            0.0 if cluster.offload else state / shards,
            "in CPU memory (--offload)" if cluster.offload else sentence,
        ),
        Part("libraries", LIBRARIES, "CUDA, NCCL, holes of the allocator"),
    )
    return Memory(update, play, gpu)


MACHINES = {
    "1x80gb": Cluster(gpus=1, gpu_memory=0.5, offload=True),
    "2x80gb": Cluster(gpus=2, gpu_memory=0.5, offload=True),
    "8x80gb": Cluster(gpus=8, gpu_memory=0.6),
}
"""Machines by name: how many GPUs of 80 GB, and what goes well with so many."""
