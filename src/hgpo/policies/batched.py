"""What policies share that hold a tokenizer and answer whatever is waiting in one go."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Sequence
from concurrent.futures import Executor
from typing import Any

from ..play.policy import Reply, Request
from .batcher import Batcher
from .encoding import Encoder


class BatchedPolicy(ABC):
    """A `Policy` made of one method: `answer`, the replies to many requests.

    Args:
        tokenizer: the model's.
        executor: where `answer` runs; None runs it in the event loop.
    """

    def __init__(self, tokenizer: Any, executor: Executor | None = None) -> None:
        self.tokenizer, self.executor = tokenizer, executor
        self.encoder = Encoder(tokenizer)
        self._batchers: dict[int, tuple[Batcher[str, tuple[int, ...]], Batcher[Request, Reply]]] = {}

    @abstractmethod
    def answer(self, requests: Sequence[Request]) -> list[Reply]:
        """The replies, in the order of the requests."""

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

    def finish(self, episode: str) -> None:  # noqa: B027 - a default, not a duty
        """Nothing is kept per episode."""
