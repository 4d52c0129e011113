"""Any OpenAI-compatible server as a policy, for evaluation: nothing but the standard library."""

from __future__ import annotations

import asyncio
import json
import os
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ..errors import EndpointFailed
from ..play.policy import Reply, Request


class EndpointPolicy:
    """Asks `<url>/chat/completions`, several requests at a time, with retries.

    Args:
        url: base of the server, for example `http://localhost:8000/v1`.
        model: the model's name there.
        temperature: as sent to the server.
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
        temperature: float = 0.4,
        max_new_tokens: int = 512,
        key: str | None = None,
        concurrency: int = 16,
        timeout: float = 120.0,
        attempts: int = 4,
    ) -> None:
        self.url, self.model = url.rstrip("/"), model
        self.temperature, self.max_new_tokens = temperature, max_new_tokens
        self.key = key if key is not None else os.environ.get("OPENAI_API_KEY", "")
        self.timeout, self.attempts = timeout, attempts
        self.executor = ThreadPoolExecutor(concurrency, "hgpo-endpoint")

    async def encode(self, prompt: str) -> Sequence[int]:
        """The server has the tokenizer; prompts are not measured here."""
        return ()

    async def generate(self, request: Request) -> Reply:
        """Send the prompt as one user message."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self.executor, self._ask, request)

    def finish(self, episode: str) -> None:
        """Nothing is kept per episode."""

    def _ask(self, request: Request) -> Reply:
        body = {
            "model": self.model,
            "messages": [{"role": "user", "content": request.prompt}],
            "temperature": self.temperature,
            "max_tokens": self.max_new_tokens,
            # Servers read the seed as a 32-bit number at the narrowest.
            "seed": request.seed % 2**31,
        }
        error = ""
        for attempt in range(self.attempts):
            if attempt:
                time.sleep(min(2.0**attempt * 0.25, 10.0))
            try:
                answer = self._post(body)
                choice = answer["choices"][0]
                text = choice["message"]["content"] or ""
                return Reply(text, truncated=choice.get("finish_reason") == "length")
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
