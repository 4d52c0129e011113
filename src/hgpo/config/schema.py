"""Every setting of a training run: one settings class per section, and what they must be together.

`hgpo train PRESET --settings` prints all of this.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Literal

from ..errors import BadSetting
from ..estimators.table import ESTIMATORS
from ..play.prompts import OWN, styles
from ..settings import Settings, build, setting, settings_of

MEMORIES = ("window", "full", OWN)
"""What the agent may remember, by name."""
COLDEST = 1e-4
"""The lowest temperature that is not 0."""


@dataclass(frozen=True)
class EnvConfig(Settings):
    """The environment and how it is run."""

    name: str = setting(
        "household", "The environment: a registered name, `module:Class` or `path/file.py:Class`."
    )
    settings: dict[str, Any] = setting(dict, "Settings of the environment itself.")
    split: str = setting("train", "The split whose tasks are trained on.")
    tasks: int = setting(0, "Use only the first so many tasks of the split; 0 uses all.", low=0)
    execution: Literal["inline", "process"] = setting(
        "inline", "Play in this process (native environments) or in supervised worker processes."
    )
    workers: int = setting(
        0,
        "At most this many environments are live at once; 0 means one per episode inline, 8 with processes.",
        low=0,
        high=65536,
    )
    step_timeout: float = setting(
        60.0,
        "Seconds after which a worker process counts as hung; to start, to reset and to list tasks it has three times "
        "as long, at least 30.",
        above=0,
        high=604800,
    )
    attempts: int = setting(
        3,
        "How often an episode is played when its environment fails, before its whole group is dropped.",
        low=1,
        high=1000,
    )
    max_reuse: int = setting(
        0, "A worker is replaced after this many episodes, where its memory grows; 0 never.", low=0
    )


@dataclass(frozen=True)
class AgentConfig(Settings):
    """What the agent sees and how it answers."""

    prompt: str = setting(
        "household",
        "Prompt style; `env` is the environment's own function `prompt(situation)`.",
        choices=lambda: [*styles(), OWN],
    )
    reasoning: bool = setting(True, "Ask for thoughts inside <think></think> before the action.")
    show_admissible: bool = setting(True, "List the admissible commands in the prompt.")
    show_status: bool = setting(
        False,
        "Say in the prompt what the agent knows of itself and would forget after K steps, where the environment tells "
        "it (what it carries and put where, what it chose and looked at), and how many steps it took.",
    )
    history_length: int = setting(
        2, "K: how many past (observation, action) pairs the prompt shows.", low=0, high=1000
    )
    memory: str = setting(
        "window",
        "What the prompt shows of the past: `window` (the last K pairs), `full` (all), `env` (the environment's own "
        "memory) or the address of a class with the methods of `hgpo.play.Memory`.",
    )
    max_steps: int = setting(50, "Longest episode.", low=1, high=1000000)
    max_prompt_tokens: int = setting(
        4096, "Longest prompt; longer ones give up their oldest memories first.", low=1, high=2**24
    )
    max_response_tokens: int = setting(512, "Longest reply.", low=1, high=2**24)
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
    dtype: Literal["float32", "bfloat16"] = setting("float32", "Precision of weights and arithmetic.")
    hidden: int = setting(128, "Width of the tiny model.", low=1, high=65536)
    layers: int = setting(3, "Depth of the tiny model.", low=1, high=1000)
    heads: int = setting(4, "Attention heads of the tiny model.", low=1, high=1024)
    intermediate: int = setting(256, "Width of the tiny model's feed-forward layers.", low=1, high=2**20)
    tokenizer: Literal["word", "exact", "bpe"] = setting(
        "word",
        "Tokenizer of the tiny model: one token a word in lower case, one a word with every text kept as it is, or "
        "byte-level pairs.",
    )
    vocabulary: int = setting(2048, "Largest vocabulary of a tokenizer made on the spot.", low=2, high=2**24)
    lora_rank: int = setting(
        0, "Train LoRA adapters of this rank instead of all weights; 0 trains all.", low=0, high=65536
    )
    lora_alpha: float = setting(0.0, "Scale of the adapters; 0 means twice the rank.", low=0, high=1e6)
    gradient_checkpointing: bool = setting(
        False, "Recompute activations in the backward pass: slower, far less memory."
    )
    attention: str = setting(
        "sdpa", "Attention kernel as transformers names it; `sdpa` needs no further package."
    )


@dataclass(frozen=True)
class WarmConfig(Settings):
    """Cloning demonstrations before reinforcement learning."""

    episodes: int = setting(0, "Episodes played or read to be cloned; 0 skips the warm start.", low=0)
    source: str = setting(
        "expert",
        "Where they come from: `expert` (the environment's own), `random` (random admissible play that succeeded), "
        "`format` (all random play: the form of a reply and nothing else), `auto` (the expert where there is one, else "
        "all random play with its successes repeated), or the path of a file of steps.",
    )
    each_type: bool = setting(
        False,
        "The types of task take turns, so that few episodes show something of each.",
    )
    epochs: int = setting(3, "Passes over them.", low=1)
    updates: int = setting(
        0, "At least so many updates: few demonstrations are passed over more often.", low=0
    )
    lr: float = setting(1e-3, "Peak learning rate, decayed linearly to a tenth.", low=0, high=1)
    batch_rows: int = setting(64, "Steps per update.", low=1)
    prompt_weight: float = setting(
        0.0,
        "Weight of predicting the prompt's own words as well; it teaches a model made from nothing to read.",
        low=0,
    )
    noise: float = setting(
        0.0,
        "Share of the expert's steps at which a random admissible command is played instead, so that the clone also "
        "sees how to come back from a mistake.",
        low=0,
        high=1,
    )
    clone_mistakes: bool = setting(
        False,
        "Clone those random commands too: a clumsy teacher, whom reinforcement learning has to surpass.",
    )


@dataclass(frozen=True)
class RolloutConfig(Settings):
    """What is played in one iteration."""

    tasks: int = setting(16, "Tasks per iteration.", low=1)
    group_size: int = setting(8, "Rollouts of each task.", low=1)
    temperature: float = setting(1.0, "Sampling temperature.", low=0, high=100)
    engine: str = setting(
        "hf",
        "What samples the replies, by its name in `hgpo.policies.engine`; `hf` is the transformers decoder in this "
        "process.",
    )
    batch_tokens: int = setting(131072, "Token positions in flight during generation.", low=1)
    memory_share: float = setting(
        0.35,
        "Share of the GPU's memory that the engine `vllm` keeps for weights and cache beside the update; `hf` takes "
        "what it needs.",
        above=0,
        below=1,
    )
    sleep: bool = setting(
        False, "The engine `vllm` gives its memory back during updates; waking costs seconds an iteration."
    )
    request_seeds: bool = setting(
        True,
        "Every request has a seed of its own, so that a reply does not depend on its batch. It slows the engine `vllm` "
        "down, which can do without; `hf` always has them.",
    )
    keep_every: int = setting(
        10,
        "Write the rollouts of every iteration that is a multiple of this, and of the last, to disk; 0 keeps none.",
        low=0,
    )


@dataclass(frozen=True)
class EstimatorConfig(Settings):
    """The advantage estimator. Its own settings keep their published defaults unless given here."""

    name: str = setting("hgpo", "Name in `hgpo.estimate`.", choices=lambda: ESTIMATORS)
    invalid_penalty: float = setting(
        0.1,
        "Reward taken from a step with an invalid action. The published runs take 0.1; `hgpo.estimate` by itself "
        "takes nothing.",
        low=0,
    )
    settings: dict[str, Any] = setting(dict, "Settings of the estimator itself, by its own names.")


@dataclass(frozen=True)
class UpdateConfig(Settings):
    """The policy update."""

    lr: float = setting(1e-6, "Learning rate of AdamW.", low=0, high=1)
    warmup: int = setting(0, "Updates over which the learning rate rises from 0.", low=0)
    schedule: Literal["constant", "linear", "cosine"] = setting(
        "constant", "How the learning rate falls over the iterations of the run."
    )
    lr_end: float = setting(
        0.0, "Share of `lr` that a falling schedule approaches at the end of the run.", low=0, high=1
    )
    weight_decay: float = setting(0.0, "AdamW's weight decay.", low=0)
    betas: tuple[float, float] = setting((0.9, 0.999), "AdamW's momentum factors.", low=0, below=1)
    epochs: int = setting(1, "Passes over each iteration's steps.", low=1)
    updates: int = setting(
        0, "Optimiser steps per pass, whatever the number of steps; 0 uses `minibatch_rows`.", low=0
    )
    minibatch_rows: int = setting(256, "Steps per optimiser step when `updates` is 0.", low=1)
    micro_tokens: int = setting(
        32768, "Token positions per forward pass; gradients add up over as many as a minibatch needs.", low=1
    )
    loss: str = setting(
        "ppo",
        "Policy loss: `ppo` (clipped, with dual clip), `gspo` (one ratio per reply), `cispo` (clipped weights) or "
        "`reinforce` (no ratio).",
    )
    clip_low: float = setting(0.2, "PPO clip below 1.", low=0, high=1)
    clip_high: float = setting(0.2, "PPO clip above 1.", low=0)
    dual_clip: float = setting(
        3.0, "Bound above 1 on the loss of steps with negative advantage; 0 turns it off.", low=0
    )
    kl_coef: float = setting(
        0.01, "Weight of the k3 KL to the starting policy; at 0 no reference model is kept.", low=0
    )
    entropy_coef: float = setting(0.0, "Weight of the entropy bonus.", low=0)
    regulariser_share: float = setting(
        1.0,
        "The share of the steps, drawn anew in every iteration, that the KL term and the entropy bonus are measured "
        "on; each of them counts for those left out. Fewer cost less time.",
        above=0.0,
        high=1.0,
    )
    aggregate: Literal["token-mean", "step-mean"] = setting(
        "token-mean", "Whether every token or every step weighs the same in the loss."
    )
    grad_clip: float = setting(1.0, "Largest gradient norm.", low=1e-6)
    old_logprobs: Literal["sampled", "recomputed"] = setting(
        "sampled", "Take the old log-probabilities from the rollout, or run the model once more."
    )
    importance_cap: float = setting(
        0.0,
        "Weigh every token by probability now / probability when sampled, at most this much, against an engine whose "
        "probabilities differ from the trainer's; needs `old_logprobs=recomputed`; 0 turns it off.",
        low=0,
    )
    filter_groups: bool = setting(False, "Leave out groups whose episodes all have the same return.")
    normalise_advantages: bool = setting(False, "Divide the advantages of a batch by their root mean square.")


@dataclass(frozen=True)
class EvalConfig(Settings):
    """Evaluation during training."""

    splits: tuple[str, ...] = setting(
        ("in-domain",), "Splits evaluated; the first decides the best checkpoint."
    )
    tasks: int = setting(128, "Tasks of each split's panel; 0 means all.", low=0)
    every: int = setting(
        5,
        "Evaluate after every so many iterations, before the first and after the last; 0 never evaluates.",
        low=0,
    )
    max_steps: int = setting(
        0,
        "Longest episode of an evaluation, here, in `hgpo eval` and under verl; 0 takes `agent.max_steps`.",
        low=0,
    )
    temperature: float = setting(0.4, "Sampling temperature.", low=0, high=100)
    seed: int = setting(123, "Seed of the evaluation during training.", low=0, high=2**32 - 1)


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

    env: EnvConfig = setting(EnvConfig, "The environment and how it is run.")
    agent: AgentConfig = setting(AgentConfig, "What the agent sees and how it answers.")
    model: ModelConfig = setting(ModelConfig, "The policy.")
    warm: WarmConfig = setting(WarmConfig, "The warm start: cloning demonstrations.")
    rollout: RolloutConfig = setting(RolloutConfig, "What is played in one iteration.")
    estimator: EstimatorConfig = setting(EstimatorConfig, "From steps to advantages.")
    update: UpdateConfig = setting(UpdateConfig, "The policy update.")
    eval: EvalConfig = setting(EvalConfig, "Evaluation during training.")
    track: TrackConfig = setting(TrackConfig, "Where metrics go besides metrics.jsonl.")
    seed: int = setting(0, "Decides everything random in the run.", low=0, high=2**32 - 1)
    iterations: int = setting(160, "Iterations of play and update.", low=0)
    save_every: int = setting(40, "A checkpoint after every so many iterations, and after the last.", low=1)
    keep: int = setting(1, "How many of the latest checkpoints are kept besides the best one.", low=1)
    device: str = setting("auto", "`auto` (a GPU where there is one), `cpu`, `cuda` or `cuda:N`.")
    deterministic: bool = setting(
        True,
        "Sum gradients on a GPU in a fixed order, so that the same seed gives the same run, bit for bit.",
    )
    threads: int = setting(0, "CPU threads of torch; 0 leaves its choice.", low=0, high=4096)
    name: str = setting("", "Name of the experiment; made from the settings when empty.")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_together(self)


def check_together(config: Config) -> None:
    """All that a field alone cannot say: settings that need each other, and forms that are no range or choice.

    Raises:
        BadSetting: the settings contradict each other.
        UnknownName: the estimator has no such setting.
    """
    model, update = config.model, config.update
    if model.path == "tiny" and model.hidden % (2 * model.heads):
        raise BadSetting(
            f"model.hidden={model.hidden} and model.heads={model.heads} were given; expected a width that gives every "
            "head an even number of units: a multiple of twice the number of heads."
        )
    for where, temperature in (("rollout", config.rollout.temperature), ("eval", config.eval.temperature)):
        check_temperature(temperature, f"{where}.temperature")
    if 0 < update.dual_clip <= 1:
        raise BadSetting(
            f"update.dual_clip={update.dual_clip} was given; expected 0 (off) or a number above 1."
        )
    if config.eval.every and not config.eval.splits:
        raise BadSetting(
            "eval.splits is empty; expected at least one split, or eval.every=0 for no evaluation."
        )
    if not re.fullmatch(r"auto|cpu|[a-z]+(:\d+)?", config.device):
        raise BadSetting(f"device={config.device!r} was given; expected auto, cpu, cuda or cuda:N.")
    resolved_estimator(config)


def check_temperature(temperature: float, where: str) -> None:
    """Refuse a temperature by which logits cannot be divided."""
    if 0 < temperature < COLDEST:
        raise BadSetting(
            f"{where}={temperature} was given; expected 0 (the likeliest token) or a number from {COLDEST:g}: logits "
            f"divided by less overflow."
        )


def estimator_settings(config: Config) -> dict[str, Any]:
    """What a run tells its estimator: the penalty, what follows other settings of the run, and what was given.

    All else stays at the estimator's published default. An estimator's field says itself what it follows: the depth
    of HGPO is K, the length of the agent's memory.
    """
    run = {"history_length": config.agent.history_length}
    known = settings_of(ESTIMATORS[config.estimator.name].settings)
    following = {name: run[one.follows] for name, one in known.items() if one.follows}
    return {**following, "invalid_penalty": config.estimator.invalid_penalty, **config.estimator.settings}


def resolved_estimator(config: Config) -> Any:
    """The estimator's settings object, every setting in its place."""
    name = config.estimator.name
    return build(ESTIMATORS[name].settings, estimator_settings(config), f"estimator {name!r}")


def experiment_name(config: Config) -> str:
    """The published naming scheme, for example `k2_hgpo_length_alpha1.0_baseGroup_False`."""
    if config.name:
        return config.name
    start = f"k{config.agent.history_length}_{config.estimator.name}"
    if config.estimator.name != "hgpo":
        return start
    s = resolved_estimator(config)
    return f"{start}_{s.weight_type}_alpha{s.length_weight_alpha}_baseGroup_{s.base_group}"
