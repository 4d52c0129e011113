"""The settings of a run in TRL's names, and which of them its `AsyncGRPOTrainer` cannot have."""

from __future__ import annotations

import math
from typing import Any

from ..config.schema import Config
from ..errors import BadSetting

LACKING = {
    "update.kl_coef": "it keeps no reference model",
    "update.entropy_coef": "its loss has no entropy bonus",
    "model.lora_rank": "give TRL's trainer a peft_config instead",
}
"""Settings that TRL's trainer cannot have, and why; each must be 0."""


def trainer_settings(config: Config, *, processes: int = 1) -> dict[str, Any]:
    """Arguments of TRL's `AsyncGRPOConfig` that mean what `config` says.

    One optimiser step takes `update.minibatch_rows` steps, in as many equal passes as `update.micro_tokens` asks for
    when all prompts and replies are as long as they may be; the last pass is filled up to the others.

    Args:
        config: the settings of a run.
        processes: training processes.

    Raises:
        BadSetting: a setting that TRL's trainer does not have.
    """
    update, agent, rollout = config.update, config.agent, config.rollout
    lacking = {
        "update.kl_coef": update.kl_coef,
        "update.entropy_coef": update.entropy_coef,
        "model.lora_rank": config.model.lora_rank,
    }
    for name, value in lacking.items():
        if value:
            raise BadSetting(
                f"{name} is {value}, which TRL's AsyncGRPOTrainer cannot have: {LACKING[name]}. Set {name}=0."
            )
    if update.loss != "ppo" or update.aggregate != "token-mean" or update.epochs != 1 or update.updates:
        raise BadSetting(
            f"update.loss={update.loss}, update.aggregate={update.aggregate}, update.epochs={update.epochs} and "
            f"update.updates={update.updates} were given; TRL's AsyncGRPOTrainer has update.loss=ppo, "
            "update.aggregate=token-mean, update.epochs=1 and update.updates=0 (with update.minibatch_rows)."
        )
    if rollout.temperature <= 0:
        raise BadSetting(
            f"rollout.temperature is {rollout.temperature:g}; TRL's trainer divides by it: expected more than 0."
        )
    longest = agent.max_prompt_tokens + agent.max_response_tokens
    share = math.ceil(update.minibatch_rows / processes)
    passes = math.ceil(share / max(1, update.micro_tokens // longest))
    steps = rollout.tasks * rollout.group_size * agent.max_steps
    return {
        "learning_rate": update.lr,
        "warmup_steps": update.warmup,
        **_schedule(config),
        "weight_decay": update.weight_decay,
        "adam_beta1": update.betas[0],
        "adam_beta2": update.betas[1],
        "max_grad_norm": update.grad_clip,
        "epsilon": update.clip_low,
        "epsilon_high": update.clip_high,
        "temperature": rollout.temperature,
        "num_generations": rollout.group_size,
        "max_completion_length": agent.max_response_tokens,
        "per_device_train_batch_size": math.ceil(share / passes),
        "gradient_accumulation_steps": passes,
        # The number of rows bounds a pass, not their tokens: otherwise an optimiser step has no fixed size.
        "token_budget": 0,
        # TRL drops rows that are older than this without a word beyond its metrics: those of one batch, at its longest.
        "max_staleness": math.ceil(steps / update.minibatch_rows) + 1,
        "gradient_checkpointing": config.model.gradient_checkpointing,
        "bf16": config.model.dtype == "bfloat16",
        "dtype": config.model.dtype,
        "seed": config.seed,
    }


def _schedule(config: Config) -> dict[str, Any]:
    """The fall of the learning rate, over TRL's `max_steps`."""
    update = config.update
    if update.schedule == "constant":
        return {"lr_scheduler_type": "constant_with_warmup"}
    if update.schedule == "cosine":
        ratio = {"min_lr_rate": update.lr_end}
        return {"lr_scheduler_type": "cosine_with_min_lr", "lr_scheduler_kwargs": ratio}
    if update.lr_end:
        raise BadSetting(
            f"update.lr_end is {update.lr_end}, which TRL's linear schedule cannot have: set update.lr_end=0, or "
            "update.schedule=cosine."
        )
    return {"lr_scheduler_type": "linear"}
