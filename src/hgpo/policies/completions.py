"""vLLM's OpenAI-compatible server as an engine that keeps tokens: ids in, the sampled ids and their logs out.

The prompt goes as token ids to `/v1/completions`, and the ids that were sampled come back with the log-probability of
each, so nothing is ever tokenised twice: what is trained on is what was sampled. At a temperature other than 1 the
server must be started with `--logprobs-mode processed_logprobs`; otherwise it reports the logs from before the
temperature.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from typing import Any

from ..play.policy import Reply, Request
from .encoding import PromptEncoder
from .endpoint import EndpointEngine, read_choice, well_formed
from .engine import CountedPolicy, Counters, Source
from .http import Answer


class CompletionsEngine(EndpointEngine):
    """Asks `<url>/completions` with token ids; arguments as for `EndpointEngine`.

    Args:
        url: base of the server, for example `http://localhost:8000/v1`.
        model: the model's name there.
        tokenizer: of the same model.
        options: further arguments of `EndpointEngine`.
    """

    path = "completions"

    def __init__(self, url: str, model: str, tokenizer: Any, **options: Any) -> None:
        super().__init__(url, model, **options)
        self.tokenizer, self.encoder = tokenizer, PromptEncoder(tokenizer)

    @classmethod
    def open(cls, source: Source) -> CompletionsEngine:
        """An engine on the server at `source.url`, which knows the model by its folder or hub id."""
        from ..models.load import load_tokenizer

        tokenizer = source.tokenizer or load_tokenizer(source.path)
        return cls(source.url, source.path, tokenizer, max_new_tokens=source.config.agent.max_response_tokens)

    def policy(self, temperature: float) -> CountedPolicy:
        """A policy whose requests carry `temperature`."""
        return CountedPolicy(CompletionsPolicy(self, temperature), self)

    def question(self, request: Request) -> dict[str, Any]:
        """The prompt's ids, and that the sampled ones are wanted with their log-probabilities."""
        return {
            "prompt": [int(token) for token in request.prompt_ids],
            "return_token_ids": True,
            "logprobs": 0,
        }

    def read(self, answer: Answer) -> tuple[Reply, Counters]:
        """The sampled ids with their log-probabilities.

        Raises:
            ValueError: the server gave none, or not one for each token.
        """
        choice, tokens = read_choice(answer)
        ids: Any = choice.get("token_ids")
        logprobs = choice.get("logprobs")
        logs: Any = logprobs.get("token_logprobs") if isinstance(logprobs, dict) else None
        if not _all(ids, int):
            raise ValueError(
                "the answer has no choices[0].token_ids: it takes a vLLM server (0.10.2 or newer) to return them"
            )
        if not _all(logs, (int, float)) or len(logs) != len(ids) or not all(map(math.isfinite, logs)):
            raise ValueError("the answer has no log-probability for each of choices[0].token_ids")
        text = choice.get("text")
        if not isinstance(text, str):
            text = self.tokenizer.decode(ids, skip_special_tokens=True)
        truncated = choice.get("finish_reason") == "length"
        return Reply(well_formed(text), ids, [float(one) for one in logs], truncated), tokens


def _all(values: Any, kind: type | tuple[type, ...]) -> bool:
    return isinstance(values, list) and all(
        isinstance(one, kind) and not isinstance(one, bool) for one in values
    )


class CompletionsPolicy:
    """Sends every prompt as its token ids."""

    def __init__(self, engine: CompletionsEngine, temperature: float) -> None:
        self.engine, self.temperature = engine, temperature

    async def encode(self, prompt: str) -> Sequence[int]:
        """The prompt as ids; models with a chat template get it as one user message."""
        return self.engine.encoder(prompt)

    async def generate(self, request: Request) -> Reply:
        """Wait for the server in a thread."""
        loop = asyncio.get_running_loop()
        reply, _ = await loop.run_in_executor(
            self.engine.executor, self.engine.ask, request, self.temperature
        )
        return reply

    def finish(self, episode: str) -> None:
        """Nothing is kept per episode."""
