"""The policy in training: its weights, optimiser and reference, and the update from a batch of steps."""

from __future__ import annotations

import copy
import functools
import math
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import torch

from ..config.schema import Config, UpdateConfig
from ..errors import BadSetting, NotFinite
from ..models.blueprint import Blueprint
from ..models.device import device_memory
from ..models.lora import add_adapters
from ..models.memory import estimate, fits
from ..models.out_of_memory import TokenBudget
from ..models.packed import base_model
from ..models.shape import Shape
from ..models.sharded import whole
from ..models.tensors import Tensors
from ..seeds import generator
from ..steps.batch import StepBatch
from ..steps.columns import BoolArray, IntArray, Ragged
from .batching import CORRECTION, minibatches
from .distributed import Processes
from .kernels import choose_kernels, fixed_order
from .masters import Masters
from .objective import loss_sum
from .passes import Cut, PackedPasses, PaddedPasses, Passes, can_pack
from .schedule import rate
from .shards import Shards, hand_out
from .state import State, restore

T = TypeVar("T")


def check_correction(update: UpdateConfig) -> None:
    """Refuse importance weights without the probabilities that they compare.

    Raises:
        BadSetting: `importance_cap` is set and old log-probabilities are not recomputed.
    """
    if update.importance_cap and update.old_logprobs != "recomputed":
        raise BadSetting(
            f"update.importance_cap={update.importance_cap} was given with update.old_logprobs={update.old_logprobs}; "
            "expected recomputed, for the weights compare the trainer's probabilities with the sampler's."
        )


class Learner:
    """Holds everything an update changes.

    `model` is trained; `actor` is what an engine takes the weights to sample with from. They are one object unless the
    trained weights are adapters in a wider type than the one used for sampling; `sync` then copies them over. Of
    several processes each has its part of `model` (`shards`), and engines put their own copies together from it.
    `parameters` is what the optimiser changes: the model's own weights (adapters and shards are float32), or float32
    copies of bfloat16 ones. `passes` is the way of rows through the model.

    Args:
        model: the policy to begin with, a transformers model; of several processes only the first has it, and loses it.
        config: the run's settings.
        processes: those that train together.
        pad_id: any token.
    """

    def __init__(self, model: Any, config: Config, processes: Processes, pad_id: int) -> None:
        self.config, self.processes, self.pad_id = config, processes, pad_id
        self.half = config.model.dtype == "bfloat16"
        self.lora = config.model.lora_rank > 0
        update = config.update
        check_correction(update)
        if self.lora and model is not None:
            # Adapters start as no change; their first random half is the seed's.
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(config.seed)
                model = add_adapters(model, config.model)
        held_to_start = update.kl_coef > 0 and not self.lora
        self.shards: list[Shards] = []
        """Of several processes: the policy, and the reference if there is one."""
        self.reference = None
        packed = copied = False
        if processes.size > 1:
            self._spread(model, held_to_start)
            self.model = self.actor = self.shards[0].model
            compute = "float32"  # the units come in the type they compute in
        else:
            # Alone, a bfloat16 model is trained and sampled from as it is, with float32 copies of its weights for the
            # optimiser. Adapters are float32 themselves, and are folded into bfloat16 weights for packed passes and
            # for sampling; everything else computes under autocast.
            copied = self.half and not self.lora
            compute = "float32" if copied else config.model.dtype
            choose_kernels(model, processes.device)
            packed = can_pack(model, config, processes.device)
            if held_to_start:
                self.reference = copy.deepcopy(model).requires_grad_(False).eval()
            self.model = self.actor = model
            if self.half and self.lora and not packed:
                self.actor = copy.deepcopy(model).requires_grad_(False).eval()
            if self.half and not copied:
                _widen(model)
            self._checkpoint(model)
        self.passes: Passes = (
            PackedPasses(self.model, self.reference, config, processes.device, pad_id)
            if packed
            else PaddedPasses(self.model, self.reference, config, processes, pad_id, compute)
        )
        self.parameters = {
            name: parameter for name, parameter in self.model.named_parameters() if parameter.requires_grad
        }
        self.masters = Masters(self.parameters) if copied else None
        if self.masters is not None:
            self.parameters = self.masters.copies
        self.optimizer = torch.optim.AdamW(
            self.parameters.values(),
            lr=update.lr,
            betas=(update.betas[0], update.betas[1]),
            weight_decay=update.weight_decay,
            fused=True if processes.device.type == "cuda" else None,
        )
        self.updates = 0
        self.regularised: BoolArray = np.zeros(0, dtype=bool)
        """[rows] of the batch under way: whether the KL term and the entropy bonus are measured on it."""
        self.gap = 0.0
        """Mean distance of the trainer's log-probabilities from the sampler's, when they were last recomputed."""
        self.progress = 0.0
        self.budget = TokenBudget(update.micro_tokens, "update.micro_tokens", says=processes.first)
        self.once = self._reduces_once()
        """Whether gradients are exchanged once per optimiser step, which needs memory for all of them."""

    def _spread(self, model: Any, held_to_start: bool) -> None:
        """Spread the first process's model, and the reference, over all."""
        blueprint = self.processes.tell(Blueprint.of(model) if model is not None else None)
        empty = blueprint.build()
        if self.lora:
            with torch.device("meta"):
                empty = add_adapters(empty, self.config.model)
        choose_kernels(empty, self.processes.device)
        compute = blueprint.dtype if self.half else None
        held_to = copy.deepcopy(empty).requires_grad_(False) if held_to_start else None
        _widen(empty)
        self._checkpoint(empty)
        self.shards = [Shards(one, self.processes, compute) for one in (empty, held_to) if one is not None]
        hand_out(model, *self.shards)
        self.reference = self.shards[1].model if held_to_start else None

    def _checkpoint(self, model: Any) -> None:
        """Let the model recompute its layers in backward passes, if the settings say so."""
        if self.config.model.gradient_checkpointing:
            model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
            if self.lora:
                model.enable_input_require_grads()

    def _reduces_once(self) -> bool:
        """Whether several processes have memory for whole gradients; a CPU's is not looked at."""
        if self.processes.size == 1 or self.processes.device.type != "cuda":
            return True
        shape = Shape.of(base_model(self.model).config.to_dict())
        if shape is None:
            return False
        needed = estimate(shape, self.config, self.processes.size)
        return fits(needed.total + needed.gradients, device_memory(self.processes.device))

    def update(self, batch: StepBatch, seed: int, progress: float = 0.0) -> dict[str, float]:
        """Run all optimiser steps of one iteration and return its metrics.

        Args:
            batch: the steps to train on, with `prompt_ids`, `response_ids`, `logprobs` and `advantage`.
            seed: decides which steps share an optimiser step.
            progress: the share of the run's iterations that is over, for the learning rate's schedule.

        Raises:
            NotFinite: a loss or gradient is NaN or infinite; the weights are those before that optimiser step.
        """
        self.progress = progress
        with fixed_order(self.processes.device, self.config.deterministic):
            return self._update(batch, seed)

    def _update(self, batch: StepBatch, seed: int) -> dict[str, float]:
        settings = self.config.update
        if settings.old_logprobs == "recomputed":
            batch = self.recompute(batch)
        self.passes.begin(batch)
        self.regularised = np.zeros(len(batch), dtype=bool)
        if settings.kl_coef or settings.entropy_coef:
            self.regularised = generator("regularised", seed).random(len(batch)) < settings.regulariser_share
        totals: dict[str, float] = {}
        gap = self.gap if settings.old_logprobs == "recomputed" else None
        steps = real = everything = 0
        self.model.train()
        for epoch in range(settings.epochs):
            parts = minibatches(
                len(batch),
                updates=settings.updates,
                minibatch_rows=settings.minibatch_rows,
                seed=seed,
                epoch=epoch,
            )
            for part in parts:
                metrics, cuts = self._step(batch, part)
                apart = metrics.pop("logprob_gap")
                # Later steps have other weights than the sampler had.
                gap = apart if gap is None else gap
                for name, value in metrics.items():
                    totals[name] = totals.get(name, 0.0) + value
                steps += 1
                real += sum(cut.real for cut in cuts)
                everything += sum(cut.positions for cut in cuts)
        self.model.eval()
        self.sync()
        result = {name: value / steps for name, value in totals.items()}
        result.update(
            {
                "updates": float(steps),
                "train/rows": float(len(self._with_gradient(batch, np.arange(len(batch))))),
                "train/tokens": float(real),
                "train/padding_share": max(0.0, 1.0 - real / max(1, everything)),
                "train/shared_share": max(0.0, 1.0 - everything / real) if real else 0.0,
                "engine/logprob_gap": gap or 0.0,
                "lr": float(self.optimizer.param_groups[0]["lr"]),
            }
        )
        return result

    def recompute(self, batch: StepBatch) -> StepBatch:
        """The batch with log-probabilities of the trained model in place of the sampler's.

        With `update.importance_cap` also with a column of truncated importance weights: how much more likely each
        token is under the model than under what it was sampled from.
        """
        replies = batch.lists("response_ids")
        mine = self._within_memory(functools.partial(self._logprobs, batch))
        values = np.zeros(len(replies.values))
        for part in self.processes.gather(mine):
            for positions, logprobs in part:
                values[positions] = logprobs
        ahead = values - batch.lists("logprobs").values if "logprobs" in batch else np.zeros(len(values))
        self.gap = float(np.abs(ahead).mean()) if len(ahead) else 0.0
        batch = batch.with_columns(logprobs=Ragged(values, replies.offsets))
        cap = self.config.update.importance_cap
        if not cap:
            return batch
        factors = np.minimum(np.exp(np.minimum(ahead, 20.0)), cap)
        return batch.with_columns(**{CORRECTION: Ragged(factors, replies.offsets)})

    def _logprobs(self, batch: StepBatch) -> list[tuple[IntArray, Any]]:
        """Log-probabilities of this process's share of the reply tokens, and their places among all of them."""
        replies = batch.lists("response_ids")
        mine: list[tuple[IntArray, Any]] = []
        self.passes.begin(batch)
        (cut,) = self._cut(np.arange(len(batch)))
        for rows in cut.mine:
            tensor = self.passes.tensors(rows)
            with torch.no_grad():
                logs, _ = self.passes.scores(tensor)
            mine.append((replies.positions(rows), logs[tensor.response_mask.bool()].float().cpu().numpy()))
        return mine

    def _cut(self, *parts: IntArray) -> list[Cut]:
        """Passes over each part, rows by their numbers, within the budget."""
        cuts = [self.passes.cut(rows, self.budget.tokens) for rows in parts]
        self.budget.used = max(cut.largest for cut in cuts)
        return cuts

    def _within_memory(self, work: Callable[[], T]) -> T:
        """Do what changes no weight, in smaller passes when the device is full.

        Several processes pass through the model together; when one has no memory all go back.
        """
        if self.processes.size == 1:
            return self.budget.spend(work, self._forget)
        return self.budget.spend(functools.partial(self.processes.together, work), self._forget)

    def _forget(self) -> None:
        """Leave nothing of a pass that failed."""
        self.optimizer.zero_grad(set_to_none=True)
        self.model.zero_grad(set_to_none=True)
        if self.shards:
            was_training = self.model.training
            for shards in self.shards:
                shards.renew()
            self.model = self.actor = self.shards[0].model.train(was_training)
            self.reference = self.shards[1].model if len(self.shards) > 1 else None
            assert isinstance(self.passes, PaddedPasses)
            self.passes.turn_to(self.model, self.reference)

    def _with_gradient(self, batch: StepBatch, rows: IntArray) -> IntArray:
        """Those of the given row numbers that have a part in the gradient.

        A row of advantage zero has none unless it is also held to a reference or rewarded for entropy; leaving it out
        of the passes changes nothing but the time they take.
        """
        trained: IntArray = rows[(batch["advantage"][rows] != 0) | self.regularised[rows]]
        return trained

    def _weight(self, batch: StepBatch, rows: IntArray) -> float:
        """What the rows with the given numbers count together: the sum of their `token_weights`."""
        if self.config.update.aggregate == "step-mean":
            return float(len(rows))
        return float(batch.lists("response_ids").lengths[rows].sum())

    def _gradients(
        self, batch: StepBatch, trained: IntArray, normaliser: float
    ) -> tuple[dict[str, torch.Tensor], list[Cut]]:
        """Leave the gradients of the rows numbered `trained`; this process's sums for the metrics, and the passes.

        Rows with a KL term or an entropy bonus go through the model apart from those without, which need less of it.
        """
        settings, chosen = self.config.update, self.regularised[trained]
        parts = {True: trained[chosen], False: trained[~chosen]}
        # Without any rows there is an empty pass: several processes go through the model together.
        kinds = [kind for kind, rows in parts.items() if len(rows)] or [False]
        cuts = self._cut(*(parts[kind] for kind in kinds))
        passes = [(rows, kind) for cut, kind in zip(cuts, kinds) for rows in cut.mine]
        self.optimizer.zero_grad(set_to_none=True)
        sums: dict[str, torch.Tensor] = {}
        for number, (rows, regularised) in enumerate(passes, start=1):
            tensor = self.passes.tensors(rows)
            # First, while there is no graph of the other pass in memory.
            reference = self.passes.reference(tensor) if regularised and settings.kl_coef > 0 else None
            logs, entropy = self.passes.scores(
                tensor, entropy=True, entropy_gradient=regularised and settings.entropy_coef != 0
            )
            loss, values = loss_sum(
                tensor, logs, entropy, reference, settings, max(1.0, normaliser), regularised=regularised
            )
            if self.shards:
                self.shards[0].reduce(not self.once or number == len(passes))
            # FSDP averages gradients over processes; the loss is a share of a sum.
            (loss * self.processes.size).backward()
            if self.masters is not None:
                self.masters.collect()
            for name, value in values.items():
                sums[name] = sums.get(name, torch.zeros_like(value)) + value
        return sums, cuts

    def _step(self, batch: StepBatch, part: IntArray) -> tuple[dict[str, float], list[Cut]]:
        """One optimiser step over the rows numbered `part`: its metrics and its passes."""
        trained = self._with_gradient(batch, part)
        normaliser = self._weight(batch, part)
        sums, cuts = self._within_memory(functools.partial(self._gradients, batch, trained, normaliser))
        names = sorted(sums)
        stacked = self.processes.add(torch.stack([sums[name].float() for name in names]).cpu())
        metrics = dict(zip(names, stacked.tolist()))
        for name in (
            "clip_share",
            "kl_old",
            "entropy",
            "logprob_gap",
        ):  # means over what was run, not over the whole part
            metrics[name] *= normaliser / max(1.0, self._weight(batch, trained))
        norm = torch.nn.utils.clip_grad_norm_(self.parameters.values(), self.config.update.grad_clip)
        metrics["grad_norm"] = float(whole(norm).item())
        if not all(math.isfinite(value) for value in metrics.values()):
            bad = ", ".join(name for name, value in metrics.items() if not math.isfinite(value))
            raise NotFinite(
                f"Not finite: {bad}. Training stopped before the weights were changed. Lower update.lr, or check "
                "the rewards in the dumped batch."
            )
        for group in self.optimizer.param_groups:
            group["lr"] = rate(self.config.update, self.updates, self.progress)
        self.optimizer.step()
        self.updates += 1
        self._publish()
        return metrics, cuts

    def _publish(self) -> None:
        """Bring what the optimiser changed into the weights that passes read."""
        if self.masters is not None:
            self.masters.publish()
        self.passes.refresh()

    def sync(self) -> None:
        """Bring the trained weights into the actor."""
        if self.actor is self.model:
            return
        targets = dict(self.actor.named_parameters())
        with torch.no_grad():
            for name, parameter in self.parameters.items():
                targets[name].copy_(parameter.detach())

    def state(self) -> Tensors:
        """Weights and optimiser moments, as they are when asked for; of several processes all must ask together."""
        return State(self.parameters, self.optimizer)

    def restore(self, tensors: Tensors, updates: int) -> None:
        """Continue from what `state` gave after `updates` optimiser steps; only the first process reads tensors.

        Raises:
            BadFile: the tensors are those of another model.
        """
        restore(self.parameters, self.optimizer, tensors, updates, self.processes.first)
        self.updates = updates
        self._publish()
        self.sync()


def _widen(model: Any) -> None:
    """Give what is trained the optimiser's type, float32."""
    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.data = parameter.data.float()
