"""Where a rollout worker plays: our environments, off the worker's event loop, watched over.

Environments of this package answer in microseconds and run in threads. All others run in supervised processes,
whatever `env.execution` says: an engine that crashes must not take a rollout worker and all its episodes along.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ..config.load import as_dict
from ..config.schema import Config, EnvConfig
from ..config.stage import Stage
from ..envs.registry import BUILT_IN
from ..errors import EnvironmentFailed
from ..play import Collection, Job, Slots, WindowMemory, collect
from ..play.policy import Policy

THREADS, PROCESSES = 64, 8
"""Live environments of one worker when `env.workers` does not say: in threads, in processes."""


def isolated(env: EnvConfig) -> EnvConfig:
    """The settings of an environment under verl: whatever is not ours in processes of its own."""
    return env if env.name in BUILT_IN else replace(env, execution="process")


class TimedSlots(Slots):
    """Slots whose calls give up after a time, for environments in threads (processes have their own limit)."""

    def __init__(self, make: Callable[[], Any], limit: int, *, max_reuse: int, timeout: float | None) -> None:
        super().__init__(make, limit, blocking=True, max_reuse=max_reuse)
        self.timeout = timeout

    async def call(self, function: Callable[[], Any]) -> Any:
        """Run an environment call in a thread. One that hangs keeps its thread, but not the episode."""
        try:
            return await asyncio.wait_for(super().call(function), self.timeout)
        except asyncio.TimeoutError:
            raise EnvironmentFailed(
                f"It gave no answer within {self.timeout:g} s (env.step_timeout)."
            ) from None


class WorkerStage(Stage):
    """Plays one rollout at a time for as many coroutines as ask, in one rollout worker."""

    def __init__(self, config: Config, workers: int) -> None:
        env = isolated(config.env)
        super().__init__(env, config.agent)
        default = PROCESSES if self.blocking else THREADS
        limit = math.ceil(env.workers / workers) if env.workers else default
        self.room = TimedSlots(
            self._make, limit, max_reuse=env.max_reuse, timeout=None if self.blocking else env.step_timeout
        )
        self.gate = asyncio.Semaphore(limit)
        self.telling = asyncio.Lock()
        """Held while a group's tags are changed: TransferQueue merges tags by reading and writing them."""

    async def rollout(self, policy: Policy, job: Job, max_steps: int = 0) -> Collection:
        """Play one job, as `play` would; what the environment does to it is in the result."""
        async with self.gate:
            return await collect(
                [job],
                self.room,
                policy,
                lambda: WindowMemory(self.agent.history_length),
                style=self.style,
                limits=self.within(max_steps),
                attempts=self.env.attempts,
            )


_stages: dict[str, WorkerStage] = {}


def stage(config: Config, workers: int) -> WorkerStage:
    """This process's stage for a config; made once, because agent loops are made anew for every rollout."""
    key = json.dumps([as_dict(config), workers], sort_keys=True)
    if key not in _stages:
        _stages[key] = WorkerStage(config, workers)
    return _stages[key]
