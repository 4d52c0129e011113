"""Play a frozen panel once per seed and say how well it went, with intervals."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..config.schema import EvalConfig
from ..errors import EndpointFailed, EnvironmentFailed
from ..play import Episode, Job
from ..play.episode import task_kind
from ..play.metrics import panel_metrics
from ..play.policy import Policy
from ..play.stage import Stage
from ..seeds import derive
from .failures import ways
from .folder import EvaluationFolder
from .panels import Panel, spread
from .peers import Alone, Peers
from .statistics import over_tasks


@dataclass(frozen=True)
class Lost:
    """An episode that could not be played to its end."""

    task: str
    seed: int
    reason: str


@dataclass(frozen=True)
class Evaluation:
    """The outcome of a panel under several seeds."""

    panel: Panel
    seeds: tuple[int, ...]
    episodes: tuple[tuple[Episode, ...], ...]
    """[seed][task]"""
    temperature: float
    failures: int
    """How many times an environment failed, retried or not."""
    seconds: float
    lost: tuple[Lost, ...] = ()
    """The episodes that could not be played to their end; they stand in `episodes` as not solved, without steps."""

    @property
    def success_table(self) -> np.ndarray[Any, Any]:
        """[seeds, tasks] of 0 and 1."""
        return np.array([[float(one.success) for one in row] for row in self.episodes])

    def holes(self) -> str:
        """A sentence about the episodes that could not be played to their end."""
        return (
            f"{len(self.lost)} of {self.success_table.size} episodes could not be played to their end and count as not "
            f"solved. {self.lost[0].reason}"
        )

    def metrics(self) -> dict[str, float]:
        """Means over all episodes: `success`, `return`, `score`; and `steps`, over those that were played."""
        everything = [episode for row in self.episodes for episode in row]
        finished = [episode for episode in everything if episode.steps]
        played, share = panel_metrics(finished), len(finished) / len(everything)
        return {name: value if name == "steps" else value * share for name, value in played.items()}

    def summary(self) -> dict[str, Any]:
        """The result as JSON: success overall, by seed and by type, with deviation and 95% interval."""
        table = self.success_table
        metrics = self.metrics()
        by_seed = table.mean(axis=1)
        low, high = over_tasks(table)
        kinds: dict[str, list[int]] = {}
        for place, column in enumerate(zip(*self.episodes)):
            kind = next((one.kind for one in column if one.steps), column[0].kind)
            kinds.setdefault(kind or "all", []).append(place)
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
                    "unsolved": ways(row[place] for row in self.episodes for place in places),
                }
                for kind, places in sorted(kinds.items())
            },
            "score": metrics["score"],
            "steps": metrics["steps"],
            "unsolved": ways(episode for row in self.episodes for episode in row),
            "episodes": int(table.size),
            "failed_episodes": len(self.lost),
            "failed": [asdict(one) for one in self.lost],
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
    peers: Peers | None = None,
) -> Evaluation:
    """Play every task of the panel once per seed; of several processes each plays its share, and all get the result.

    An episode that cannot be played to its end counts as not solved and is named in the result: leaving it out would
    make the panel another one, and giving all others up for it would help nobody.

    Raises:
        EnvironmentFailed, EndpointFailed: not one episode could be played to its end.
    """
    began = time.monotonic()
    # All seeds at once: a GPU has room for them, and the slowest episode is waited for once.
    jobs = [
        Job(task, f"{task}@{place}#{number}", 0, derive("evaluation", seed, task))
        for number, seed in enumerate(seeds)
        for place, task in enumerate(panel.tasks)
    ]
    peers = peers or Alone()
    shares = peers.gather(stage.play(policy, jobs[peers.rank :: peers.size], on_episode, panel.max_steps))
    done = {episode.group: episode for share in shares for episode in share.episodes}
    if not done:
        causes = [cause for share in shares for cause in share.causes]
        cause = causes[0] if causes else "no cause given"
        if any(share.unanswered for share in shares):
            raise EndpointFailed(f"None of {len(jobs)} episodes could be played to its end. {cause}")
        raise EnvironmentFailed(
            f"None of {len(jobs)} episodes could be played to its end ({cause}). Raise env.attempts, or repair the "
            "environment."
        )
    count = len(panel.tasks)
    everything = [
        done.get(job.group)
        or Episode(job.task, job.group, 0, job.seed, (), False, 0.0, task_kind(job.task, {}))
        for job in jobs
    ]
    episodes = tuple(tuple(everything[start : start + count]) for start in range(0, len(jobs), count))
    reasons = {group: reason for share in shares for group, reason in share.reasons.items()}
    lost = tuple(
        Lost(job.task, seeds[number // count], reasons.get(job.group, ""))
        for number, job in enumerate(jobs)
        if job.group not in done
    )
    seconds = time.monotonic() - began
    failures = sum(share.failures for share in shares)
    return Evaluation(panel, tuple(seeds), episodes, temperature, failures, seconds, lost)


def write_logs(result: Evaluation, folder: EvaluationFolder, extra: Mapping[str, Any]) -> list[Path]:
    """Every episode in words, one log per seed, and the result with `extra` as JSON; returns what was written."""
    written = []
    reasons = {(one.task, one.seed): one.reason for one in result.lost}
    for seed, row in zip(result.seeds, result.episodes):
        lines = []
        for episode in row:
            lines.append(
                f"== {episode.task} type={episode.kind} success={episode.success} "
                f"score={episode.score:.3f} steps={len(episode.steps)}"
            )
            if not episode.steps:
                lines.append(f"   could not be played to its end: {reasons.get((episode.task, seed), '')}")
            for step in episode.steps:
                lines.append(f"   [{step.index}] saw: {' '.join(step.observation.split())}")
                lines.append(f"   [{step.index}] did: {step.action} ({step.outcome})")
        share = float(np.mean([one.success for one in row]))
        lines.append(f"seed {seed}: success {share:.4f} over {len(row)} tasks")
        written.append(folder.write_log(seed, lines))
    written.append(folder.write_result(result.panel.split, {**result.summary(), **extra}))
    return written
