"""How rows go through the model: padded through its own code, or packed through ours (`hgpo.models.packed`).

Both give the same numbers up to rounding. Packed passes run on a GPU, in bfloat16 and in one process, for models of a
known shape; everything else is padded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import torch

from ..config.schema import Config
from ..models.device import autocast
from ..models.lora import without_adapters
from ..models.packed import PackedModel, supported
from ..models.packing import packs
from ..steps.batch import StepBatch
from ..steps.columns import IntArray
from .batching import (
    MicroBatch,
    PackedBatch,
    Replies,
    inputs,
    largest_pass,
    packed_tensors,
    pass_tokens,
    row_lengths,
    share_out,
    tensors,
)
from .distributed import Processes
from .objective import spread, token_logprobs


@dataclass(frozen=True)
class Cut:
    """Rows cut into passes."""

    mine: list[IntArray]
    """The rows of each pass of this process."""
    largest: int
    """Token positions of the largest pass, of any process."""
    real: int
    """Tokens of all rows, all processes together."""
    positions: int
    """Token positions that are computed for them."""


class Passes(Protocol):
    """A way through the model for the rows of one batch."""

    def begin(self, batch: StepBatch) -> None:
        """From here on rows are those of `batch`."""
        ...

    def cut(self, rows: IntArray, token_budget: int) -> Cut:
        """Passes over the rows with the given numbers, each within the budget."""
        ...

    def tensors(self, rows: IntArray) -> Replies:
        """What one pass reads."""
        ...

    def scores(
        self, batch: Any, *, entropy: bool = False, entropy_gradient: bool = False
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Log-probabilities [rows, reply width] of the replies, and the entropy at each position if asked for."""
        ...

    def reference(self, batch: Any) -> torch.Tensor:
        """Log-probabilities under the reference, without gradients."""
        ...

    def refresh(self) -> None:
        """The weights were changed."""
        ...


class PaddedPasses:
    """Rows padded to the same width, through the model's own code.

    Args:
        model: the policy in training, perhaps sharded.
        reference: the model it is held to; None takes the model without its adapters.
        config: the run's settings.
        processes: those that share the rows.
        pad_id: any token.
        compute: the type to compute in where it is not that of the weights.
    """

    def __init__(
        self, model: Any, reference: Any, config: Config, processes: Processes, pad_id: int, compute: str
    ) -> None:
        self.model, self.held_to, self.config = model, reference, config
        self.processes, self.pad_id, self.compute = processes, pad_id, compute
        self.temperature = config.rollout.temperature

    def begin(self, batch: StepBatch) -> None:
        """From here on rows are those of `batch`."""
        self.batch, self.lengths = batch, row_lengths(batch)

    def cut(self, rows: IntArray, token_budget: int) -> Cut:
        """Rows of similar length together, dealt out to the processes."""
        shares = share_out(self.lengths, rows, token_budget, self.processes.size)
        mine = shares[self.processes.rank]
        counts = [pass_tokens(self.lengths, share) for share in shares]
        return Cut(
            mine,
            # Of all processes, so that all reckon with the same.
            max(largest_pass(self.lengths, share) for share in shares),
            sum(real for real, _ in counts),
            sum(positions for _, positions in counts),
        )

    def tensors(self, rows: IntArray) -> MicroBatch:
        """The rows, padded."""
        return tensors(self.batch, rows, self.pad_id, self.processes.device)

    def scores(
        self, batch: MicroBatch, *, entropy: bool = False, entropy_gradient: bool = False
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """As the model computes them."""
        with autocast(self.compute, self.processes.device):
            return token_logprobs(
                self.model, batch, self.temperature, entropy=entropy, entropy_gradient=entropy_gradient
            )

    def reference(self, batch: MicroBatch) -> torch.Tensor:
        """Under the reference model, or without the adapters."""
        with torch.no_grad(), autocast(self.compute, self.processes.device):
            if self.held_to is not None:
                return token_logprobs(self.held_to, batch, self.temperature)[0]
            with without_adapters(self.model) as model:
                return token_logprobs(model, batch, self.temperature)[0]

    def refresh(self) -> None:
        """The model reads its weights at every pass."""

    def turn_to(self, model: Any, reference: Any) -> None:
        """The same weights, in other modules."""
        self.model, self.held_to = model, reference


class PackedPasses:
    """Rows end to end, through our own code; alone in its process.

    Args:
        model: the policy in training.
        reference: the model it is held to; None takes the model without its adapters.
        config: the run's settings.
        device: where the model is.
        pad_id: any token.
    """

    def __init__(self, model: Any, reference: Any, config: Config, device: torch.device, pad_id: int) -> None:
        self.model = PackedModel(model, checkpointing=config.model.gradient_checkpointing)
        self.held_to = PackedModel(reference) if reference is not None else None
        self.device, self.pad_id = device, pad_id
        self.temperature = config.rollout.temperature

    def begin(self, batch: StepBatch) -> None:
        """From here on rows are those of `batch`."""
        self.batch, self.rows = batch, inputs(batch)

    def cut(self, rows: IntArray, token_budget: int) -> Cut:
        """Rows that begin alike together."""
        parts = list(packs(self.rows, rows, token_budget))
        return Cut(
            [part for part, _ in parts] or [rows],
            max((tokens for _, tokens in parts), default=1),
            int(row_lengths(self.batch)[rows].sum()),
            sum(tokens for _, tokens in parts),
        )

    def tensors(self, rows: IntArray) -> PackedBatch:
        """The rows, packed."""
        return packed_tensors(self.batch, self.rows, rows, self.pad_id, self.device)

    def scores(
        self, batch: PackedBatch, *, entropy: bool = False, entropy_gradient: bool = False
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """From the weights with their adapters folded in."""
        return self._scores(self.model, batch, True, entropy, entropy_gradient)

    def reference(self, batch: PackedBatch) -> torch.Tensor:
        """From the reference's weights, or from those without adapters."""
        with torch.no_grad():
            return self._scores(self.held_to or self.model, batch, False, False, False)[0]

    def _scores(
        self, model: PackedModel, batch: PackedBatch, adapters: bool, entropy: bool, entropy_gradient: bool
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        ids = batch.response_ids.flatten()[batch.cells]
        chosen, spreads = model.scores(batch.layout, batch.sources, ids, self.temperature, adapters=adapters)
        if not entropy:
            return spread(chosen, batch), None
        return spread(chosen, batch), spread(spreads if entropy_gradient else spreads.detach(), batch)

    def refresh(self) -> None:
        """Fold changed adapters in."""
        self.model.refresh()


def can_pack(model: Any, config: Config, device: torch.device) -> bool:
    """Whether rows can be packed in one process: a model of a known shape, in bfloat16, on a GPU."""
    return device.type == "cuda" and config.model.dtype == "bfloat16" and supported(model)
