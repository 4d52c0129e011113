"""Any OpenAI-compatible server as an engine, for evaluation: nothing but the standard library."""

from __future__ import annotations

import asyncio
import json
import os
import threading
import urllib.error
import urllib.request
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ..errors import BadSetting, EndpointFailed
from ..play.policy import Reply, Request
from .engine import CountedPolicy, Counters, Source


class EndpointEngine:
    """Asks `<url>/chat/completions`, several requests at a time, with retries.

    Args:
        url: base of the server, for example `http://localhost:8000/v1`.
        model: the model's name there.
        max_new_tokens: as sent to the server.
        key: bearer token; `$OPENAI_API_KEY` when not given.
        concurrency: requests under way at once.
        timeout: seconds for one request.
        attempts: tries of one request; a server's 4xx answer other than 429 is final.
    """

    def __init__(
        self,
        url: str,
        model: str,
        *,
        max_new_tokens: int = 512,
        key: str | None = None,
        concurrency: int = 16,
        timeout: float = 120.0,
        attempts: int = 4,
    ) -> None:
        if not url.startswith(("http://", "https://")):
            raise BadSetting(f"--url is {url!r}; expected the server's base address, http://host:8000/v1.")
        self.url, self.model = url.rstrip("/"), model
        self.max_new_tokens = max_new_tokens
        self.key = key if key is not None else os.environ.get("OPENAI_API_KEY", "")
        self.timeout, self.attempts = timeout, attempts
        self.executor = ThreadPoolExecutor(concurrency, "hgpo-endpoint")
        self.counters = Counters()
        self._closing = threading.Event()

    @classmethod
    def open(cls, source: Source) -> EndpointEngine:
        """An engine on the server at `source.url`, which knows the model as `source.path`."""
        return cls(source.url, source.path, max_new_tokens=source.config.agent.max_response_tokens)

    def policy(self, temperature: float) -> CountedPolicy:
        """A policy whose requests carry `temperature`."""
        return CountedPolicy(EndpointPolicy(self, temperature), self)

    def pause(self) -> None:
        """The server is not ours."""

    def load(self, model: Any) -> None:
        """The server is not ours; the table says so before a run starts."""
        raise BadSetting("A server's weights cannot be changed from here; train with rollout.engine=hf.")

    def close(self) -> None:
        """Wait for the requests under way; those that have not been sent are dropped, and none is tried again."""
        self._closing.set()
        self.executor.shutdown(cancel_futures=True)

    def ask(self, request: Request, temperature: float) -> tuple[Reply, Counters]:
        """The server's reply, and the tokens that it says it took."""
        body = {
            "model": self.model,
            "messages": [{"role": "user", "content": request.prompt}],
            "temperature": temperature,
            "max_tokens": self.max_new_tokens,
            # Servers read the seed as a 32-bit number at the narrowest.
            "seed": request.seed % 2**31,
        }
        error = ""
        for attempt in range(self.attempts):
            if attempt and self._closing.wait(min(2.0**attempt * 0.25, 10.0)):
                break
            try:
                answer = self._post(body)
                choice = answer["choices"][0]
                text = choice["message"]["content"] or ""
                usage = answer.get("usage") or {}
                tokens = Counters(
                    prompt_tokens=int(usage.get("prompt_tokens") or 0),
                    new_tokens=int(usage.get("completion_tokens") or 0),
                )
                return Reply(text, truncated=choice.get("finish_reason") == "length"), tokens
            except urllib.error.HTTPError as problem:
                said = problem.read().decode(errors="replace")[:300]
                error = f"status {problem.code}: {said}"
                if problem.code < 500 and problem.code != 429:
                    break
            except (OSError, ValueError, KeyError, IndexError, TypeError) as problem:
                error = f"{type(problem).__name__}: {problem}"
        raise EndpointFailed(
            f"The server at {self.url} did not answer for model {self.model!r} ({error}). "
            "Check the address, the model's name and $OPENAI_API_KEY."
        )

    def _post(self, body: dict[str, Any]) -> Any:
        headers = {"Content-Type": "application/json"}
        if self.key:
            headers["Authorization"] = f"Bearer {self.key}"
        request = urllib.request.Request(
            f"{self.url}/chat/completions", json.dumps(body).encode(), headers, method="POST"
        )
        with urllib.request.urlopen(request, timeout=self.timeout) as answer:
            return json.loads(answer.read())


class EndpointPolicy:
    """Sends every prompt as one user message."""

    def __init__(self, engine: EndpointEngine, temperature: float) -> None:
        self.engine, self.temperature = engine, temperature

    async def encode(self, prompt: str) -> Sequence[int]:
        """The server has the tokenizer; prompts are not measured here."""
        return ()

    async def generate(self, request: Request) -> Reply:
        """Wait for the server in a thread."""
        loop = asyncio.get_running_loop()
        reply, tokens = await loop.run_in_executor(
            self.engine.executor, self.engine.ask, request, self.temperature
        )
        self.engine.counters += tokens
        return reply

    def finish(self, episode: str) -> None:
        """Nothing is kept per episode."""
