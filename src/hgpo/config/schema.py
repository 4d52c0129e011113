"""Every setting of a training run: one frozen dataclass per concern, a string under each field.

`settings.py` reads them from presets and the command line.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..settings import Settings, setting


@dataclass(frozen=True)
class EnvConfig(Settings):
    """The environment and how it is run."""

    name: str = setting("household", "Registered name of the environment, or `module:Class`.")
    settings: dict[str, Any] = setting(
        dict, 'Settings of the environment itself, for example `size = "tiny"` or `data = "..."`.'
    )
    split: str = setting("train", "The split whose tasks are trained on.")
    tasks: int = setting(0, "Use only the first so many tasks of the split; 0 uses all.")
    execution: str = setting(
        "inline",
        "`inline` plays in this process (native environments), `process` in supervised worker processes.",
    )
    workers: int = setting(
        0,
        "At most this many environments are live at once; 0 means one per episode inline, 8 with processes.",
    )
    step_timeout: float = setting(
        60.0, 'Seconds after which a worker process counts as hung (`execution = "process"`).'
    )
    attempts: int = setting(
        3, "How often an episode is played when its environment fails, before its whole group is dropped."
    )
    max_reuse: int = setting(
        0, "A worker is replaced after this many episodes (for environments whose memory grows); 0 never."
    )


@dataclass(frozen=True)
class AgentConfig(Settings):
    """What the agent sees and how it answers."""

    prompt: str = setting("household", "Prompt style: `household`, `webshop`, `generic` or `compact`.")
    reasoning: bool = setting(True, "Ask for thoughts inside <think></think> before the action.")
    show_admissible: bool = setting(True, "List the admissible commands in the prompt.")
    history_length: int = setting(2, "K: how many past (observation, action) pairs the prompt shows.")
    max_steps: int = setting(50, "Longest episode.")
    max_prompt_tokens: int = setting(4096, "Longer prompts give up their oldest memories first.")
    max_response_tokens: int = setting(512, "Longest reply.")
    inadmissible_is_invalid: bool = setting(
        False,
        "Count well-formed actions that do nothing now as invalid (the published runs count the form only).",
    )


@dataclass(frozen=True)
class ModelConfig(Settings):
    """The policy."""

    path: str = setting(
        "tiny", "A model folder or hub id, or `tiny` for a small transformer made on the spot."
    )
    dtype: str = setting("float32", "Weights and arithmetic: `float32` or `bfloat16`.")
    hidden: int = setting(128, "Width of the tiny model.")
    layers: int = setting(3, "Depth of the tiny model.")
    heads: int = setting(4, "Attention heads of the tiny model.")
    intermediate: int = setting(256, "Width of the tiny model's feed-forward layers.")
    tokenizer: str = setting(
        "word", "Tokenizer of the tiny model: `word` (one token a word) or `bpe` (byte-level pairs)."
    )
    vocabulary: int = setting(2048, "Largest vocabulary of a tokenizer made on the spot.")
    lora_rank: int = setting(0, "Train LoRA adapters of this rank instead of all weights; 0 trains all.")
    lora_alpha: float = setting(0.0, "Scale of the adapters; 0 means twice the rank.")
    gradient_checkpointing: bool = setting(
        False, "Recompute activations in the backward pass: slower, far less memory."
    )
    attention: str = setting(
        "sdpa", "Attention kernel as transformers names it; no extra package is needed for `sdpa`."
    )


@dataclass(frozen=True)
class WarmConfig(Settings):
    """Cloning the environment's honest expert before reinforcement learning."""

    episodes: int = setting(0, "Expert episodes to clone; 0 skips the warm start.")
    epochs: int = setting(3, "Passes over them.")
    lr: float = setting(1e-3, "Peak learning rate, decayed linearly to a tenth.")
    batch_rows: int = setting(64, "Steps per update.")
    prompt_weight: float = setting(
        0.0,
        "Weight of predicting the prompt's own words as well; it teaches a model made from nothing to read.",
    )
    noise: float = setting(
        0.0,
        "Share of the expert's steps at which a random admissible command is played instead, so that "
        "the clone also sees how to come back from a mistake.",
    )
    clone_mistakes: bool = setting(
        False,
        "Clone those random commands too: a clumsy teacher, whom reinforcement learning has to surpass.",
    )


@dataclass(frozen=True)
class RolloutConfig(Settings):
    """What is played in one iteration."""

    tasks: int = setting(16, "Tasks per iteration.")
    group_size: int = setting(8, "Rollouts of each task.")
    temperature: float = setting(1.0, "Sampling temperature.")
    engine: str = setting(
        "hf",
        "What samples the replies, by its name in `hgpo.policies.engine`; `hf` is the transformers decoder in this "
        "process.",
    )
    batch_tokens: int = setting(131072, "Token positions in flight during generation.")
    keep_every: int = setting(10, "Rollouts of every so manieth iteration are written to disk; 0 keeps none.")


@dataclass(frozen=True)
class EstimatorConfig(Settings):
    """Which advantage estimator and its settings."""

    name: str = setting("hgpo", "Name in `hgpo.estimate`.")
    gamma: float = setting(0.95, "Discount of the step returns.")
    settings: dict[str, Any] = setting(
        dict, "All other settings of the estimator, by its own names. `depth` defaults to `history_length`."
    )


@dataclass(frozen=True)
class UpdateConfig(Settings):
    """The policy update."""

    lr: float = setting(1e-6, "Learning rate of AdamW.")
    warmup: int = setting(0, "Updates over which the learning rate rises from 0.")
    weight_decay: float = setting(0.0, "AdamW's weight decay.")
    betas: tuple[float, float] = setting((0.9, 0.999), "AdamW's momentum factors.")
    epochs: int = setting(1, "Passes over each iteration's steps.")
    updates: int = setting(
        0, "Optimiser steps per pass, whatever the number of steps; 0 uses `minibatch_rows`."
    )
    minibatch_rows: int = setting(256, "Steps per optimiser step when `updates` is 0.")
    micro_tokens: int = setting(
        32768, "Token positions per forward pass; gradients add up over as many as a minibatch needs."
    )
    loss: str = setting(
        "ppo",
        "Policy loss: `ppo` (clipped, with dual clip), `gspo` (one ratio per reply), `cispo` (clipped weights) or "
        "`reinforce` (no ratio).",
    )
    clip_low: float = setting(0.2, "PPO clip below 1.")
    clip_high: float = setting(0.2, "PPO clip above 1.")
    dual_clip: float = setting(3.0, "Bound on the loss of steps with negative advantage; 0 turns it off.")
    kl_coef: float = setting(
        0.01, "Weight of the k3 KL to the starting policy; at 0 no reference model is kept."
    )
    entropy_coef: float = setting(0.0, "Weight of the entropy bonus.")
    aggregate: str = setting(
        "token-mean", "`token-mean` (every token equal) or `step-mean` (every step equal)."
    )
    grad_clip: float = setting(1.0, "Largest gradient norm.")
    invalid_penalty: float = setting(0.1, "Reward taken from steps with an invalid action.")
    old_logprobs: str = setting(
        "sampled",
        "`sampled` uses the log-probabilities of the rollout, `recomputed` runs the model once more.",
    )
    filter_groups: bool = setting(False, "Leave out groups whose episodes all have the same return.")
    normalise_advantages: bool = setting(False, "Divide the advantages of a batch by their root mean square.")


@dataclass(frozen=True)
class EvalConfig(Settings):
    """Evaluation during training."""

    splits: tuple[str, ...] = setting(("in-domain",), "Splits evaluated.")
    tasks: int = setting(128, "Tasks of each split's panel; 0 means all.")
    every: int = setting(
        5, "Evaluate after every so many iterations (and before the first and after the last); 0 never."
    )
    max_steps: int = setting(
        0, "Longest episode of an evaluation, here, in `hgpo eval` and under verl; 0 takes `agent.max_steps`."
    )
    temperature: float = setting(0.4, "Sampling temperature.")
    seed: int = setting(123, "Seed of the evaluation during training.")


@dataclass(frozen=True)
class TrackConfig(Settings):
    """Where metrics go besides metrics.jsonl."""

    tensorboard: bool = setting(
        False, "Also write TensorBoard event files (needs the `tensorboard` package)."
    )
    wandb: str = setting(
        "", "Weights & Biases project; `WANDB_API_KEY` and `WANDB_DIR` are honoured. Empty: off."
    )


@dataclass(frozen=True)
class Config(Settings):
    """A whole run."""

    env: EnvConfig = setting(EnvConfig, "The environment.")
    agent: AgentConfig = setting(AgentConfig, "Prompts and limits.")
    model: ModelConfig = setting(ModelConfig, "The policy.")
    warm: WarmConfig = setting(WarmConfig, "The warm start.")
    rollout: RolloutConfig = setting(RolloutConfig, "What is played.")
    estimator: EstimatorConfig = setting(EstimatorConfig, "From steps to advantages.")
    update: UpdateConfig = setting(UpdateConfig, "The policy update.")
    eval: EvalConfig = setting(EvalConfig, "Evaluation.")
    track: TrackConfig = setting(TrackConfig, "Trackers.")
    seed: int = setting(0, "Decides everything random in the run.")
    iterations: int = setting(160, "Iterations of play and update.")
    save_every: int = setting(40, "A checkpoint after every so many iterations, and after the last.")
    keep: int = setting(1, "How many of the latest checkpoints are kept besides the best one.")
    device: str = setting("auto", "`auto`, `cpu`, `cuda` or `cuda:N`.")
    deterministic: bool = setting(
        True,
        "Gradients on a GPU are summed in a fixed order, so that the same seed gives the same run, "
        "bit for bit.",
    )
    threads: int = setting(0, "CPU threads of torch; 0 leaves its choice.")
    name: str = setting("", "Name of the experiment; generated from the settings when empty.")


def experiment_name(config: Config) -> str:
    """The published naming scheme, for example `k2_hgpo_length_alpha1.0_baseGroup_False`."""
    if config.name:
        return config.name
    start = f"k{config.agent.history_length}_{config.estimator.name}"
    if config.estimator.name != "hgpo":
        return start
    given = config.estimator.settings
    kind = given.get("weight_type", "length")
    alpha, base = float(given.get("length_weight_alpha", 1.0)), bool(given.get("base_group", False))
    return f"{start}_{kind}_alpha{alpha}_baseGroup_{base}"
