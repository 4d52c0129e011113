"""The policy a run starts from: loaded, or made and warm-started on the spot."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from ..config.load import as_dict
from ..config.schema import Config
from ..envs.actions import TAGS, action_form, parse
from ..envs.actors import RandomActor, expert
from ..errors import BadSetting
from ..learn.clone import clone, packs_clone, tokenised
from ..learn.demonstrations import Demonstrations, demonstrate
from ..learn.kernels import choose_kernels
from ..models.device import DTYPES
from ..models.folder import left_out, make_again, write_model
from ..models.load import load_model, save_model
from ..models.source import check_source
from ..models.tiny import make_tiny, make_tokenizer
from ..play import Job
from ..play.stage import Stage
from ..policies.scripted import ScriptedPolicy
from ..seeds import derive
from ..steps.batch import StepBatch
from .folder.card import start_card
from .tracking import Screen


def makes_start(config: Config) -> bool:
    """Whether the starting policy is made here rather than only loaded."""
    return config.model.path == "tiny" or config.warm.episodes > 0


def prepare(config: Config, stage: Stage, folder: Path, device: torch.device, screen: Screen) -> Path:
    """Make the starting policy in `folder` unless it is there; returns the folder.

    The folder appears whole or not at all, so an interrupted warm start is simply done again. One that was left
    out of a parcel is made again, and has to come out the same.
    """
    again = left_out(folder)
    if folder.is_dir() and not again:
        return folder
    if config.model.path == "tiny" and config.warm.episodes == 0:
        raise BadSetting(
            "model=tiny starts from random weights and needs episodes to learn its words and commands from: set "
            "warm.episodes to 100 or more (warm.source=format needs no expert), or give model=PATH."
        )
    check_source(config.model.path)
    demonstrations = demonstrate(
        stage, config, lambda: expert(stage.expert_source), _count(screen, config.warm.episodes)
    )
    screen.say(
        f"warm start: {demonstrations.episodes} episodes ({demonstrations.kind}; {demonstrations.success:.0%} solved), "
        f"{len(demonstrations.steps)} steps to clone"
    )
    model, tokenizer = _begin(config, stage, demonstrations, device)
    choose_kernels(model, device)
    steps = tokenised(demonstrations.steps, tokenizer)
    loss, total = 0.0, 0
    for number, total, latest in clone(model, steps, config, tokenizer.eos_token_id, device):
        loss = latest if math.isfinite(latest) else loss
        screen.now(f"warm start: update {number}/{total}  loss {loss:.3f}")
    screen.say(f"warm start: {total} updates, last loss {loss:.3f}")
    rounded = model.to(DTYPES[config.model.dtype])
    if again:
        make_again(folder, lambda partial: save_model(rounded, tokenizer, partial))
        return folder
    settings = as_dict(config)
    card = start_card(
        folder.resolve().name,
        settings,
        demonstrations.episodes,
        len(demonstrations.steps),
        demonstrations.kind,
    )
    write_model(folder, lambda partial: save_model(rounded, tokenizer, partial), settings, card=card)
    return folder


def _begin(
    config: Config, stage: Stage, demonstrations: Demonstrations, device: torch.device
) -> tuple[Any, Any]:
    """The model before cloning."""
    if config.model.path != "tiny":
        model, tokenizer = load_model(config.model.path, config.model, device)
        if packs_clone(model, config, device):
            return model, tokenizer
        if config.model.dtype != "float32":
            # Cloning changes weights by less than bfloat16 can hold: train in float32, round when saving.
            del model
            model, tokenizer = load_model(config.model.path, replace(config.model, dtype="float32"), device)
        if config.model.gradient_checkpointing:
            model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        return model, tokenizer
    steps = demonstrations.steps
    texts = [f"{prompt} {reply}" for prompt, reply in zip(steps["prompt"], steps["response"])]
    tokenizer = make_tokenizer(
        [*texts, *wander(stage, config)],
        config.model.tokenizer,
        config.model.vocabulary,
        [tag for tag in TAGS if any(tag in reply for reply in steps["response"])],
    )
    check_written(steps, tokenizer, stage, config.model.tokenizer)
    positions = config.agent.max_prompt_tokens + config.agent.max_response_tokens
    model = make_tiny(config.model, len(tokenizer), tokenizer.eos_token_id, config.seed, positions)
    return model.to(device), tokenizer


def check_written(steps: StepBatch, tokenizer: Any, stage: Stage, kind: str) -> None:
    """Refuse a tokenizer in which most replies of the demonstrations come out as other actions than they went in."""
    form = action_form(stage.expert_source)
    lost: dict[str, str] = {}
    pairs = dict(zip(steps["response"].tolist(), steps["prompt"].tolist()))
    for reply, prompt in pairs.items():
        tags, reasoning = stage.style.asks(prompt)
        ids = tokenizer(reply, add_special_tokens=False)["input_ids"]
        written = tokenizer.decode(ids, skip_special_tokens=True)
        meant, sent = (
            parse(text, tags=tags, reasoning=reasoning, form=form).action for text in (reply, written)
        )
        if meant != sent:
            lost[meant] = sent
    if 2 * len(lost) > len(pairs):
        meant, sent = next(iter(lost.items()))
        raise BadSetting(
            f"The tokenizer of the tiny model (model.tokenizer={kind}) cannot write {len(lost)} of {len(pairs)} "
            f"commands: {meant!r} becomes {sent!r}. Set model.tokenizer=exact, which keeps every text as it is, or "
            "let the environment take such commands (its action_form)."
        )


def wander(stage: Stage, config: Config, episodes: int = 64) -> list[str]:
    """Texts of random play on training tasks: words that the expert never needed but the policy will meet."""
    tasks = stage.tasks(config.env.split, config.env.tasks)
    jobs = [
        Job(tasks[number % len(tasks)], f"wander@{number}", 0, derive(config.seed, "wander", number))
        for number in range(episodes)
    ]
    wanderer = ScriptedPolicy(lambda: RandomActor(config.seed, otherwise="look"), stage.style)
    played = stage.play(wanderer, jobs)
    return [
        " ".join([step.prompt, step.next_observation, *step.admissible])
        for episode in played.episodes
        for step in episode.steps
    ]


def _count(screen: Screen, total: int) -> Callable[[Any], None]:
    done = [0]

    def one(_: Any) -> None:
        done[0] += 1
        screen.now(f"warm start: episode {done[0]}/{total}")

    return one
