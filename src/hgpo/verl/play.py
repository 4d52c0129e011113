"""Where a rollout worker plays: our environments, off the worker's event loop, watched over.

Environments of this package answer in microseconds and run in threads. All others run in supervised processes,
whatever `env.execution` says: an engine that crashes must not take a rollout worker and all its episodes along.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ..config.schema import Config
from ..config.stage import open_stage
from ..envs.pool import EnvPool
from ..envs.registry import BUILT_IN
from ..errors import EnvironmentFailed
from ..play import Collection, Job
from ..play.policy import Policy
from ..policies.encoding import PromptEncoder
from .settings import read

THREADS, PROCESSES = 64, 8
"""Live environments of one worker when `env.workers` does not say: in threads, in processes."""


def isolated(config: Config) -> Config:
    """The settings of a run under verl: an environment that is not ours gets processes of its own."""
    if config.env.name in BUILT_IN:
        return config
    return replace(config, env=replace(config.env, execution="process"))


class TimedPool(EnvPool):
    """A pool whose calls give up after a time, for environments in threads (processes have their own limit)."""

    def __init__(
        self, make: Callable[[], Any], limit: int, *, max_reuse: int, timeout: float | None, name: str = ""
    ) -> None:
        super().__init__(make, limit, blocking=True, max_reuse=max_reuse, name=name)
        self.timeout = timeout

    async def call(self, function: Callable[[], Any]) -> Any:
        """Run an environment call in a thread. One that hangs keeps its thread, but not the episode."""
        try:
            return await asyncio.wait_for(super().call(function), self.timeout)
        except asyncio.TimeoutError:
            raise EnvironmentFailed(
                f"It gave no answer within {self.timeout:g} s (env.step_timeout)."
            ) from None


class WorkerStage:
    """Plays one rollout at a time for as many coroutines as ask, in one rollout worker."""

    def __init__(self, config: Config, workers: int) -> None:
        self.config = config
        self.stage = open_stage(isolated(config))
        env = self.stage.env
        limit = PROCESSES if self.stage.blocking else THREADS
        if env.workers:
            limit = math.ceil(env.workers / workers)
        self.pool = TimedPool(
            env.start,
            limit,
            max_reuse=env.max_reuse,
            timeout=None if self.stage.blocking else config.env.step_timeout,
            name=env.name,
        )
        self.gate = asyncio.Semaphore(limit)
        self.tags = asyncio.Lock()
        """Held while a group's tags are changed: TransferQueue merges tags by reading and writing them."""
        self._encoder: PromptEncoder | None = None

    async def rollout(self, policy: Policy, job: Job, max_steps: int = 0) -> Collection:
        """Play one job, as `Stage.play` would; how often its environment failed is in the result."""
        async with self.gate:
            return await self.stage.collect(policy, [job], self.pool, max_steps=max_steps)

    def encoder(self, tokenizer: Any) -> PromptEncoder:
        """The encoder of the worker's tokenizer: its chat template is rendered once, not once per rollout."""
        if self._encoder is None or self._encoder.tokenizer is not tokenizer:
            self._encoder = PromptEncoder(tokenizer)
        return self._encoder


_stages: dict[int, tuple[Any, WorkerStage]] = {}
"""By the identity of verl's config: that config, which keeps its identity from being used again, and its stage."""


def worker_stage(config: Any) -> WorkerStage:
    """This process's stage for verl's config; made once, because agent loops are made anew for every rollout."""
    if id(config) not in _stages:
        workers = config.actor_rollout_ref.rollout.agent.num_workers
        _stages[id(config)] = (config, WorkerStage(read(config), workers))
    return _stages[id(config)][1]
