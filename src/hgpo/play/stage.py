"""Where episodes are played: environments, prompts, memory and limits, ready for any policy."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from ..envs import answers
from ..envs.contract import TextEnv
from ..envs.pool import EnvPool
from ..envs.registry import make
from ..errors import BadEnv, BadSetting, EnvironmentFailed, HgpoError, UnknownName
from .collect import Collection, Job, collect
from .episode import Episode, Limits
from .loops import complete
from .memory import MemoryFactory
from .policy import Policy
from .prompts import PromptStyle

T = TypeVar("T")


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
    """Seconds that a supervised process may take for a step."""
    reset_timeout: float = 180.0
    """Seconds that it may take to start, for a reset and for listing tasks."""
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
        env: TextEnv = SupervisedEnv(
            self.name,
            self.settings,
            step_timeout=self.step_timeout,
            reset_timeout=self.reset_timeout,
            attempts=1,
        )
        return env


class Stage:
    """Plays jobs with any policy; environments are kept between calls."""

    def __init__(
        self, env: Environments, *, style: PromptStyle, limits: Limits, memory: MemoryFactory
    ) -> None:
        self.env, self.style, self.limits, self.memory = env, style, limits, memory
        self._task_source: TextEnv | None = None
        self._expert_source: TextEnv | None = None
        self._failures = 0
        self._pool: EnvPool | None = None

    @property
    def blocking(self) -> bool:
        """Whether environment calls wait for another process."""
        return self.env.supervised

    @property
    def task_source(self) -> TextEnv:
        """An environment that lists tasks; it plays no episode."""
        return self._ask("could not be made", lambda env: env)

    @property
    def expert_source(self) -> TextEnv:
        """An environment in this process, whose expert plays; it plays no episode itself."""
        if not self.env.supervised:
            return self.task_source
        if self._expert_source is None:
            try:
                self._expert_source = answers.contained(self.env.make)
            except HgpoError:
                raise
            except Exception as error:
                raise EnvironmentFailed(
                    f"The environment {self.env.name} could not be made: {answers.cause(error)}"
                ) from error
        return self._expert_source

    def tasks(self, split: str, limit: int = 0) -> list[str]:
        """Task ids of a split, in the environment's fixed order; the first `limit` when it is not 0.

        Raises:
            UnknownName: the environment has no such split.
            EnvironmentFailed: it did not list its tasks, in `attempts` tries.
        """

        def listed(env: TextEnv) -> list[str]:
            # Not checked against `splits` first: an environment may know a split by several names.
            try:
                return answers.task_ids(env.tasks(split), split)
            except (EnvironmentFailed, answers.WrongAnswer):
                raise
            except Exception as error:
                splits = answers.split_names(env.splits)
                if split in splits:
                    raise
                raise UnknownName(f"split of {self.env.name}", split, splits) from error

        tasks = self._ask(f"did not list the tasks of {split!r}", listed)
        if not tasks:
            raise BadSetting(f"The split {split!r} of {self.env.name} has no tasks.")
        return tasks[:limit] if limit else tasks

    def world_version(self) -> int:
        """Which version of its world the environment is; 1 where it does not say."""
        version = self._ask("did not say its version", lambda env: getattr(env, "world_version", 1))
        try:
            return answers.version(version)
        except answers.WrongAnswer as error:
            raise BadEnv(self.env.name, [f"{error}."]) from error

    def _ask(self, failed: str, question: Callable[[TextEnv], T]) -> T:
        """What an environment that plays no episode says; a new one is asked when it fails."""
        last: BaseException | None = None
        for _ in range(self.env.attempts):
            try:
                if self._task_source is None:
                    self._task_source = answers.contained(self.env.start)
                return answers.contained(functools.partial(question, self._task_source))
            except Exception as error:
                # An error of this package is the user's (a wrong setting, no data): asking again cannot help.
                if isinstance(error, HgpoError) and not isinstance(error, EnvironmentFailed):
                    raise
                last = error
                self._failures += 1
                self._close_task_source()
        assert last is not None
        raise EnvironmentFailed(
            f"The environment {self.env.name} {failed} ({self.env.attempts} tries): {answers.cause(last)}"
        ) from last

    def take_failures(self) -> int:
        """How often the environment failed outside of episodes since this was last asked."""
        failures, self._failures = self._failures, 0
        return failures

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
            self._close_pool()
            self._pool = EnvPool(
                self.env.start,
                wanted,
                blocking=self.blocking,
                max_reuse=self.env.max_reuse,
                name=self.env.name,
            )
        return complete(self.collect(policy, jobs, self._pool, on_episode, max_steps))

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
        self._close_pool()
        self._close_task_source()

    def _close_pool(self) -> None:
        if self._pool is not None:
            self._pool.close()
            self._pool = None

    def _close_task_source(self) -> None:
        source, self._task_source = self._task_source, None
        if source is not None:
            with contextlib.suppress(Exception):
                answers.contained(source.close)
