"""Many episodes at once: a bounded set of environments, retries, and groups that stand or fall together.

A failed episode (the environment died, hung or raised) is played again with the same task and seed. When it
fails too often its whole group is dropped and counted: a group with a missing member would be compared
with itself on unequal terms, and a truncated episode would teach that the environment's fault was the
agent's.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from ..envs.contract import TextEnv
from ..errors import EnvironmentFailed, HgpoError
from .episode import Episode, Limits, inline, run_episode
from .memory import MemoryFactory
from .policy import Policy
from .prompts import PromptStyle


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


class Slots:
    """Environments for rent: at most `limit` of them, made when first needed, thrown away when they fail."""

    def __init__(
        self, make: Callable[[], TextEnv], limit: int, *, blocking: bool, max_reuse: int = 0
    ) -> None:
        self.make, self.limit, self.blocking, self.max_reuse = make, max(1, limit), blocking, max_reuse
        self.idle: list[tuple[TextEnv, int]] = []
        self.executor = ThreadPoolExecutor(self.limit, "hgpo-env") if blocking else None

    async def call(self, function: Callable[[], Any]) -> Any:
        """Run an environment call, in a thread of its own when environments block."""
        if self.executor is None:
            return function()
        return await asyncio.get_running_loop().run_in_executor(self.executor, function)

    async def take(self) -> tuple[TextEnv, int]:
        """A free environment and how many episodes it has played."""
        return self.idle.pop() if self.idle else (await self.call(self.make), 0)

    async def give(self, env: TextEnv, used: int, *, broken: bool) -> None:
        """Take an environment back; a broken or worn-out one is closed."""
        if not broken and (not self.max_reuse or used < self.max_reuse):
            self.idle.append((env, used))
            return
        # Closing what is broken may itself fail; there is nothing left to lose in it.
        with contextlib.suppress(Exception):
            await self.call(env.close)

    def close(self) -> None:
        """Close all idle environments."""
        for env, _ in self.idle:
            with contextlib.suppress(Exception):
                env.close()
        self.idle.clear()
        if self.executor is not None:
            self.executor.shutdown(wait=False, cancel_futures=True)


@dataclass
class _Tally:
    failures: int = 0
    retries: int = 0
    dropped: set[str] = field(default_factory=set)
    causes: dict[str, None] = field(default_factory=dict)


async def collect(
    jobs: Sequence[Job],
    slots: Slots,
    policy: Policy,
    memory: MemoryFactory,
    *,
    style: PromptStyle,
    limits: Limits,
    attempts: int = 3,
    on_episode: Callable[[Episode], None] | None = None,
) -> Collection:
    """Play all jobs, at most `slots.limit` at a time, and return the episodes of complete groups."""
    tally, finished = _Tally(), dict[int, Episode]()
    gate = asyncio.Semaphore(slots.limit)
    call: Callable[[Callable[[], Any]], Awaitable[Any]] = slots.call if slots.blocking else inline

    async def play(position: int, job: Job) -> None:
        async with gate:
            for attempt in range(attempts):
                if job.group in tally.dropped:
                    return
                env, used = None, 0
                try:
                    env, used = await _take(slots, job.task)
                    episode = await run_episode(
                        env,
                        policy,
                        memory(),
                        task=job.task,
                        style=style,
                        limits=limits,
                        seed=job.seed,
                        group=job.group,
                        index=job.index,
                        start=job.start,
                        call=call,
                    )
                except EnvironmentFailed as error:
                    tally.failures += 1
                    tally.causes.setdefault(str(error))
                    if env is not None:
                        await slots.give(env, used, broken=True)
                    if attempt + 1 < attempts:
                        tally.retries += 1
                    continue
                except BaseException:
                    # The policy failed or the run was interrupted: the environment is healthy but mid-episode.
                    if env is not None:
                        await slots.give(env, used + 1, broken=False)
                    raise
                await slots.give(env, used + 1, broken=False)
                finished[position] = episode
                if on_episode is not None:
                    on_episode(episode)
                return
            tally.dropped.add(job.group)

    await _all(play(position, job) for position, job in enumerate(jobs))
    kept = tuple(
        finished[position]
        for position, job in enumerate(jobs)
        if position in finished and job.group not in tally.dropped
    )
    return Collection(kept, tuple(sorted(tally.dropped)), tally.failures, tally.retries, tuple(tally.causes))


async def _take(slots: Slots, task: str) -> tuple[TextEnv, int]:
    try:
        return await slots.take()
    except HgpoError:
        raise
    except Exception as error:
        raise EnvironmentFailed(f"No environment could be started for task {task!r}: {error}") from error


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
