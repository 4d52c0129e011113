"""Collect the requests of many coroutines and answer whatever is waiting in one go."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from typing import Any, Generic, TypeVar

Question = TypeVar("Question")
Answer = TypeVar("Answer")


class Batcher(Generic[Question, Answer]):
    """Turns a function over many questions into a coroutine over one.

    The first waiting question schedules a flush behind everything else that is ready to run, so all episodes
    that can ask now share the batch. With an `executor` the function runs beside the event loop, and what
    arrives in the meantime forms the next batch.

    Where every question passes another batcher first, that one is given as `after`. While it is at work, those who
    asked it are still on their way here; a batch that starts without them would leave them one batch behind from
    then on.
    """

    def __init__(
        self,
        answer: Callable[[Sequence[Question]], Sequence[Answer]],
        executor: Executor | None = None,
        after: Batcher[Any, Any] | None = None,
    ) -> None:
        self.answer, self.executor, self.after = answer, executor, after
        self.waiting: list[tuple[Question, asyncio.Future[Answer]]] = []
        self.flushing = False

    async def ask(self, question: Question) -> Answer:
        """Wait for the batch that contains `question`."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Answer] = loop.create_future()
        self.waiting.append((question, future))
        if not self.flushing:
            self.flushing = True
            self._soon(self._start)
        return await future

    def _soon(self, action: Callable[[], None]) -> None:
        """Act in two turns of the loop: an episode that has just been woken may need one to ask again."""
        loop = asyncio.get_running_loop()
        loop.call_soon(loop.call_soon, action)

    def _start(self) -> None:
        if self.after is not None and self.after.flushing:
            self._soon(self._start)
            return
        batch, self.waiting = self.waiting, []
        batch = [(question, future) for question, future in batch if not future.done()]
        if not batch:
            self.flushing = False
            return
        questions = [question for question, _ in batch]
        if self.executor is None:
            try:
                answers = self.answer(questions)
            except BaseException as error:
                self._fail(batch, error)
                if not isinstance(error, Exception):
                    raise
                return
            self._settle(batch, answers)
            return
        loop = asyncio.get_running_loop()
        running = self.executor.submit(self.answer, questions)
        running.add_done_callback(lambda done: self._return(loop, batch, done))

    def _return(
        self,
        loop: asyncio.AbstractEventLoop,
        batch: list[tuple[Question, asyncio.Future[Answer]]],
        done: Future[Sequence[Answer]],
    ) -> None:
        """Bring the answers from the executor's thread back to the event loop."""
        # A loop that was left while the batch was under way (a run that stops) is closed: nobody waits any more.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(self._finished, batch, done)

    def _finished(
        self,
        batch: list[tuple[Question, asyncio.Future[Answer]]],
        done: Future[Sequence[Answer]],
    ) -> None:
        if done.cancelled():
            self._fail(batch, asyncio.CancelledError())
            return
        error = done.exception()
        if error is not None:
            self._fail(batch, error)
        else:
            self._settle(batch, done.result())

    def _settle(
        self, batch: list[tuple[Question, asyncio.Future[Answer]]], answers: Sequence[Answer]
    ) -> None:
        for (_, future), answer in zip(batch, answers):
            if not future.done():
                future.set_result(answer)
        self._soon(self._next)

    def _fail(self, batch: list[tuple[Question, asyncio.Future[Answer]]], error: BaseException) -> None:
        for _, future in batch:
            if not future.done():
                future.set_exception(error if isinstance(error, Exception) else RuntimeError(repr(error)))
        self._soon(self._next)

    def _next(self) -> None:
        """Go on with what arrived meanwhile."""
        self.flushing = bool(self.waiting)
        if self.waiting:
            self._soon(self._start)
