"""How much memory of a GPU a run needs, reckoned from the model's shape and the settings; needs no torch.

What is counted, in bytes, for a model of P weights in a type of w bytes (2 for bfloat16):

    weights      w P for the policy, w P again for the sampler's copy, w P for the reference of a KL to the start
                 (a run with adapters needs none, but a copy of the layers with the adapters folded in)
    optimiser    for each trained weight its float32 copy, its gradient and two moments: 18 bytes, 16 for adapters and
                 12 for float32 weights, which are their own copies
    several GPUs share the trained weights (float32), their gradients and moments, 16 bytes each, and the reference;
                 each has the sampler's copy to itself, and 4 bytes for each trained weight where there is room for
                 gradients that are exchanged once per optimiser step
    a pass       for every token of `update.micro_tokens` and every layer what the backward pass reads again, or one
                 vector a layer with checkpointing; the logits of the replies in parts
    sampling     keys and values of all rollouts at their longest, within `rollout.batch_tokens`

It is an estimate of the largest need, not a measurement: fragmentation adds to it, short prompts take from it.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..config.schema import Config
from ..errors import BadSetting
from .shape import Shape

GIB = 2**30
RESERVE = 0.06
"""Share of a device that is left to the driver, to libraries and to fragments."""


@dataclass(frozen=True)
class Estimate:
    """Bytes by what they are for."""

    weights: int
    optimiser: int
    one_pass: int
    sampling: int
    gradients: int = 0
    """Of several processes: whole gradients, where there is room for them; in no sum."""

    @property
    def fixed(self) -> int:
        """What no setting of passes and batches changes."""
        return self.weights + self.optimiser

    @property
    def total(self) -> int:
        """Passes and sampling do not need their memory at once only where an engine gives it back; count both."""
        return self.fixed + self.one_pass + self.sampling

    def __str__(self) -> str:
        parts = (
            ("weights", self.weights),
            ("optimiser", self.optimiser),
            ("a pass", self.one_pass),
            ("sampling", self.sampling),
        )
        return f"about {_gib(self.total)} GiB ({', '.join(f'{name} {_gib(part)}' for name, part in parts)})"


def estimate(shape: Shape, config: Config, processes: int = 1) -> Estimate:
    """What a run with these settings needs on each of its GPUs."""
    model, update, rollout = config.model, config.update, config.rollout
    half = model.dtype == "bfloat16"
    wide = 2 if half else 4
    alone = processes == 1
    trained = shape.adapter_weights(model.lora_rank) if model.lora_rank else shape.weights
    # The sampler's copy, and what is not counted with the optimiser.
    weights = wide * shape.weights + (wide * shape.weights // processes if alone or model.lora_rank else 0)
    if model.lora_rank:
        weights += wide * shape.layer_weights if alone else 0
        each = 16
    else:
        weights += wide * shape.weights // processes if update.kl_coef > 0 else 0
        each = (18 if half else 12) if alone else 16
    optimiser = each * trained // processes
    layers = 1 if model.gradient_checkpointing else shape.layers
    kept = layers * shape.kept() + (shape.layers * shape.hidden if model.gradient_checkpointing else 0)
    # In the backward pass of a feed-forward layer four more rows of its width are alive.
    one_pass = update.micro_tokens * wide * (kept + 4 * shape.intermediate) + 12 * 2**26
    longest = config.agent.max_prompt_tokens + config.agent.max_response_tokens
    rows = max(1, min(rollout.tasks * rollout.group_size, rollout.batch_tokens // longest))
    sampling = rows * longest * shape.cached() * wide
    return Estimate(weights, optimiser, one_pass, sampling, 0 if alone else 4 * trained)


def fits(needed: int, device_bytes: int) -> bool:
    """Whether a device has so many bytes to give."""
    return needed <= device_bytes * (1 - RESERVE)


def check_memory(found: Estimate, device_bytes: int) -> None:
    """Refuse a run that cannot even hold its weights and optimiser.

    Raises:
        BadSetting: it cannot; whatever else is too much is tried in smaller passes.
    """
    if not fits(found.fixed, device_bytes):
        raise BadSetting(
            f"The weights and the optimiser of this run need about {_gib(found.fixed)} GiB, but the GPU has "
            f"{_gib(device_bytes)} GiB. Train adapters with model.lora_rank=16, choose a smaller model, or train on "
            "several GPUs with torchrun."
        )


def _gib(count: int) -> str:
    return f"{count / GIB:.1f}" if count < 10 * GIB else f"{count / GIB:.0f}"
