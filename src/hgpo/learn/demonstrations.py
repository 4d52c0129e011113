"""What a warm start clones: episodes of the environment's expert, of random play, or of a file of recorded steps."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..config.schema import Config
from ..envs import answers
from ..envs.actors import Actor
from ..envs.prompt import Situation
from ..errors import BadFile, BadSetting, EnvironmentFailed
from ..play import Episode, Job, episode_metrics, record
from ..play.episode import task_kind
from ..play.memory import recalled
from ..play.policy import Policy
from ..play.stage import Stage
from ..policies.scripted import ExploringPolicy, ScriptedPolicy
from ..seeds import derive, generator
from ..steps.batch import StepBatch

FEW = 20
"""Fewer successful episodes than this are no demonstrations: a model would learn them by heart."""
OFTEN = 10
"""Where all random play is cloned, its successes stand in it as often as the rest, but none more often than this."""
ROUND, ENOUGH = 100, 3000
"""Play goes on by so many episodes until there are so many steps to clone, or `warm.episodes` were played."""


@dataclass(frozen=True)
class Demonstrations:
    """What there is to clone."""

    steps: StepBatch
    """Those to clone, with their `prompt` and `response`."""
    episodes: int
    """How many were played or read."""
    success: float
    """The share of them that succeeded."""
    kind: str = "expert"
    """Whose episodes they are, in words."""


def demonstrate(
    stage: Stage,
    config: Config,
    make_expert: Callable[[], Actor],
    on_episode: Callable[[Any], None] | None = None,
) -> Demonstrations:
    """At most `warm.episodes` episodes from where `warm.source` says.

    Args:
        stage: where they are played.
        config: the run.
        make_expert: a fresh expert of the environment, where that is the source.
        on_episode: called after every episode that was played.
    """
    source = config.warm.source
    if source == "auto" and has_expert(stage):
        source = "expert"
    if source == "expert":
        return _of_expert(stage, config, make_expert, on_episode)
    if source in ("random", "format", "auto"):
        return _of_chance(stage, config, source, on_episode)
    return _of_file(stage, config, Path(source))


def has_expert(stage: Stage) -> bool:
    """Whether the environment brings an expert."""
    return callable(getattr(stage.expert_source, "expert", None))


def _play(
    stage: Stage,
    config: Config,
    policy: Policy,
    whose: str,
    numbers: range,
    on_episode: Callable[[Any], None] | None,
) -> tuple[Episode, ...]:
    """The training tasks at the places `numbers` of an endless shuffled list, each in a group of its own."""
    tasks = stage.tasks(config.env.split, config.env.tasks)
    shuffled = [tasks[place] for place in generator("demonstrations", config.seed).permutation(len(tasks))]
    if config.warm.each_type:
        # Enough of them to find a seldom type; an environment may take long for each.
        some = shuffled[: 50 + 4 * config.warm.episodes]
        shuffled = in_turn(some, [_first_look(stage, task)[1] for task in some])
    jobs = [
        Job(
            task := shuffled[number % len(shuffled)],
            f"{task}@{number}",
            0,
            derive(config.seed, "expert", number),
        )
        for number in numbers
    ]
    played = stage.play(policy, jobs, on_episode)
    if not played.episodes:
        raise EnvironmentFailed(
            f"All {len(jobs)} episodes of {whose} were lost to failing environments. {played.causes[0]}"
        )
    return played.episodes


def in_turn(tasks: Sequence[str], types: Sequence[str]) -> list[str]:
    """The tasks, of the given types, in an order in which the types take turns as long as there are several left."""
    queues: dict[str, list[str]] = {}
    for task, kind in zip(tasks, types):
        queues.setdefault(kind, []).append(task)
    return [task for one in itertools.zip_longest(*queues.values()) for task in one if task is not None]


def _of_expert(
    stage: Stage,
    config: Config,
    make_expert: Callable[[], Actor],
    on_episode: Callable[[Any], None] | None,
) -> Demonstrations:
    """Only the expert's successful episodes, and of those its own steps unless its mistakes are asked for too."""
    policy = ScriptedPolicy(make_expert, stage.style, config.warm.noise)
    episodes: list[Episode] = []
    # Asked for by name, the expert plays all that was asked for; else as much as there is need of.
    size = ROUND if config.warm.source == "auto" else config.warm.episodes
    for start in range(0, config.warm.episodes, size):
        numbers = range(start, min(config.warm.episodes, start + size))
        episodes += _play(stage, config, policy, "the expert", numbers, on_episode)
        if sum(len(one.steps) for one in episodes if one.success) >= ENOUGH:
            break
    cloned = [
        episode.success and (config.warm.clone_mistakes or (episode.name, step.index) not in policy.noisy)
        for episode in episodes
        for step in episode.steps
    ]
    if not any(cloned):
        raise BadSetting(
            f"The expert of {config.env.name} solved none of {config.warm.episodes} tasks within max_steps="
            f"{config.agent.max_steps}; nothing can be cloned. Raise max_steps or set warm.episodes=0."
        )
    batch = record(episodes)
    return Demonstrations(batch.take(np.array(cloned)), len(episodes), episode_metrics(batch)["success"])


def _of_chance(
    stage: Stage, config: Config, source: str, on_episode: Callable[[Any], None] | None
) -> Demonstrations:
    """Random play: the episodes that succeeded (`random`), all of them, which teach the form of a reply and nothing
    else (`format`), or all with those that succeeded repeated (`auto`)."""
    policy = ExploringPolicy(stage.style)
    episodes: list[Episode] = []
    solved: list[Episode] = []
    for start in range(0, config.warm.episodes, ROUND):
        numbers = range(start, min(config.warm.episodes, start + ROUND))
        episodes += _play(stage, config, policy, "random play", numbers, on_episode)
        solved = [episode for episode in episodes if episode.success]
        if sum(len(one.steps) for one in (solved if source == "random" else episodes)) >= ENOUGH:
            break
    share = len(solved) / len(episodes)
    if source == "random" and not solved:
        raise BadSetting(
            f"Random play solved none of {len(episodes)} tasks of {config.env.name}; nothing can be cloned. Raise "
            "warm.episodes, or begin with the form of a reply alone: warm.source=format."
        )
    if source == "random":
        return Demonstrations(record(solved), len(episodes), share, "random, the solved ones")
    if source == "format" or len(solved) < FEW:
        return Demonstrations(record(episodes), len(episodes), share, "random, for the form of a reply")
    # A clumsy teacher: it shows what success looks like, and most of what can be done; the rest is left to learning.
    batch = record(episodes)
    good = np.flatnonzero(batch.flag("success"))
    rest = len(batch) - len(good)
    rows = np.concatenate(
        [np.arange(len(batch)), *[good] * min(OFTEN - 1, max(0, round(rest / len(good)) - 1))]
    )
    return Demonstrations(batch.take(rows), len(episodes), share, "random, the solved ones more often")


def _of_file(stage: Stage, config: Config, path: Path) -> Demonstrations:
    """The successful trajectories of a file of steps; all, where it does not say which those are.

    Prompts and replies are written anew from observations and actions, in the style of this run.
    """
    if not path.is_file():
        raise BadFile(
            f"warm.source={path} was given, and there is no such file. Expected auto, expert, random, format, or a "
            "file of steps (.jsonl or .parquet, docs/steps.md)."
        )
    batch = StepBatch.read(path)
    if "action" not in batch:
        raise BadFile(f"{path} has no column `action`, so there is nothing to clone (docs/steps.md).")
    names = batch.encoded("trajectory").codes
    tasks = batch.encoded("task").codes
    known = list(dict.fromkeys(zip(tasks.tolist(), names.tolist())))
    good = batch.flag("success") if "success" in batch else np.ones(len(batch), bool)
    solved = dict.fromkeys((t, n) for t, n, ok in zip(tasks.tolist(), names.tolist(), good.tolist()) if ok)
    chosen = set(list(solved)[: config.warm.episodes])
    if not chosen:
        raise BadFile(f"{path} holds no successful trajectory, so there is nothing to clone.")
    rows = [number for number, pair in enumerate(zip(tasks.tolist(), names.tolist())) if pair in chosen]
    steps = batch.take(np.array(rows))
    order = steps.trajectories.order
    steps = steps.take(order)
    written = list(_written(stage, steps))
    return Demonstrations(
        steps.with_columns(prompt=[one[0] for one in written], response=[one[1] for one in written]),
        len(known),
        len(solved) / len(known),
        f"recorded in {path.name}",
    )


def _written(stage: Stage, steps: StepBatch) -> Iterator[tuple[str, str]]:
    """Prompt and reply of every step, trajectory by trajectory."""
    memory, at, goal, opening, begun = stage.memory(), 0, "", "", None
    shown = "admissible" in steps
    for row in steps.rows():
        name = (row["task"], row["trajectory"])
        if name != begun:
            begun, at, opening = name, 0, row["observation"]
            memory.reset()
            goal, _ = _first_look(stage, str(row.get("task_id") or row["task"]))
        commands = tuple(row.get("admissible") or ()) if shown else ()
        situation = Situation(goal, row["observation"], recalled(memory), at, commands, opening=opening)
        prompt = stage.style.render(situation)
        yield prompt, stage.style.reply(str(row["action"]), prompt)
        memory.add(row["observation"], str(row["action"]))
        at += 1


def _first_look(stage: Stage, task: str) -> tuple[str, str]:
    """The task in words and its type, as the environment says them; empty where it does not know the task."""
    with contextlib.suppress(Exception):
        seen = answers.contained(lambda: answers.observation(stage.expert_source.reset(task)))
        return str(seen.info.get("goal") or ""), task_kind(task, seen.info)
    return "", ""
