"""verl's trainer modes with our advantage step, mini-batches, group handling and records.

Everything else is verl's: `hgpo_sync`, `hgpo_colocate_async` and `hgpo_separate_async` are its own three modes with
the same mixin.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import transfer_queue as tq
from omegaconf import open_dict
from verl.trainer.ppo.v1.trainer_base import register_trainer
from verl.trainer.ppo.v1.trainer_colocate_async import PPOTrainerColocateAsync
from verl.trainer.ppo.v1.trainer_separate_async import PPOTrainerSeparateAsync
from verl.trainer.ppo.v1.trainer_sync import PPOTrainerSync
from verl.workers.utils.padding import response_from_nested

from ..errors import BadSetting
from ..play.metrics import PANEL
from ..runs.folder import RunFolder
from .adapters import merge_folder
from .advantage import PREFIX, Advantages, advantages, handed_over, logprob_gap
from .loop import RECORD
from .minibatch import Plan, plan
from .names import MODES
from .settings import read, run_folder
from .translation import lora_alpha
from .voice import say, say_row

PHASES = {
    "rollout": "gen",
    "logprobs": "old_log_prob",
    "reference": "ref",
    "estimate": "adv",
    "update": "update_actor",
    "weights": "update_weights",
    "save": "save_checkpoint",
    "eval": "testing",
}
"""Our names of the phases of an iteration, and verl's."""


class HgpoTrainer:
    """The overrides; mixed into verl's trainers, so `super()` is one of them."""

    mode = "sync"
    """verl's name of the mode."""

    def __init__(self, config: Any) -> None:
        self.hgpo = read(config)
        folder = run_folder(config)
        self.folder = RunFolder(Path(folder)) if folder else None
        self.plan: Plan | None = None
        _check(config)
        with open_dict(config):
            # The base class compares this string and looks its settings up by it.
            config.trainer.v1.trainer_mode = self.mode
            sampler = config.trainer.v1.sampler
            sampler.sync_refill_failed_groups = True
            if not sampler.custom_sampler.path:
                sampler.custom_sampler.path = f"pkg://{__package__}.buffer"
                sampler.custom_sampler.name = "WholeGroups" if self.mode == "sync" else "WholeGroupsAsync"
                chosen = config.algorithm.filter_groups
                sampler.sampler_kwargs = {
                    "train_batch_size": config.data.train_batch_size,
                    "filter_groups_metric": chosen.metric if chosen.enable else None,
                    "max_inflight_gen_batches": chosen.max_inflight_gen_batches,
                }
        super().__init__(config)  # type: ignore[call-arg]
        say("verl is up; its workers load the model and start the rollout servers")

    # What the terminal is told

    def on_init_end(self) -> None:
        super().on_init_end()  # type: ignore[misc]
        say("workers, model and rollout servers are up")

    def on_validate_begin(self) -> None:
        say("evaluating")
        super().on_validate_begin()  # type: ignore[misc]

    def on_step_begin(self) -> None:
        say(f"iteration {self.global_steps}: playing")  # type: ignore[attr-defined]
        super().on_step_begin()  # type: ignore[misc]

    # The mini-batch, derived from rows

    def _balance_batch(self, batch: Any, *args: Any, **kwargs: Any) -> Any:
        self.rows = len(batch)
        return super()._balance_batch(batch, *args, **kwargs)  # type: ignore[misc]

    def _get_required_batch_multiple(self, dp_size: int) -> int:
        chosen = self.hgpo.update
        self.plan = plan(self.rows, dp_size, updates=chosen.updates, minibatch_rows=chosen.minibatch_rows)
        return self.plan.total

    def _update_actor(self, batch: Any, metrics: dict[str, Any]) -> Any:
        assert self.plan is not None
        say(f"iteration {self.global_steps}: updating")  # type: ignore[attr-defined]
        metrics |= {f"{PREFIX}updates": self.plan.updates, f"{PREFIX}minibatch_rows": self.plan.rows}
        with self._mini_batch(self.plan.rows):
            return super()._update_actor(batch, metrics)  # type: ignore[misc]

    @contextlib.contextmanager
    def _mini_batch(self, rows: int) -> Iterator[None]:
        """verl takes prompts x rollouts as the rows of a mini-batch; for one call, let that be `rows` x 1."""
        config = self.config.actor_rollout_ref  # type: ignore[attr-defined]
        before = config.actor.ppo_mini_batch_size, config.rollout.n
        config.actor.ppo_mini_batch_size, config.rollout.n = rows, 1
        try:
            yield
        finally:
            config.actor.ppo_mini_batch_size, config.rollout.n = before

    # The difference between sampler and trainer

    def _compute_old_log_prob(self, batch: Any, metrics: dict[str, Any]) -> Any:
        result = super()._compute_old_log_prob(batch, metrics=metrics)  # type: ignore[misc]
        measured = self._measured(batch)
        if measured or self.hgpo.update.old_logprobs == "recomputed":
            fields = ["log_probs" if measured else "old_log_probs", "rollout_log_probs", "response_mask"]
            keys, partition = list(batch.keys), batch.partition_id
            data = tq.kv_batch_get(keys=keys, partition_id=partition, select_fields=fields)
            own, sampled, mask = (data[name] for name in fields)
            # The model's own output covers the prompt too, one place to the left.
            own = response_from_nested(own, mask) if measured else own
            gap = logprob_gap(*(list(one.unbind()) for one in (own, sampled, mask)))
            metrics |= {f"{PREFIX}{name}": value for name, value in gap.items()}
        return result

    def _measured(self, batch: Any) -> bool:
        """Where the sampler's log-probabilities are the old ones, the trainer's are computed too, now and then."""
        step, every = self.global_steps, self.hgpo.eval.every  # type: ignore[attr-defined]
        if self.hgpo.update.old_logprobs == "recomputed" or not (step == 1 or (every and step % every == 0)):
            return False
        before = dict(batch.extra_info)
        temperature = self.config.actor_rollout_ref.rollout.temperature  # type: ignore[attr-defined]
        batch.extra_info.update(
            {"calculate_entropy": False, "compute_loss": False, "temperature": temperature}
        )
        self.actor_rollout_wg.compute_log_prob(batch)  # type: ignore[attr-defined]
        batch.extra_info.clear()
        batch.extra_info.update(before)
        return True

    # The advantage step

    def _compute_advantage(self, batch: Any, metrics: dict[str, Any]) -> Any:
        keys, tags = list(batch.keys), list(batch.tags)
        data = tq.kv_batch_get(keys=keys, partition_id=batch.partition_id, select_fields=["extra_fields"])
        ours = advantages(_records(list(data["extra_fields"]), tags), self.hgpo)
        metrics |= ours.metrics
        with handed_over(ours.values):
            result = super()._compute_advantage(batch, metrics)  # type: ignore[misc]
        self._keep(ours, keys, batch.partition_id)
        return result

    # What is written beside verl's own files

    def _keep(self, ours: Advantages, keys: list[str], partition: str) -> None:
        """Write this iteration's steps, with the advantages read back from what verl trains on."""
        step, every = self.global_steps, self.hgpo.rollout.keep_every  # type: ignore[attr-defined]
        last = self.hgpo.iterations
        if self.folder is None or not every or (step % every and step != last):
            return
        fields = ["advantages", "response_mask", "prompts", "responses"]
        data = tq.kv_batch_get(keys=keys, partition_id=partition, select_fields=fields)
        columns = {name: list(data[name].unbind()) for name in fields}
        trained = []
        for place in ours.places.tolist():
            values = columns["advantages"][place][columns["response_mask"][place].bool()]
            trained.append(float(values[0]) if len(values) else math.nan)
        batch = ours.batch.with_columns(
            advantage=np.array(trained),
            iteration=np.full(len(trained), step),
            prompt_ids=[columns["prompts"][place].tolist() for place in ours.places.tolist()],
            response_ids=[columns["responses"][place].tolist() for place in ours.places.tolist()],
            verl_key=[keys[place] for place in ours.places.tolist()],
        )
        # Several local updates may share one global step (separate_async); none may overwrite another.
        self.folder.write_rollouts(batch, step, int(getattr(self, "local_trigger_step", 0)))

    def _validate(self) -> dict[str, Any]:
        metrics: dict[str, Any] = super()._validate()  # type: ignore[misc]
        if self.global_steps == 0:  # type: ignore[attr-defined]
            self._log({"iteration": 0, **_evaluated(metrics)})
        return metrics

    def _compute_metrics(
        self, batch: Any, metrics: dict[str, Any], timing_raw: Any, global_steps: int, epoch: int
    ) -> None:
        super()._compute_metrics(batch, metrics, timing_raw, global_steps=global_steps, epoch=epoch)  # type: ignore[misc]
        ours = {key[len(PREFIX) :]: value for key, value in metrics.items() if key.startswith(PREFIX)}
        learnt = {key[len("actor/") :]: value for key, value in metrics.items() if key.startswith("actor/")}
        seconds = {"seconds": timing_raw["step"]} if "step" in timing_raw else {}
        seconds |= {
            f"seconds/{ours}": timing_raw[name] for ours, name in PHASES.items() if name in timing_raw
        }
        tokens = metrics.get("perf/total_num_tokens")
        if tokens and seconds:
            seconds["tokens_per_second"] = float(tokens) / max(1e-9, timing_raw["step"])
        self._log({"iteration": global_steps, **ours, **learnt, **_evaluated(metrics), **seconds})

    def _save_checkpoint(self) -> None:
        super()._save_checkpoint()  # type: ignore[misc]
        if self.folder is not None and self.hgpo.model.lora_rank:
            # verl writes adapters and base under PEFT's names, which nothing can load as a model.
            step = self.global_steps  # type: ignore[attr-defined]
            merge_folder(self.folder.verl_model(step), lora_alpha(self.hgpo))

    def _load_checkpoint(self) -> None:
        super()._load_checkpoint()  # type: ignore[misc]
        if self.folder is not None:
            self.folder.path.mkdir(parents=True, exist_ok=True)
            # What came after the checkpoint will be written again.
            self.folder.rewind_metrics(self.global_steps or -1)  # type: ignore[attr-defined]

    def _log(self, row: dict[str, Any]) -> None:
        plain = {
            key: _plain(value) for key, value in row.items() if isinstance(value, int | float | np.number)
        }
        if self.folder is not None:
            self.folder.append_metrics(plain)
        say_row(plain)


def _records(fields: list[Any], tags: list[dict[str, Any]]) -> list[Any]:
    """Our record of each row; None for verl's padding, which copies the fields of a real row."""
    plain = [getattr(field, "data", field) for field in fields]
    return [None if tag.get("is_padding") else field.get(RECORD) for field, tag in zip(plain, tags)]


def _evaluated(metrics: dict[str, Any]) -> dict[str, Any]:
    """verl's validation metrics `val-aux/ENV:SPLIT/success/mean@1` under the local trainer's names."""
    result = {}
    for key, value in metrics.items():
        parts = key.split("/")
        if parts[0] in ("val-core", "val-aux") and len(parts) == 4 and parts[3].startswith("mean@"):
            split = parts[1].rpartition(":")[2]
            if parts[2] in PANEL:
                result[f"eval/{split}/{parts[2]}"] = value
    return result


def _plain(value: Any) -> Any:
    number = float(value)
    if not math.isfinite(number):
        return None
    return int(value) if isinstance(value, int | np.integer) and not isinstance(value, bool) else number


def _check(config: Any) -> None:
    """Settings of verl that our advantage step would silently ignore."""
    if config.algorithm.adv_estimator != "hgpo":
        raise BadSetting(
            f"algorithm.adv_estimator is {config.algorithm.adv_estimator!r}; these trainer modes compute advantages "
            "themselves: set it to hgpo and choose the estimator with +hgpo.estimator.name=grpo (or hgpo, gigpo, ...)."
        )
    if config.algorithm.use_kl_in_reward:
        raise BadSetting(
            "algorithm.use_kl_in_reward=True would be ignored: the advantages come from the environment's rewards. "
            "Use the KL loss instead (update.kl_coef, or actor_rollout_ref.actor.use_kl_loss=True)."
        )

    correction = config.algorithm.rollout_correction
    if correction.bypass_mode and (correction.rollout_is or correction.rollout_rs):
        raise BadSetting(
            f"algorithm.rollout_correction.rollout_is={correction.rollout_is} rollout_rs={correction.rollout_rs} would "
            "be ignored, for the sampler's log-probabilities are the old ones: set update.old_logprobs=recomputed."
        )


class HgpoTrainerSync(HgpoTrainer, PPOTrainerSync):  # type: ignore[misc]
    """Play, estimate, update, in turn."""

    mode = "sync"


class HgpoTrainerColocateAsync(HgpoTrainer, PPOTrainerColocateAsync):  # type: ignore[misc]
    """The next batch is played while this one is trained on, on the same GPUs."""

    mode = "colocate_async"


class HgpoTrainerSeparateAsync(HgpoTrainer, PPOTrainerSeparateAsync):  # type: ignore[misc]
    """Rollout servers on GPUs of their own."""

    mode = "separate_async"


def register() -> None:
    """Make the trainer modes known to verl in this process."""
    for trainer in (HgpoTrainerSync, HgpoTrainerColocateAsync, HgpoTrainerSeparateAsync):
        register_trainer(MODES[trainer.mode])(trainer)
