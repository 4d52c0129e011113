"""Estimators against the truth of a real engine: groups of rollouts by a policy, valued from copies of their states.

One job is one rollout with its continuations, decided by its own seeds: the result is the same for any number of
processes. The estimators see all games as one batch, as in training.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..config.load import as_dict
from ..config.schema import Config
from ..config.stage import open_stage
from ..envs.actors import expert
from ..errors import BadSetting
from ..estimators.estimate import estimate
from ..estimators.table import ESTIMATORS
from ..play.policy import Policy
from ..play.record import record
from ..policies.engine import Source, check_engine, open_engine
from ..policies.scripted import SCRIPTED, ScriptedPolicy
from ..progress import Progress
from ..runs.evaluation import Target
from ..runs.rollout import draw_tasks
from ..settings import settings_of
from ..steps.batch import StepBatch
from ..steps.columns import FloatArray, IntArray
from .branches import Branched, MonteCarlo, branch
from .corrected import GameSums, compare
from .entries import OURS, Entry
from .processes import work_through
from .records import rounded

GAMMA = 0.95


@dataclass(frozen=True)
class GamesPlan:
    """Which games are played, by whom, and how well their states are valued."""

    target: Target
    """The policy and the settings it plays under: environment, prompts, memory, limits."""
    engine: str = "scripted"
    """What samples the replies: a name in `hgpo.policies.engine`."""
    url: str = ""
    noise: float = 0.0
    """Of the expert: the share of its steps that go wrong."""
    temperature: float = 1.0
    split: str = "train"
    games: int = 16
    rollouts: int = 8
    continuations: int = 32
    """Played from every state, for its value."""
    seed: int = 0
    gamma: float = GAMMA
    entries: tuple[Entry, ...] = ()

    @property
    def scripted(self) -> bool:
        """Whether a program plays rather than a model."""
        return self.engine == "scripted"


def check(plan: GamesPlan) -> None:
    """Say what cannot work before anything is played.

    Raises:
        BadSetting: the plan asks for what the lab cannot do.
        MissingExtra: a package of the policy's engine is missing.
    """
    check_engine(plan.engine)
    if plan.target.model == "random" and plan.scripted:
        raise BadSetting(
            "--policy random plays the same commands in every rollout of a game, so there is nothing to compare; "
            "use --policy expert --noise 1."
        )
    if plan.continuations < 2:
        raise BadSetting(
            f"{plan.continuations} continuation from each state was asked for; expected 2 or more: the noise of the "
            "values is measured from their differences."
        )
    if plan.target.config.env.execution == "process":
        raise BadSetting(
            "env.execution=process keeps the environment in another process, where it cannot be copied; use "
            "env.execution=inline."
        )


@dataclass(frozen=True)
class Seat:
    """What a process needs to play: opened once in each."""

    plan: GamesPlan
    play: Callable[[], Policy]
    stage: Any

    def branch(self, job: tuple[str, int]) -> tuple[tuple[str, int], Branched, float]:
        """One rollout and its continuations, and the processor seconds they took."""
        start = time.process_time()
        plan = self.plan
        found = branch(
            self.stage,
            self.play(),
            *job,
            seed=plan.seed,
            continuations=plan.continuations,
            gamma=plan.gamma,
        )
        return job, found, time.process_time() - start


def open_seat(plan: GamesPlan) -> Callable[[tuple[str, int]], tuple[tuple[str, int], Branched, float]]:
    """Open the environment and the policy of a plan in this process."""
    config = plan.target.config
    stage = open_stage(config)
    if plan.scripted:
        env = stage.expert_source

        def play() -> Policy:
            return ScriptedPolicy(lambda: expert(env), stage.style, plan.noise)

        return Seat(plan, play, stage).branch
    if "torch" in check_engine(plan.engine).packages:
        import torch

        torch.set_num_threads(1)  # sums depend on how many threads share them
    engine = open_engine(plan.engine, Source(config, stage, plan.target.model, url=plan.url))
    return Seat(plan, lambda: engine.policy(plan.temperature), stage).branch


def tasks(plan: GamesPlan) -> list[str]:
    """The games, drawn from the split by the seed."""
    stage = open_stage(plan.target.config)
    try:
        known = stage.tasks(plan.split)
        if plan.games > len(known):
            raise BadSetting(
                f"{plan.games} games were asked for, but the split {plan.split!r} has {len(known)}."
            )
        return [task for _, task in draw_tasks(known, 0, plan.games, plan.seed)]
    finally:
        stage.close()


@dataclass(frozen=True)
class PlayedGames:
    """All steps with their true advantages; arrays are [steps]."""

    batch: StepBatch
    game: IntArray
    """Number of the game."""
    true: FloatArray
    noise: FloatArray
    """Variance of the noise in `true`."""
    tasks: tuple[str, ...]
    processor_seconds: float = field(compare=False)

    def with_truth(self) -> StepBatch:
        """The batch with the columns `true_advantage` and `true_advantage_variance`."""
        return self.batch.with_columns(true_advantage=self.true, true_advantage_variance=self.noise)


def play(plan: GamesPlan, processes: int = 1) -> PlayedGames:
    """Play all rollouts and their continuations; what comes back does not depend on `processes`."""
    names = tasks(plan)
    jobs = [(task, index) for task in names for index in range(plan.rollouts)]
    found: dict[tuple[str, int], Branched] = {}
    seconds = [0.0]
    with Progress("lab", total=len(jobs)) as bar:

        def done(result: tuple[tuple[str, int], Branched, float]) -> None:
            job, branched, spent = result
            found[job] = branched
            seconds[0] += spent
            bar.add(1)

        work_through(functools.partial(open_seat, plan), jobs, processes, done)
    ordered = [found[job] for job in jobs]
    truth = [MonteCarlo.of(one, plan.gamma) for one in ordered]
    lengths = [len(one.episode.steps) for one in ordered]
    return PlayedGames(
        record([one.episode for one in ordered]),
        np.repeat(np.arange(len(jobs)) // plan.rollouts, lengths),
        np.concatenate([one.advantages for one in truth]),
        np.concatenate([one.noise for one in truth]),
        tuple(names),
        seconds[0],
    )


def settings_for(entry: Entry, config: Config) -> dict[str, Any]:
    """The settings of an entry; what follows the memory of the policy does so here too."""
    run = {"history_length": config.agent.history_length}
    known = settings_of(ESTIMATORS[entry.estimator].settings)
    following = {name: run[one.follows] for name, one in known.items() if one.follows}
    return {**following, **entry.settings}


def advantages(played: PlayedGames, entry: Entry, config: Config) -> FloatArray:
    """What an entry makes of the games. Float [steps]."""
    found = estimate(played.batch, entry.estimator, **settings_for(entry, config))
    return np.asarray(found.advantages, dtype=np.float64)


def summarise(plan: GamesPlan, played: PlayedGames) -> dict[str, Any]:
    """The document: every estimator over all games with intervals, and the sums of every game behind them."""
    config, count = plan.target.config, len(played.tasks)
    entries = [entry for entry in plan.entries if not entry.needs or entry.needs in played.batch]
    sums = [
        GameSums.of(advantages(played, entry, config), played.true, played.noise, played.game, count)
        for entry in entries
    ]
    labels = [entry.label for entry in entries]
    compared = compare(sums, labels.index(OURS) if OURS in labels else None)
    # One row per rollout: the flag of its last step.
    last = played.batch["step"] == 0
    by_game = [played.game == number for number in range(count)]
    won = played.batch.flag("success")
    squares = np.square(played.true)
    document = {
        "schema_version": 2,
        "kind": "games",
        "engine": config.env.name,
        "policy": policy_summary(plan),
        "plan": {
            "split": plan.split,
            "games": plan.games,
            "rollouts": plan.rollouts,
            "continuations": plan.continuations,
            "seed": plan.seed,
            "gamma": plan.gamma,
            "history_length": config.agent.history_length,
            "env": _public(as_dict(config)["env"]["settings"]),
        },
        "processor_seconds": played.processor_seconds,
        "success": float(won[last].mean()),
        "steps": len(played.true) / int(last.sum()),
        "noise_share": float(played.noise.sum() / squares.sum()) if squares.any() else 0.0,
        "games": [
            {
                "task": task,
                "success": float(won[last & rows].mean()),
                "steps": int(rows.sum()),
                "true_squares": float((squares - played.noise)[rows].sum()),
                "noise": float(played.noise[rows].sum()),
            }
            for task, rows in zip(played.tasks, by_game)
        ],
        "estimators": [
            {
                "estimator": entry.label,
                "name": entry.estimator,
                "settings": entry.settings,
                **found,
                "cross": one.cross.tolist(),
                "own": one.own.tolist(),
            }
            for entry, found, one in zip(entries, compared, sums)
        ],
    }
    return dict(rounded(document))


def policy_summary(plan: GamesPlan) -> dict[str, Any]:
    """Who played."""
    if plan.scripted:
        return {"name": plan.target.name, "noise": plan.noise}
    return {"name": plan.target.name, "engine": plan.engine, "temperature": plan.temperature}


def _public(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of an environment without where its data lie on this machine."""
    return {key: value for key, value in settings.items() if key != "data"}


def is_scripted(target: Target) -> bool:
    """Whether a target is a program rather than a folder of that name."""
    return target.model in SCRIPTED and not Path(target.model).exists()


def on_gpu(plan: GamesPlan) -> bool:
    """Whether the policy plays on a GPU of this machine, which several processes would only crowd."""
    if "torch" not in check_engine(plan.engine).packages:
        return plan.engine == "vllm"
    from ..models.device import pick_device

    return bool(pick_device(plan.target.config.device).type != "cpu")
