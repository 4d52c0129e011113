"""Our settings as verl's: every override that a run needs, in the order in which they are printed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..config.schema import Config, experiment_name
from ..errors import BadSetting, UnknownName
from ..runs.folder import RunFolder
from .names import AGENT, ESTIMATOR, MODES
from .settings import RUN_FOLDER, quote, write

# verl's own top-level sections: words on the command line that start with one of these go to verl as they are.
SECTIONS = (
    "actor_rollout_ref",
    "algorithm",
    "critic",
    "data",
    "distillation",
    "global_profiler",
    "hydra",
    "model_engine",
    "ray_kwargs",
    "reward",
    "skip",
    "trainer",
    "transfer_queue",
)

# Our names of the policy losses and verl's.
LOSS_MODES = {"ppo": "vanilla", "gspo": "gspo", "cispo": "cispo", "reinforce": "gpg"}


@dataclass(frozen=True)
class Cluster:
    """Where a run happens; everything else is in the training settings."""

    nodes: int = 1
    """Machines."""
    gpus: int = 1
    """GPUs of each machine."""
    engine: str = "vllm"
    """Rollout server: `vllm` or `sglang`."""
    mode: str = "sync"
    """`sync`, `colocate_async` or `separate_async`."""
    tensor_parallel: int = 1
    """GPUs that share one rollout server."""
    gpu_memory: float = 0.6
    """Share of GPU memory for the rollout server."""
    offload: bool = False
    """Keep parameters and optimiser state in CPU memory while the GPU samples."""
    workers: int = 8
    """Processes that run episodes."""
    rollout_nodes: int = 1
    """Machines with GPUs for rollouts only (`separate_async`)."""
    rollout_gpus: int = 0
    """GPUs for rollouts only on each of them (`separate_async`)."""
    ray_address: str = ""
    """Address of an existing Ray cluster (`auto` on one of its machines); empty starts a local one."""

    def __post_init__(self) -> None:
        for name in ("nodes", "gpus", "tensor_parallel", "workers"):
            if getattr(self, name) < 1:
                raise BadSetting(f"--{name.replace('_', '-')} is {getattr(self, name)}; expected 1 or more.")
        if self.mode not in MODES:
            raise UnknownName("mode", self.mode, MODES)
        if not 0.0 < self.gpu_memory < 1.0:
            raise BadSetting(f"--gpu-memory is {self.gpu_memory}; expected a share between 0 and 1.")
        if (self.nodes * self.gpus) % self.tensor_parallel:
            raise BadSetting(
                f"--tensor-parallel {self.tensor_parallel} does not divide the {self.nodes * self.gpus} GPUs."
            )
        if self.nodes > 1 and not self.ray_address:
            raise BadSetting(
                f"--nodes {self.nodes} needs a Ray cluster: start it with `ray start --head` and `ray start "
                "--address=HEAD:6379`, then give --ray-address auto."
            )
        if self.mode == "separate_async" and self.rollout_gpus < 1:
            raise BadSetting(
                "--mode separate_async needs GPUs of its own for rollouts: give --rollout-gpus N."
            )


def split_words(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Words of the command line: those for our settings, those that verl gets as they are.

    >>> split_words(["group_size=8", "trainer.project_name=x", "+ray_kwargs.ray_init.num_gpus=1"])
    (['group_size=8'], ['trainer.project_name=x', '+ray_kwargs.ray_init.num_gpus=1'])
    """
    ours: list[str] = []
    theirs: list[str] = []
    for word in words:
        section = word.lstrip("+~").partition("=")[0].partition(".")[0]
        (theirs if word[:1] in "+~" or section in SECTIONS else ours).append(word)
    return ours, theirs


def overrides(
    config: Config,
    cluster: Cluster,
    *,
    model: str,
    train: Path,
    validation: Sequence[Path],
    run: Path,
    resume: bool,
) -> list[str]:
    """All overrides of a run on GPUs, ours first (`+hgpo...`), then verl's."""
    agent, rollout, update = config.agent, config.rollout, config.update
    length = agent.max_prompt_tokens + agent.max_response_tokens
    ref = "actor_rollout_ref"
    settings: dict[str, Any] = {
        "trainer.v1.trainer_mode": MODES[cluster.mode],
        "algorithm.adv_estimator": ESTIMATOR,
        "algorithm.rollout_correction.bypass_mode": update.old_logprobs == "sampled",
        "algorithm.filter_groups.enable": update.filter_groups,
        "data.train_files": str(train),
        "data.val_files": [str(path) for path in validation],
        "data.train_batch_size": rollout.tasks,
        "data.max_prompt_length": agent.max_prompt_tokens,
        "data.max_response_length": agent.max_response_tokens,
        # The rows are in the order of training already.
        "data.shuffle": False,
        "data.dataloader_num_workers": 0,
        "data.trust_remote_code": False,
        f"{ref}.model.path": model,
        f"{ref}.model.trust_remote_code": False,
        f"{ref}.model.enable_gradient_checkpointing": config.model.gradient_checkpointing,
        # Packing rows without padding needs a kernel for it.
        f"{ref}.model.use_remove_padding": config.model.attention.startswith("flash"),
        f"+{ref}.model.override_config.attn_implementation": config.model.attention,
        f"{ref}.model.lora_rank": config.model.lora_rank,
        f"{ref}.model.lora_alpha": config.model.lora_alpha or 2 * config.model.lora_rank,
        f"{ref}.actor.strategy": "fsdp2",
        f"{ref}.actor.fsdp_config.strategy": "fsdp2",
        f"{ref}.actor.fsdp_config.dtype": config.model.dtype,
        f"{ref}.actor.fsdp_config.param_offload": cluster.offload,
        f"{ref}.actor.fsdp_config.optimizer_offload": cluster.offload,
        f"{ref}.ref.fsdp_config.strategy": "fsdp2",
        f"{ref}.ref.fsdp_config.dtype": config.model.dtype,
        # Rows of a mini-batch follow from the episodes' lengths; this one only has to divide the batch.
        f"{ref}.actor.ppo_mini_batch_size": rollout.tasks,
        f"{ref}.actor.ppo_epochs": update.epochs,
        f"{ref}.actor.shuffle": True,
        f"{ref}.actor.data_loader_seed": config.seed,
        f"{ref}.actor.use_dynamic_bsz": True,
        f"{ref}.actor.ppo_max_token_len_per_gpu": max(update.micro_tokens, length),
        f"{ref}.actor.optim.lr": update.lr,
        f"{ref}.actor.optim.lr_warmup_steps": _warmup(config),
        f"{ref}.actor.optim.weight_decay": update.weight_decay,
        f"{ref}.actor.optim.betas": list(update.betas),
        f"{ref}.actor.optim.clip_grad": update.grad_clip,
        f"{ref}.actor.grad_clip": update.grad_clip,
        f"{ref}.actor.policy_loss.loss_mode": loss_mode(update.loss),
        f"{ref}.actor.clip_ratio": update.clip_low,
        f"{ref}.actor.clip_ratio_low": update.clip_low,
        f"{ref}.actor.clip_ratio_high": update.clip_high,
        # verl has no switch for the dual clip; a bound this large never binds.
        f"{ref}.actor.clip_ratio_c": update.dual_clip or 1e9,
        f"{ref}.actor.use_kl_loss": update.kl_coef > 0,
        f"{ref}.actor.kl_loss_coef": update.kl_coef,
        f"{ref}.actor.kl_loss_type": "low_var_kl",
        f"{ref}.actor.entropy_coeff": update.entropy_coef,
        f"{ref}.actor.loss_agg_mode": {"step-mean": "seq-mean-token-mean"}.get(
            update.aggregate, "token-mean"
        ),
        f"{ref}.actor.checkpoint.save_contents": ["model", "optimizer", "extra", "hf_model"],
        f"{ref}.actor.checkpoint.load_contents": ["model", "optimizer", "extra"],
        f"{ref}.rollout.name": cluster.engine,
        f"{ref}.rollout.n": rollout.group_size,
        f"{ref}.rollout.temperature": rollout.temperature,
        f"{ref}.rollout.dtype": config.model.dtype,
        f"{ref}.rollout.seed": config.seed,
        f"{ref}.rollout.calculate_log_probs": True,
        f"{ref}.rollout.tensor_model_parallel_size": cluster.tensor_parallel,
        f"{ref}.rollout.gpu_memory_utilization": cluster.gpu_memory,
        f"{ref}.rollout.max_model_len": length,
        f"{ref}.rollout.agent.default_agent_loop": AGENT,
        f"{ref}.rollout.agent.num_workers": cluster.workers,
        f"{ref}.rollout.val_kwargs.temperature": config.eval.temperature,
        f"{ref}.rollout.val_kwargs.do_sample": config.eval.temperature > 0,
        "reward.num_workers": 1,
        "trainer.nnodes": cluster.nodes,
        "trainer.n_gpus_per_node": cluster.gpus,
        "trainer.total_training_steps": config.iterations,
        # Steps end the run, not passes over the rows.
        "trainer.total_epochs": 1_000_000,
        "trainer.save_freq": config.save_every,
        "trainer.max_actor_ckpt_to_keep": config.keep,
        "trainer.test_freq": config.eval.every or -1,
        "trainer.val_before_train": config.eval.every > 0 and not resume,
        "trainer.default_local_dir": str(RunFolder(run).checkpoint_parent),
        "trainer.resume_mode": "auto" if resume else "disable",
        "trainer.project_name": config.track.wandb or "hgpo",
        "trainer.experiment_name": experiment_name(config),
        "trainer.logger": _loggers(config),
        f"+{RUN_FOLDER}": str(run),
        "hydra.run.dir": str(RunFolder(run).hydra),
    }
    if cluster.mode == "separate_async":
        settings |= {
            "trainer.v1.separate_async.parameter_sync_step": 1,
            f"{ref}.rollout.nnodes": cluster.rollout_nodes,
            f"{ref}.rollout.n_gpus_per_node": cluster.rollout_gpus,
            f"{ref}.rollout.checkpoint_engine.backend": "nccl",
        }
    if cluster.ray_address:
        settings["+ray_kwargs.ray_init.address"] = cluster.ray_address
    return [*write(config), *(f"{key}={quote(value)}" for key, value in settings.items())]


def loss_mode(name: str) -> str:
    """verl's name of a policy loss; the arithmetic is the same."""
    if name not in LOSS_MODES:
        raise BadSetting(
            f"update.loss is {name!r}, which verl does not have; expected one of {', '.join(LOSS_MODES)}."
        )
    return LOSS_MODES[name]


def _warmup(config: Config) -> int:
    """Our warm-up counts optimiser steps, verl's scheduler iterations."""
    update = config.update
    return math.ceil(update.warmup / (max(1, update.updates) * update.epochs))


def _loggers(config: Config) -> list[str]:
    more = {"tensorboard": config.track.tensorboard, "wandb": bool(config.track.wandb)}
    return ["console", *(name for name, wanted in more.items() if wanted)]
