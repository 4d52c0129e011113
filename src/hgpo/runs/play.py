"""Play a frozen panel once per seed and say how well it went, with intervals."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..config.schema import EvalConfig
from ..errors import EnvironmentFailed
from ..play import Episode, Job
from ..play.metrics import panel_metrics
from ..play.policy import Policy
from ..play.stage import Stage
from ..seeds import derive
from .folder import EvaluationFolder
from .panels import Panel, spread
from .statistics import over_tasks


@dataclass(frozen=True)
class Evaluation:
    """The outcome of a panel under several seeds."""

    panel: Panel
    seeds: tuple[int, ...]
    episodes: tuple[tuple[Episode, ...], ...]
    """[seed][task]"""
    temperature: float
    failures: int
    seconds: float

    @property
    def success_table(self) -> np.ndarray[Any, Any]:
        """[seeds, tasks] of 0 and 1."""
        return np.array([[float(one.success) for one in row] for row in self.episodes])

    def summary(self) -> dict[str, Any]:
        """The result as JSON: success overall, by seed and by type, with deviation and 95% interval."""
        table = self.success_table
        metrics = panel_metrics([episode for row in self.episodes for episode in row])
        by_seed = table.mean(axis=1)
        low, high = over_tasks(table)
        kinds: dict[str, list[int]] = {}
        for place, episode in enumerate(self.episodes[0]):
            kinds.setdefault(episode.kind or "all", []).append(place)
        return {
            "success": float(table.mean()),
            "success_std_over_seeds": float(by_seed.std(ddof=1)) if len(by_seed) > 1 else None,
            "success_interval_95": [low, high],
            "success_by_seed": {str(seed): float(value) for seed, value in zip(self.seeds, by_seed)},
            "success_by_type": {
                kind: {
                    "tasks": len(places),
                    "success": float(table[:, places].mean()),
                    "interval_95": list(over_tasks(table[:, places])),
                }
                for kind, places in sorted(kinds.items())
            },
            "score": metrics["score"],
            "steps": metrics["steps"],
            "episodes": int(table.size),
            "environment_failures": self.failures,
            "seconds": self.seconds,
            "panel": self.panel.summary().content(),
            "protocol": {
                "seeds": list(self.seeds),
                "temperature": self.temperature,
                "interval": "bootstrap over tasks, 95%",
            },
        }


def make_panel(stage: Stage, split: str, tasks: int = 0, max_steps: int = 0) -> Panel:
    """The panel of a split: all its tasks, or so many of them evenly spaced; `max_steps` 0 takes the agent's."""
    return Panel(
        stage.env.name,
        split,
        spread(stage.tasks(split), tasks),
        max_steps or stage.limits.max_steps,
        stage.env.settings,
        stage.world_version(),
    )


def make_panels(stage: Stage, settings: EvalConfig) -> dict[str, Panel]:
    """The panels on which a run is evaluated, by split; none without evaluation."""
    splits = settings.splits if settings.every else ()
    return {split: make_panel(stage, split, settings.tasks, settings.max_steps) for split in splits}


def run_panel(
    stage: Stage,
    policy: Policy,
    panel: Panel,
    seeds: Sequence[int],
    temperature: float,
    on_episode: Callable[[Episode], None] | None = None,
) -> Evaluation:
    """Play every task of the panel once per seed.

    Raises:
        EnvironmentFailed: a task could not be played to its end; a panel with holes is no panel.
    """
    began = time.monotonic()
    # All seeds at once: a GPU has room for them, and the slowest episode is waited for once.
    jobs = [
        Job(task, f"{task}@{place}#{number}", 0, derive("evaluation", seed, task))
        for number, seed in enumerate(seeds)
        for place, task in enumerate(panel.tasks)
    ]
    played = stage.play(policy, jobs, on_episode, panel.max_steps)
    if played.dropped:
        raise EnvironmentFailed(
            f"{len(played.dropped)} of {len(jobs)} episodes could not be played to their end "
            f"({played.causes[0] if played.causes else 'no cause given'}). Raise env.attempts, or "
            "repair the environment."
        )
    count = len(panel.tasks)
    episodes = tuple(played.episodes[start : start + count] for start in range(0, len(jobs), count))
    return Evaluation(panel, tuple(seeds), episodes, temperature, played.failures, time.monotonic() - began)


def write_logs(result: Evaluation, folder: EvaluationFolder, extra: Mapping[str, Any]) -> None:
    """Every episode in words, one log per seed, and the result with `extra` as JSON."""
    for seed, row in zip(result.seeds, result.episodes):
        lines = []
        for episode in row:
            lines.append(
                f"== {episode.task} type={episode.kind} success={episode.success} "
                f"score={episode.score:.3f} steps={len(episode.steps)}"
            )
            for step in episode.steps:
                lines.append(f"   [{step.index}] saw: {' '.join(step.observation.split())}")
                lines.append(f"   [{step.index}] did: {step.action} ({step.outcome})")
        share = float(np.mean([one.success for one in row]))
        lines.append(f"seed {seed}: success {share:.4f} over {len(row)} tasks")
        folder.write_log(seed, lines)
    folder.write_result(result.panel.split, {**result.summary(), **extra})
