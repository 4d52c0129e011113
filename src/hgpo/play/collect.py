"""Many episodes at once: a bounded set of environments, retries, and groups that stand or fall together.

A failed episode (the environment died, hung or raised) is played again with the same task and seed. When it
fails too often, or the policy's server gives no reply (by then it has been asked often enough), its whole
group is dropped and counted: a group with a missing member would be compared with itself on unequal terms,
and a truncated episode would teach that the environment's fault was the agent's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..envs.answers import cause
from ..envs.contract import TextEnv
from ..envs.pool import EnvPool
from ..errors import EndpointFailed, EnvironmentFailed
from .episode import Episode, Limits, inline, run_episode
from .memory import MemoryFactory
from .policy import Policy
from .prompts import PromptStyle
from .turns import Turns


@dataclass(frozen=True)
class Job:
    """One episode to play."""

    task: str
    group: str
    index: int
    seed: int
    start: int | None = None
    """Seed of the environment, shared by the rollouts of a group; `seed` when left out."""


@dataclass(frozen=True)
class Collection:
    """What came back."""

    # Left out of the repr, which asyncio makes of every finished task when it restores signal handlers.
    episodes: tuple[Episode, ...] = field(repr=False)
    """Finished episodes of complete groups, in the order of the jobs."""
    dropped: tuple[str, ...] = ()
    """Groups that lost an episode for good."""
    failures: int = 0
    """How many times an environment failed, retried or not."""
    retries: int = 0
    """How many episodes were played again."""
    causes: tuple[str, ...] = ()
    """What the failures said, first of each kind."""
    unanswered: int = 0
    """How many episodes ended because the policy's server gave no reply."""
    reasons: Mapping[str, str] = field(default_factory=dict)
    """Why each of the dropped groups was dropped."""


@dataclass
class _Counts:
    failures: int = 0
    retries: int = 0
    unanswered: int = 0
    dropped: dict[str, str] = field(default_factory=dict)
    causes: dict[str, None] = field(default_factory=dict)


async def collect(
    jobs: Sequence[Job],
    pool: EnvPool,
    policy: Policy,
    memory: MemoryFactory,
    *,
    style: PromptStyle,
    limits: Limits,
    attempts: int = 3,
    on_episode: Callable[[Episode], None] | None = None,
) -> Collection:
    """Play all jobs, at most `pool.limit` at a time, and return the episodes of complete groups."""
    counts, finished = _Counts(), dict[int, Episode]()
    gate = asyncio.Semaphore(pool.limit)
    call: Callable[[Callable[[], Any]], Awaitable[Any]] = pool.call if pool.blocking else inline

    left = [len(jobs)]
    # Those that wait at the gate count: they are on their way as soon as one ends.
    turns = Turns(policy, lambda: min(pool.limit, left[0]))
    taken = pool.blocking and getattr(policy, "batched", False)

    async def in_turn(position: int, job: Job) -> None:
        try:
            await play(position, job)
        finally:
            left[0] -= 1
            turns.look()

    async def play(position: int, job: Job) -> None:
        async with gate:
            reason = ""
            for attempt in range(attempts):
                if job.group in counts.dropped:
                    return
                env, used = None, 0
                try:
                    env, used = await _take(pool, job.task)
                    episode = await run_episode(
                        env,
                        turns.of(position) if taken else policy,
                        memory(),
                        task=job.task,
                        style=style,
                        limits=limits,
                        seed=job.seed,
                        group=job.group,
                        index=job.index,
                        start=job.start,
                        call=call,
                        env_name=pool.name,
                    )
                except EnvironmentFailed as error:
                    counts.failures += 1
                    reason = str(error)
                    counts.causes.setdefault(reason)
                    if env is not None:
                        await pool.give(env, used, broken=True)
                    if attempt + 1 < attempts:
                        counts.retries += 1
                    continue
                except EndpointFailed as error:
                    reason = str(error)
                    counts.unanswered += 1
                    counts.causes.setdefault(reason)
                    if env is not None:
                        await pool.give(env, used + 1, broken=False)
                    break
                except BaseException:
                    # The policy failed or the run was interrupted: the environment is healthy but mid-episode.
                    if env is not None:
                        await pool.give(env, used + 1, broken=False)
                    raise
                await pool.give(env, used + 1, broken=False)
                finished[position] = episode
                if on_episode is not None:
                    on_episode(episode)
                return
            counts.dropped[job.group] = reason

    await _all(in_turn(position, job) for position, job in enumerate(jobs))
    kept = tuple(
        finished[position]
        for position, job in enumerate(jobs)
        if position in finished and job.group not in counts.dropped
    )
    return Collection(
        kept,
        tuple(sorted(counts.dropped)),
        counts.failures,
        counts.retries,
        tuple(counts.causes),
        counts.unanswered,
        counts.dropped,
    )


async def _take(pool: EnvPool, task: str) -> tuple[TextEnv, int]:
    try:
        return await pool.take()
    except Exception as error:
        named = f"The environment {pool.name}" if pool.name else "The environment"
        raise EnvironmentFailed(f"{named} could not be made for task {task!r}: {cause(error)}") from error


async def _all(coroutines: Iterable[Awaitable[None]]) -> None:
    """Await all; on the first error cancel the rest, wait for them and raise it."""
    tasks = [asyncio.ensure_future(coroutine) for coroutine in coroutines]
    try:
        await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise
