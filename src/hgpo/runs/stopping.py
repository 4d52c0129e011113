"""Ctrl-C and time limits: stop where nothing is lost."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Sequence
from types import FrameType, TracebackType
from typing import Any

from ..play.policy import Reply, Request
from ..policies.hf.decoder import Decoder
from ..policies.hf.policy import HFPolicy, Sampling


class StopRequested(Exception):
    """Raised at a safe place after Ctrl-C; never reaches the user."""


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
                self._old[number] = signal.signal(number, self._hear)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._old.items():
            signal.signal(number, handler)

    def _hear(self, number: int, frame: FrameType | None) -> None:
        if self.requested:
            raise KeyboardInterrupt
        self.requested = True

    def check(self) -> None:
        """Raise when a stop was asked for."""
        if self.requested:
            raise StopRequested

    def out_of_time(self, next_seconds: float) -> bool:
        """Whether something that takes `next_seconds` would end after the limit."""
        if self.max_seconds is None:
            return False
        return time.monotonic() - self.started + next_seconds > self.max_seconds


class StoppablePolicy(HFPolicy):
    """A policy that looks whether to stop before every batch."""

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        sampling: Sampling,
        executor: Any,
        decoder: Decoder | None,
        check: Callable[[], None],
    ) -> None:
        super().__init__(model, tokenizer, sampling, executor, decoder)
        self.check = check

    def answer(self, requests: Sequence[Request]) -> list[Reply]:
        self.check()
        return super().answer(requests)
