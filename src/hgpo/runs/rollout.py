"""One iteration's play: which tasks, how many rollouts, and the steps they leave."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..config.schema import Config
from ..errors import EnvironmentFailed
from ..play import Episode, Job, episode_metrics, record
from ..play.policy import Policy
from ..play.stage import Stage
from ..seeds import derive, generator
from ..steps.batch import StepBatch
from .peers import Peers


def draw_tasks(tasks: Sequence[str], cursor: int, count: int, seed: int) -> list[tuple[str, str]]:
    """(group, task) for the next `count` places of an endless sequence of seeded shuffles of `tasks`.

    A task that comes up twice in one draw (at the seam of two shuffles) forms two groups.
    """
    drawn: list[tuple[str, str]] = []
    seen: dict[str, int] = {}
    orders: dict[int, np.ndarray[Any, Any]] = {}
    for place in range(cursor, cursor + count):
        lap, seat = divmod(place, len(tasks))
        if lap not in orders:
            orders[lap] = generator("tasks", seed, lap).permutation(len(tasks))
        task = tasks[int(orders[lap][seat])]
        seen[task] = seen.get(task, 0) + 1
        drawn.append((task if seen[task] == 1 else f"{task}@{seen[task]}", task))
    return drawn


@dataclass(frozen=True)
class Rollout:
    """The steps of one iteration, all processes together."""

    batch: StepBatch
    """Group by group in the order of the draw, whichever process played them."""
    metrics: dict[str, float]


@dataclass(frozen=True)
class _Share:
    """What one process played."""

    batch: StepBatch | None
    """None when every group was lost."""
    dropped: int
    failures: int
    retries: int
    causes: tuple[str, ...]


def roll_out(
    stage: Stage,
    policy: Policy,
    config: Config,
    processes: Peers,
    tasks: Sequence[str],
    cursor: int,
    iteration: int,
    on_episode: Callable[[Episode], None] | None = None,
) -> Rollout:
    """Play `rollout.tasks` groups; each process plays its share of them and all get all steps.

    Raises:
        EnvironmentFailed: not one group could be played to its end.
    """
    drawn = draw_tasks(tasks, cursor, config.rollout.tasks, config.seed)
    jobs = [
        Job(
            task,
            group,
            index,
            derive(config.seed, "rollout", iteration, group, index),
            # Rollouts of a group are compared, so a random environment must start them alike.
            derive(config.seed, "start", iteration, group),
        )
        for place, (group, task) in enumerate(drawn)
        if place % processes.size == processes.rank
        for index in range(config.rollout.group_size)
    ]
    played = stage.play(policy, jobs, on_episode)
    strict = config.agent.inadmissible_is_invalid
    batch = record(played.episodes, inadmissible_is_invalid=strict) if played.episodes else None
    shares = processes.gather(
        _Share(
            batch,
            len(played.dropped),
            played.failures + stage.take_failures(),
            played.retries,
            played.causes,
        )
    )
    batches = [share.batch for share in shares if share.batch is not None]
    if not batches:
        causes = [cause for share in shares for cause in share.causes]
        raise EnvironmentFailed(
            f"All {len(drawn)} groups of iteration {iteration} were lost to failing environments. "
            f"{causes[0] if causes else ''}"
        )
    joined = join(batches, [group for group, _ in drawn])
    metrics = {
        **episode_metrics(joined),
        "dropped_groups": float(sum(share.dropped for share in shares)),
        "environment_failures": float(sum(share.failures for share in shares)),
        "episode_retries": float(sum(share.retries for share in shares)),
    }
    return Rollout(joined, metrics)


def join(batches: Sequence[StepBatch], groups: Sequence[str]) -> StepBatch:
    """The steps of several processes in the order in which one process would have played the groups."""
    if len(batches) == 1:
        return batches[0]
    parts: dict[str, StepBatch] = {}
    for batch in batches:
        group = batch.encoded("task")
        for code, name in enumerate(group.values):
            parts[name] = batch.take(group.codes == code)
    return StepBatch.concatenate([parts[name] for name in groups if name in parts])
