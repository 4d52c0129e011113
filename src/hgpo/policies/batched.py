"""Engines that hold a tokenizer and answer whatever is waiting in one go."""

from __future__ import annotations

import asyncio
import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Any

from ..errors import BadSetting
from ..play.policy import Reply, Request
from .batcher import Batcher
from .encoding import PromptEncoder
from .engine import Counters


class BatchedEngine(ABC):
    """An `Engine` made of `answer`, the replies to many requests, and `load`.

    Args:
        tokenizer: the model's.
        beside: answer in a thread of its own, beside the event loop. Right where environments block or the engine
            waits for a device; what arrives in the meantime forms the next batch.
    """

    def __init__(self, tokenizer: Any, *, beside: bool) -> None:
        self.tokenizer, self.encoder = tokenizer, PromptEncoder(tokenizer)
        self.executor = ThreadPoolExecutor(1, "hgpo-engine") if beside else None
        self.counters = Counters()

    @abstractmethod
    def answer(self, requests: Sequence[Request], temperature: float) -> list[Reply]:
        """The replies, in the order of the requests."""

    @abstractmethod
    def load(self, model: Any) -> None:
        """Play with the present weights of `model`."""

    def policy(self, temperature: float) -> BatchedPolicy:
        """A policy whose requests wait for one another and are answered together."""
        if temperature < 0:
            raise BadSetting(f"temperature is {temperature}; expected 0 or more.")
        return BatchedPolicy(
            self.encoder, functools.partial(self.answer, temperature=temperature), self.executor
        )

    def pause(self) -> None:  # noqa: B027 - a default, not a duty
        """Keep everything."""

    def close(self) -> None:
        """Wait for the batch under way."""
        if self.executor is not None:
            self.executor.shutdown(cancel_futures=True)


class BatchedPolicy:
    """A policy made of one function: the replies to many requests."""

    batched = True
    """The last bits of a reply depend on what else is in its batch; see `hgpo.play.turns`."""

    def __init__(
        self,
        encoder: PromptEncoder,
        answer: Callable[[Sequence[Request]], list[Reply]],
        executor: Executor | None = None,
    ) -> None:
        self.encoder, self.answer, self.executor = encoder, answer, executor
        self._batchers: dict[int, tuple[Batcher[str, tuple[int, ...]], Batcher[Request, Reply]]] = {}

    async def encode(self, prompt: str) -> Sequence[int]:
        """The prompt as ids; models with a chat template get it as one user message."""
        return await self._here()[0].ask(prompt)

    async def generate(self, request: Request) -> Reply:
        """Wait for the batch that answers this request."""
        return await self._here()[1].ask(request)

    def _here(self) -> tuple[Batcher[str, tuple[int, ...]], Batcher[Request, Reply]]:
        """The batchers of the running event loop, for prompts and for requests."""
        loop = id(asyncio.get_running_loop())
        if loop not in self._batchers:
            prompts = Batcher(self.encoder.many)
            self._batchers = {loop: (prompts, Batcher(self.answer, self.executor, after=prompts))}
        return self._batchers[loop]

    def finish(self, episode: str) -> None:
        """Nothing is kept per episode."""
