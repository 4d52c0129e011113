"""Where episodes are played: environments, prompts, memory and limits, ready for any policy."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..envs.contract import TextEnv
from ..envs.pool import EnvPool
from ..envs.registry import make
from ..errors import BadSetting, UnknownName
from .collect import Collection, Job, collect
from .episode import Episode, Limits
from .memory import MemoryFactory
from .policy import Policy
from .prompts import PromptStyle


@dataclass(frozen=True)
class Environments:
    """Which environment is played, and how its copies are run."""

    name: str
    """Registered name, or `module:Class`."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the environment itself."""
    supervised: bool = False
    """Run every copy in a supervised process of its own instead of in this process."""
    workers: int = 0
    """At most this many copies are live at once; 0 means one per episode, or 8 supervised processes."""
    step_timeout: float = 60.0
    """Seconds after which a supervised process counts as hung."""
    attempts: int = 3
    """How often an episode is played when its environment fails, before its whole group is dropped."""
    max_reuse: int = 0
    """A copy is replaced after this many episodes; 0 never."""

    def make(self) -> TextEnv:
        """A copy in this process."""
        return make(self.name, **self.settings)

    def start(self) -> TextEnv:
        """A copy to play in: in this process, or supervised."""
        if not self.supervised:
            return self.make()
        from ..envs.supervised import SupervisedEnv

        # One attempt: a failed episode is played again from its start, by `collect`.
        env: TextEnv = SupervisedEnv(self.name, self.settings, step_timeout=self.step_timeout, attempts=1)
        return env


class Stage:
    """Plays jobs with any policy; environments are kept between calls."""

    def __init__(
        self, env: Environments, *, style: PromptStyle, limits: Limits, memory: MemoryFactory
    ) -> None:
        self.env, self.style, self.limits, self.memory = env, style, limits, memory
        self._task_source: TextEnv | None = None
        self._pool: EnvPool | None = None

    @property
    def blocking(self) -> bool:
        """Whether environment calls wait for another process."""
        return self.env.supervised

    @property
    def task_source(self) -> TextEnv:
        """An environment that lists tasks and may bring an expert; it plays no episode."""
        if self._task_source is None:
            self._task_source = self.env.make()
        return self._task_source

    def tasks(self, split: str, limit: int = 0) -> list[str]:
        """Task ids of a split, in the environment's fixed order; the first `limit` when it is not 0."""
        # Not checked against `splits` first: an environment may know a split by several names.
        try:
            tasks = list(self.task_source.tasks(split))
        except Exception as error:
            if split in self.task_source.splits:
                raise
            raise UnknownName(f"split of {self.env.name}", split, self.task_source.splits) from error
        if not tasks:
            raise BadSetting(f"The split {split!r} of {self.env.name} has no tasks.")
        return tasks[:limit] if limit else tasks

    def play(
        self,
        policy: Policy,
        jobs: Sequence[Job],
        on_episode: Callable[[Episode], None] | None = None,
        max_steps: int = 0,
    ) -> Collection:
        """Play all jobs and wait for them; `max_steps` is a longest episode other than the stage's."""
        wanted = self.env.workers or (8 if self.blocking else len(jobs))
        if self._pool is None or (not self.blocking and self._pool.limit < wanted):
            self.close()
            self._pool = EnvPool(self.env.start, wanted, blocking=self.blocking, max_reuse=self.env.max_reuse)
        return asyncio.run(self.collect(policy, jobs, self._pool, on_episode, max_steps))

    async def collect(
        self,
        policy: Policy,
        jobs: Sequence[Job],
        pool: EnvPool,
        on_episode: Callable[[Episode], None] | None = None,
        max_steps: int = 0,
    ) -> Collection:
        """`play` for callers with an event loop and environments of their own (`pool`)."""
        return await collect(
            jobs,
            pool,
            policy,
            self.memory,
            style=self.style,
            limits=replace(self.limits, max_steps=max_steps) if max_steps else self.limits,
            attempts=self.env.attempts,
            on_episode=on_episode,
        )

    def close(self) -> None:
        """Close all environments."""
        if self._pool is not None:
            self._pool.close()
            self._pool = None
