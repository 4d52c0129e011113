"""One iteration's play: which tasks, how many rollouts, and the steps they leave."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..config.schema import Config
from ..errors import EnvironmentFailed
from ..learn.distributed import Processes
from ..play import Episode, Job, rows
from ..play.policy import Policy
from ..play.stage import Stage
from ..seeds import derive, generator


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

    rows: list[dict[str, Any]]
    """One dict per step, ready for `StepBatch.from_rows`."""
    metrics: dict[str, float]


def roll_out(
    stage: Stage,
    policy: Policy,
    config: Config,
    processes: Processes,
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
    found = stage.play(policy, jobs, on_episode)
    report = {
        "episodes": [
            [
                float(one.success),
                one.reward,
                len(one.steps),
                one.score,
                sum(step.outcome == "malformed" for step in one.steps),
                sum(step.outcome == "inadmissible" for step in one.steps),
                sum(step.shortened for step in one.steps),
                sum(len(step.response_ids) for step in one.steps),
                sum(len(step.prompt_ids) for step in one.steps),
            ]
            for one in found.episodes
        ],
        "rows": rows(found.episodes, inadmissible_is_invalid=config.agent.inadmissible_is_invalid),
        "dropped": len(found.dropped),
        "failures": found.failures,
        "retries": found.retries,
        "causes": list(found.causes),
    }
    parts = processes.gather(report)
    every = np.array([one for part in parts for one in part["episodes"]], dtype=float).reshape(-1, 9)
    if not len(every):
        causes = [cause for part in parts for cause in part["causes"]]
        raise EnvironmentFailed(
            f"All {len(drawn)} groups of iteration {iteration} were lost to failing environments. "
            f"{causes[0] if causes else ''}"
        )
    steps = every[:, 2].sum()
    metrics = {
        "success": float(every[:, 0].mean()),
        "return": float(every[:, 1].mean()),
        "score": float(every[:, 3].mean()),
        "episodes": float(len(every)),
        "steps": float(steps),
        "episode_length": float(every[:, 2].mean()),
        "malformed_share": float(every[:, 4].sum() / steps),
        "inadmissible_share": float(every[:, 5].sum() / steps),
        "shortened_share": float(every[:, 6].sum() / steps),
        "response_tokens": float(every[:, 7].sum()),
        "prompt_tokens": float(every[:, 8].sum()),
        "groups": float(len(drawn) - sum(part["dropped"] for part in parts)),
        "dropped_groups": float(sum(part["dropped"] for part in parts)),
        "environment_failures": float(sum(part["failures"] for part in parts)),
        "episode_retries": float(sum(part["retries"] for part in parts)),
    }
    gathered = [row for part in parts for row in part["rows"]]
    if processes.size > 1:
        # The same order as one process would have played them in.
        place = {group: number for number, (group, _) in enumerate(drawn)}
        gathered.sort(key=lambda row: place[row["task"]])
    return Rollout(gathered, metrics)
