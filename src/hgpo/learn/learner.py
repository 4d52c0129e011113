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
from ..errors import BadFile, BadSetting, NotFinite
from ..models.lora import add_adapters
from ..models.out_of_memory import TokenBudget
from ..steps.batch import StepBatch
from ..steps.columns import IntArray, Ragged
from .batching import CORRECTION, minibatches
from .distributed import Processes, full, put, shard
from .kernels import choose_kernels, fixed_order
from .masters import Masters
from .objective import loss_sum
from .passes import Cut, PackedPasses, PaddedPasses, Passes, can_pack
from .schedule import rate

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

    `model` is trained; `actor` samples. They are one object unless the trained weights are sharded over
    processes or are adapters in a wider type than the one used for sampling; `sync` then copies them over.
    `parameters` is what the optimiser changes: the model's own weights (adapters are float32), or float32 copies of
    bfloat16 ones. `passes` is the way of rows through the model.
    """

    def __init__(self, model: Any, config: Config, processes: Processes, pad_id: int) -> None:
        self.config, self.processes, self.pad_id = config, processes, pad_id
        self.half = config.model.dtype == "bfloat16"
        self.lora = config.model.lora_rank > 0
        update = config.update
        check_correction(update)
        if self.lora:
            # Adapters start as no change; their first random half must be the same in every process.
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(config.seed)
                model = add_adapters(model, config.model)
        choose_kernels(model, processes.device)
        self.reference = None
        if update.kl_coef > 0 and not self.lora:
            self.reference = copy.deepcopy(model).requires_grad_(False).eval()
        # Alone, a bfloat16 model is trained and sampled from as it is, with float32 copies of its weights for the
        # optimiser. Sharded weights and adapters are float32 themselves; adapters are folded into bfloat16 weights for
        # packed passes and for sampling, everything else computes under autocast.
        whole = self.half and processes.size == 1 and not self.lora
        packed = processes.size == 1 and can_pack(model, config, processes.device)
        compute = "float32" if whole else config.model.dtype
        self.actor = model
        if processes.size > 1 or (self.half and self.lora and not packed):
            self.actor = copy.deepcopy(model).requires_grad_(False).eval()
        if self.half and not whole:
            for parameter in model.parameters():
                if parameter.requires_grad:
                    parameter.data = parameter.data.float()
        if config.model.gradient_checkpointing:
            model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
            if self.lora:
                model.enable_input_require_grads()
        if processes.size > 1:
            model = shard(model, processes)
            if self.reference is not None:
                self.reference = shard(self.reference, processes)
        self.model = model
        self.passes: Passes = (
            PackedPasses(model, self.reference, config, processes.device, pad_id)
            if packed
            else PaddedPasses(model, self.reference, config, processes, pad_id, compute)
        )
        self.parameters = {
            name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad
        }
        self.masters = Masters(self.parameters) if whole else None
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
        self.gap = 0.0
        """Mean distance of the trainer's log-probabilities from the sampler's, when they were last recomputed."""
        self.progress = 0.0
        self.budget = TokenBudget(update.micro_tokens, "update.micro_tokens")

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
                metrics, cut = self._within_memory(functools.partial(self._step, batch, part))
                apart = metrics.pop("logprob_gap")
                # Later steps have other weights than the sampler had.
                gap = apart if gap is None else gap
                for name, value in metrics.items():
                    totals[name] = totals.get(name, 0.0) + value
                steps += 1
                real, everything = real + cut.real, everything + cut.positions
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
        return self._within_memory(functools.partial(self._recompute, batch))

    def _recompute(self, batch: StepBatch) -> StepBatch:
        replies = batch.lists("response_ids")
        mine: list[tuple[IntArray, Any]] = []
        self.passes.begin(batch)
        for rows in self._cut(np.arange(len(batch))).mine:
            tensor = self.passes.tensors(rows)
            with torch.no_grad():
                logs, _ = self.passes.scores(tensor)
            mine.append((replies.positions(rows), logs[tensor.response_mask.bool()].float().cpu().numpy()))
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

    def _cut(self, rows: IntArray) -> Cut:
        """Passes over the rows with the given numbers, within the budget."""
        cut = self.passes.cut(rows, self.budget.tokens)
        self.budget.used = cut.largest
        return cut

    def _within_memory(self, work: Callable[[], T]) -> T:
        """Do what changes no weight before its end, in smaller passes when the device is full.

        Several processes pass through the model together; none can go back alone.
        """
        if self.processes.size > 1:
            return work()
        return self.budget.spend(work, lambda: self.model.zero_grad(set_to_none=True))

    def _with_gradient(self, batch: StepBatch, rows: IntArray) -> IntArray:
        """Those of the given row numbers that have a part in the gradient.

        A row of advantage zero has none unless every row is also held to a reference or rewarded for entropy;
        leaving it out of the passes changes nothing but the time they take.
        """
        if self.config.update.kl_coef or self.config.update.entropy_coef:
            return rows
        trained: IntArray = rows[batch["advantage"][rows] != 0]
        return trained

    def _weight(self, batch: StepBatch, rows: IntArray) -> float:
        """What the rows with the given numbers count together: the sum of their `token_weights`."""
        if self.config.update.aggregate == "step-mean":
            return float(len(rows))
        return float(batch.lists("response_ids").lengths[rows].sum())

    def _step(self, batch: StepBatch, part: IntArray) -> tuple[dict[str, float], Cut]:
        """One optimiser step over the rows numbered `part`: its metrics and its passes."""
        trained = self._with_gradient(batch, part)
        cut = self._cut(trained)
        normaliser = self._weight(batch, part)
        self.optimizer.zero_grad(set_to_none=True)
        sums: dict[str, torch.Tensor] = {}
        for rows in cut.mine:
            tensor = self.passes.tensors(rows)
            # First, while there is no graph of the other pass in memory.
            reference = self.passes.reference(tensor) if self.config.update.kl_coef > 0 else None
            logs, entropy = self.passes.scores(
                tensor, entropy=True, entropy_gradient=self.config.update.entropy_coef != 0
            )
            loss, values = loss_sum(
                tensor, logs, entropy, reference, self.config.update, max(1.0, normaliser)
            )
            # FSDP averages gradients over processes; the loss is a share of a sum.
            (loss * self.processes.size).backward()
            if self.masters is not None:
                self.masters.collect()
            for name, value in values.items():
                sums[name] = sums.get(name, torch.zeros_like(value)) + value
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
        metrics["grad_norm"] = float(full(norm).item())
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
        return metrics, cut

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
                targets[name].copy_(full(parameter.detach()))

    def state(self) -> dict[str, torch.Tensor]:
        """Weights and optimiser moments as whole CPU tensors (collective)."""
        result: dict[str, torch.Tensor] = {}
        for name, parameter in self.parameters.items():
            # clone: the tensors must survive further updates and must not share memory with one another.
            result[f"weight/{name}"] = full(parameter.detach()).cpu().clone()
            moments = self.optimizer.state.get(parameter, {})
            for key in ("exp_avg", "exp_avg_sq"):
                if key in moments:
                    result[f"{key}/{name}"] = full(moments[key]).cpu().clone()
        return result

    def restore(self, tensors_by_name: dict[str, torch.Tensor], updates: int) -> None:
        """Continue from what `state` gave after `updates` optimiser steps.

        Raises:
            BadFile: the tensors are those of another model.
        """
        for name, parameter in self.parameters.items():
            stored = tensors_by_name.get(f"weight/{name}")
            if stored is None or stored.shape != parameter.shape:
                given = "missing" if stored is None else f"of shape {tuple(stored.shape)}"
                raise BadFile(
                    f"The checkpoint belongs to another model: {name} is {given}, expected {tuple(parameter.shape)}. "
                    "Resume with the settings the run was started with, or choose another folder with --run."
                )
        self.updates = updates
        optimizer_state = self.optimizer.state_dict()
        with torch.no_grad():
            for number, (name, parameter) in enumerate(self.parameters.items()):
                put(parameter, tensors_by_name[f"weight/{name}"])
                if f"exp_avg/{name}" in tensors_by_name:
                    moments: dict[str, Any] = {"step": torch.tensor(float(updates))}
                    for key in ("exp_avg", "exp_avg_sq"):
                        moments[key] = torch.zeros_like(parameter)
                        put(moments[key], tensors_by_name[f"{key}/{name}"])
                    optimizer_state["state"][number] = moments
        # Where the count of steps has to lie depends on the kind of AdamW (fused: on the device); torch knows.
        self.optimizer.load_state_dict(optimizer_state)
        self._publish()
        self.sync()
