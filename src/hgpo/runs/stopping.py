"""Ctrl-C and time limits: stop where nothing is lost."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Sequence
from types import FrameType, TracebackType
from typing import Any

from ..play.policy import Policy, Reply, Request


class StopRequested(Exception):
    """Raised at a safe place after Ctrl-C; it never reaches the user."""


class Stop:
    """Remembers the first Ctrl-C (or SIGTERM); the second one stops at once.

    While rollouts are played the weights do not change, so `check` may end them; an update in progress is
    finished first.
    """

    def __init__(self, max_minutes: float | None = None) -> None:
        self.requested = False
        self.started = time.monotonic()
        self.max_seconds = None if max_minutes is None else 60.0 * max_minutes
        self._old: dict[int, Any] = {}

    def __enter__(self) -> Stop:
        # Signal handlers belong to the main thread; elsewhere the caller's own handling applies.
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._old[number] = signal.signal(number, self._remember)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._old.items():
            signal.signal(number, handler)

    def _remember(self, number: int, frame: FrameType | None) -> None:
        if self.requested:
            raise KeyboardInterrupt
        self.requested = True
        # Not through the buffered stream, which the signal may have found in the middle of a write.
        with contextlib.suppress(OSError):
            os.write(2, b"\nhgpo: stopping; the run is saved first (Ctrl-C again stops at once)\n")

    def check(self) -> None:
        """Raise when a stop was asked for."""
        if self.requested:
            raise StopRequested

    def out_of_time(self, next_seconds: float) -> bool:
        """Whether something that takes `next_seconds` would end after the limit."""
        if self.max_seconds is None:
            return False
        return time.monotonic() - self.started + next_seconds > self.max_seconds


class StoppablePolicy:
    """Any policy, asked for nothing more once a stop was requested.

    The batch under way comes to its end; the first episode that would ask again raises `StopRequested` instead.
    """

    def __init__(self, policy: Policy, stop: Stop) -> None:
        self.inner, self.stop = policy, stop
        self.batched: bool = getattr(policy, "batched", False)

    def check(self) -> None:
        """Raise when a stop was asked for."""
        self.stop.check()

    async def encode(self, prompt: str) -> Sequence[int]:
        """As the policy encodes it."""
        return await self.inner.encode(prompt)

    async def generate(self, request: Request) -> Reply:
        """As the policy answers it, unless a stop was requested."""
        self.stop.check()
        return await self.inner.generate(request)

    def finish(self, episode: str) -> None:
        """The policy may forget the episode."""
        self.inner.finish(episode)
