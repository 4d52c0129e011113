"""A pool of environments: made when first needed, lent to one episode at a time, thrown away when they fail."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from . import answers
from .contract import TextEnv


class EnvPool:
    """Environments for rent: at most `limit` of them, made when first needed, thrown away when they fail."""

    def __init__(
        self,
        make: Callable[[], TextEnv],
        limit: int,
        *,
        blocking: bool,
        max_reuse: int = 0,
        name: str = "",
    ) -> None:
        self.make, self.limit, self.blocking, self.max_reuse = make, max(1, limit), blocking, max_reuse
        self.name = name
        """What the environments are called in messages."""
        self.idle: list[tuple[TextEnv, int]] = []
        self.executor = ThreadPoolExecutor(self.limit, "hgpo-env") if blocking else None

    async def call(self, function: Callable[[], Any]) -> Any:
        """Run an environment call, in a thread of its own when environments block."""
        if self.executor is None:
            return function()
        return await asyncio.get_running_loop().run_in_executor(self.executor, function)

    async def take(self) -> tuple[TextEnv, int]:
        """A free environment and how many episodes it has played."""
        if self.idle:
            return self.idle.pop()
        return await self.call(functools.partial(answers.contained, self.make)), 0

    async def give(self, env: TextEnv, used: int, *, broken: bool) -> None:
        """Take an environment back; a broken or worn-out one is closed."""
        if not broken and (not self.max_reuse or used < self.max_reuse):
            self.idle.append((env, used))
            return
        # Closing what is broken may itself fail; there is nothing left to lose in it.
        with contextlib.suppress(Exception):
            await self.call(functools.partial(answers.contained, env.close))

    def close(self) -> None:
        """Close all idle environments."""
        for env, _ in self.idle:
            with contextlib.suppress(Exception):
                answers.contained(env.close)
        self.idle.clear()
        if self.executor is not None:
            self.executor.shutdown(wait=False, cancel_futures=True)
