"""What becomes of every setting of a run under verl: one entry per field of the schema, none forgotten.

A field is translated into settings of verl, read by our own code inside verl, without effect there, or refused. A new
field of the schema needs an entry here; a test fails until it has one.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..config.schema import Config, experiment_name
from ..errors import BadSetting
from ..settings import settings_of
from .names import PACKED_ATTENTION

REF = "actor_rollout_ref"
ACTOR, ROLLOUT, MODEL = f"{REF}.actor", f"{REF}.rollout", f"{REF}.model"

# Our names of the policy losses and verl's.
LOSS_MODES = {"ppo": "vanilla", "gspo": "gspo", "cispo": "cispo", "reinforce": "gpg"}


@dataclass(frozen=True)
class Start:
    """What a run starts with besides its settings."""

    model: str
    """Folder or hub id of the policy."""
    run: Path
    """The run's folder."""
    resume: bool


@dataclass(frozen=True)
class Translated:
    """Becomes settings of verl."""

    settings: Callable[[Config, Start], dict[str, Any]]


@dataclass(frozen=True)
class Ours:
    """Read inside verl by our own code, or used by it before verl starts."""

    where: str


@dataclass(frozen=True)
class WithoutEffect:
    """Has nothing to change under verl."""

    reason: str


@dataclass(frozen=True)
class Refused:
    """Cannot be had under verl: any other value than the default is an error."""

    reason: str


Fate = Translated | Ours | WithoutEffect | Refused

_LOOP = Ours("the agent loop")
_ROWS = Ours("the dataset's rows")
_START = Ours("the model that the run starts from, made before verl starts")
_TRAINER = Ours("the trainer")
_ADVANTAGES = Ours("the trainer's advantage step")


def _lengths(config: Config, start: Start) -> dict[str, Any]:
    agent = config.agent
    length = agent.max_prompt_tokens + agent.max_response_tokens
    return {
        "data.max_prompt_length": agent.max_prompt_tokens,
        "data.max_response_length": agent.max_response_tokens,
        f"{ROLLOUT}.max_model_len": length,
        f"{ACTOR}.ppo_max_token_len_per_gpu": pass_tokens(config),
    }


def pass_tokens(config: Config) -> int:
    """Tokens of a pass: `update.micro_tokens`, and never less than one row may have."""
    agent = config.agent
    longest = agent.max_prompt_tokens + agent.max_response_tokens
    return max(longest, config.update.micro_tokens)


def packs(config: Config) -> bool:
    """Whether rows stand end to end in a pass, without padding: it takes a kernel that keeps them apart."""
    return config.model.attention == "sdpa" or config.model.attention.startswith("flash")


def lora_alpha(config: Config) -> float:
    """The scale of the adapters."""
    return config.model.lora_alpha or 2 * config.model.lora_rank


def _rate(config: Config, start: Start) -> dict[str, Any]:
    """Rise and fall of the learning rate.

    Our rise counts optimiser steps, verl's scheduler iterations, by default from 0: the first iteration would train at
    rate 0, that is, not at all. Only verl's cosine can count from 1, and a cosine that falls to 1 is constant. verl's
    fall begins where its rise ends; ours runs over the whole run.
    """
    update = config.update
    if update.schedule == "linear":
        raise BadSetting(
            "update.schedule is 'linear', which verl does not have; expected constant or cosine."
        )
    rise = math.ceil(update.warmup / (max(1, update.updates) * update.epochs))
    end = update.lr_end if update.schedule == "cosine" else 1.0
    return {
        f"{ACTOR}.optim.lr_warmup_steps": rise,
        f"{ACTOR}.optim.lr_scheduler_type": "cosine" if rise else update.schedule,
        f"{ACTOR}.optim.min_lr_ratio": end,
        f"{ACTOR}.optim.zero_indexed_step": not rise,
    }


def loss_mode(name: str) -> str:
    """verl's name of a policy loss; the arithmetic is the same."""
    if name not in LOSS_MODES:
        raise BadSetting(
            f"update.loss is {name!r}, which verl does not have; expected one of {', '.join(LOSS_MODES)}."
        )
    return LOSS_MODES[name]


def _trackers(config: Config, start: Start) -> dict[str, Any]:
    more = {"tensorboard": config.track.tensorboard, "wandb": bool(config.track.wandb)}
    return {
        "trainer.logger": ["console", *(name for name, wanted in more.items() if wanted)],
        "trainer.project_name": config.track.wandb or "hgpo",
    }


FATES: dict[str, Fate] = {
    "env.name": _LOOP,
    "env.settings": _LOOP,
    "env.split": _ROWS,
    "env.tasks": _ROWS,
    "env.execution": _LOOP,
    "env.workers": _LOOP,
    "env.step_timeout": _LOOP,
    "env.attempts": _LOOP,
    "env.max_reuse": _LOOP,
    "agent.prompt": _LOOP,
    "agent.reasoning": _LOOP,
    "agent.show_admissible": _LOOP,
    "agent.show_status": _LOOP,
    "agent.history_length": _LOOP,
    "agent.memory": _LOOP,
    "agent.max_steps": _LOOP,
    "agent.max_prompt_tokens": Translated(_lengths),
    "agent.max_response_tokens": Translated(_lengths),
    "agent.inadmissible_is_invalid": _LOOP,
    "model.path": Translated(lambda config, start: {f"{MODEL}.path": start.model}),
    "model.dtype": Translated(
        lambda config, start: {
            f"{ACTOR}.fsdp_config.dtype": config.model.dtype,
            f"{REF}.ref.fsdp_config.dtype": config.model.dtype,
            f"{ROLLOUT}.dtype": config.model.dtype,
        }
    ),
    "model.hidden": _START,
    "model.layers": _START,
    "model.heads": _START,
    "model.intermediate": _START,
    "model.tokenizer": _START,
    "model.vocabulary": _START,
    "model.lora_rank": Translated(
        lambda config, start: {
            f"{MODEL}.lora_rank": config.model.lora_rank,
            f"{MODEL}.lora_alpha": lora_alpha(config),
        }
    ),
    "model.lora_alpha": Translated(lambda config, start: {f"{MODEL}.lora_alpha": lora_alpha(config)}),
    "model.gradient_checkpointing": Translated(
        lambda config, start: {f"{MODEL}.enable_gradient_checkpointing": config.model.gradient_checkpointing}
    ),
    "model.attention": Translated(
        lambda config, start: {
            f"+{MODEL}.override_config.attn_implementation": PACKED_ATTENTION
            if config.model.attention == "sdpa"
            else config.model.attention,
            f"{MODEL}.use_remove_padding": packs(config),
        }
    ),
    "warm.episodes": _START,
    "warm.source": _START,
    "warm.epochs": _START,
    "warm.each_type": _START,
    "warm.updates": _START,
    "warm.lr": _START,
    "warm.batch_rows": _START,
    "warm.prompt_weight": _START,
    "warm.noise": _START,
    "warm.clone_mistakes": _START,
    "rollout.tasks": Translated(
        lambda config, start: {
            "data.train_batch_size": config.rollout.tasks,
            # Rows of a mini-batch follow from the episodes' lengths; this one only has to divide the batch.
            f"{ACTOR}.ppo_mini_batch_size": config.rollout.tasks,
        }
    ),
    "rollout.group_size": Translated(lambda config, start: {f"{ROLLOUT}.n": config.rollout.group_size}),
    "rollout.temperature": Translated(
        lambda config, start: {f"{ROLLOUT}.temperature": config.rollout.temperature}
    ),
    "rollout.engine": Refused("verl has rollout servers of its own: choose one with --engine vllm or sglang"),
    "rollout.batch_tokens": WithoutEffect(
        "verl's rollout servers form their batches by free memory (--gpu-memory)"
    ),
    "rollout.memory_share": WithoutEffect("verl's rollout servers take their share by --gpu-memory"),
    "rollout.sleep": WithoutEffect("verl's rollout servers sleep as verl has them sleep"),
    "rollout.request_seeds": WithoutEffect("verl's rollout servers seed themselves"),
    "rollout.keep_every": _TRAINER,
    "estimator.name": _ADVANTAGES,
    "estimator.invalid_penalty": _ADVANTAGES,
    "estimator.settings": _ADVANTAGES,
    "update.lr": Translated(lambda config, start: {f"{ACTOR}.optim.lr": config.update.lr}),
    "update.warmup": Translated(_rate),
    "update.schedule": Translated(_rate),
    "update.lr_end": Translated(_rate),
    "update.weight_decay": Translated(
        lambda config, start: {f"{ACTOR}.optim.weight_decay": config.update.weight_decay}
    ),
    "update.betas": Translated(lambda config, start: {f"{ACTOR}.optim.betas": list(config.update.betas)}),
    "update.epochs": Translated(
        lambda config, start: {f"{ACTOR}.ppo_epochs": config.update.epochs, **_rate(config, start)}
    ),
    "update.updates": _TRAINER,
    "update.minibatch_rows": _TRAINER,
    "update.micro_tokens": Translated(_lengths),
    "update.loss": Translated(
        lambda config, start: {f"{ACTOR}.policy_loss.loss_mode": loss_mode(config.update.loss)}
    ),
    "update.clip_low": Translated(
        lambda config, start: {
            f"{ACTOR}.clip_ratio": config.update.clip_low,
            f"{ACTOR}.clip_ratio_low": config.update.clip_low,
        }
    ),
    "update.clip_high": Translated(
        lambda config, start: {f"{ACTOR}.clip_ratio_high": config.update.clip_high}
    ),
    # verl has no switch for the dual clip; a bound this large never binds.
    "update.dual_clip": Translated(
        lambda config, start: {f"{ACTOR}.clip_ratio_c": config.update.dual_clip or 1e9}
    ),
    "update.kl_coef": Translated(
        lambda config, start: {
            f"{ACTOR}.use_kl_loss": config.update.kl_coef > 0,
            f"{ACTOR}.kl_loss_coef": config.update.kl_coef,
            f"{ACTOR}.kl_loss_type": "low_var_kl",
        }
    ),
    "update.entropy_coef": Translated(
        lambda config, start: {f"{ACTOR}.entropy_coeff": config.update.entropy_coef}
    ),
    "update.regulariser_share": WithoutEffect(
        "verl measures the KL term and the entropy bonus on every step, which is the same on average"
    ),
    "update.aggregate": Translated(
        lambda config, start: {
            f"{ACTOR}.loss_agg_mode": {"token-mean": "token-mean", "step-mean": "seq-mean-token-mean"}[
                config.update.aggregate
            ]
        }
    ),
    "update.grad_clip": Translated(
        lambda config, start: {
            f"{ACTOR}.grad_clip": config.update.grad_clip,
            f"{ACTOR}.optim.clip_grad": config.update.grad_clip,
        }
    ),
    "update.old_logprobs": Translated(
        lambda config, start: {
            "algorithm.rollout_correction.bypass_mode": config.update.old_logprobs == "sampled"
        }
    ),
    "update.importance_cap": Translated(
        lambda config, start: (
            {
                "algorithm.rollout_correction.rollout_is": "token",
                "algorithm.rollout_correction.rollout_is_threshold": config.update.importance_cap,
            }
            if config.update.importance_cap
            else {}
        )
    ),
    "update.filter_groups": Translated(
        lambda config, start: {"algorithm.filter_groups.enable": config.update.filter_groups}
    ),
    "update.normalise_advantages": _ADVANTAGES,
    "eval.splits": _ROWS,
    "eval.tasks": _ROWS,
    "eval.every": Translated(
        lambda config, start: {
            "trainer.test_freq": config.eval.every or -1,
            "trainer.val_before_train": config.eval.every > 0 and not start.resume,
        }
    ),
    "eval.max_steps": _LOOP,
    "eval.temperature": Translated(
        lambda config, start: {
            f"{ROLLOUT}.val_kwargs.temperature": config.eval.temperature,
            f"{ROLLOUT}.val_kwargs.do_sample": config.eval.temperature > 0,
        }
    ),
    "eval.seed": _ROWS,
    "track.tensorboard": Translated(_trackers),
    "track.wandb": Translated(_trackers),
    "seed": Translated(
        lambda config, start: {
            f"{ACTOR}.data_loader_seed": config.seed,
            f"{ROLLOUT}.seed": config.seed,
        }
    ),
    "iterations": Translated(lambda config, start: {"trainer.total_training_steps": config.iterations}),
    "save_every": Translated(lambda config, start: {"trainer.save_freq": config.save_every}),
    "keep": Translated(lambda config, start: {"trainer.max_actor_ckpt_to_keep": config.keep}),
    "device": Ours("the model that the run starts from; verl trains on the GPUs of the cluster"),
    "deterministic": Ours(
        "the model that the run starts from; verl's own switch is "
        f"{ACTOR}.fsdp_config.full_determinism and {ROLLOUT}.full_determinism"
    ),
    "threads": WithoutEffect("verl's processes set their own number of threads"),
    "name": Translated(lambda config, start: {"trainer.experiment_name": experiment_name(config)}),
}


def fields(kind: Any = Config, prefix: str = "") -> Iterator[str]:
    """The names of all settings of the schema, with their sections."""
    for name, one in settings_of(kind).items():
        if dataclasses.is_dataclass(one.kind):
            yield from fields(one.kind, f"{name}.")
        else:
            yield f"{prefix}{name}"


def translate(config: Config, start: Start) -> dict[str, Any]:
    """verl's settings for `config`.

    Raises:
        BadSetting: a setting was given that cannot be had under verl.
    """
    defaults = Config()
    settings: dict[str, Any] = {}
    for name, fate in FATES.items():
        if isinstance(fate, Refused) and value_of(config, name) != value_of(defaults, name):
            raise BadSetting(f"{name}={value_of(config, name)!r} cannot be had under verl: {fate.reason}.")
        if isinstance(fate, Translated):
            settings |= fate.settings(config, start)
    return settings


def value_of(config: Config, name: str) -> Any:
    """The value of a setting by its whole name."""
    value: Any = config
    for part in name.split("."):
        value = getattr(value, part)
    return value
