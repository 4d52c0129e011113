"""Any OpenAI-compatible server as an engine, for evaluation: nothing but the standard library."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPException
from typing import Any

from ..errors import BadSetting, EndpointFailed
from ..play.policy import Reply, Request
from .engine import CountedPolicy, Counters, Source
from .http import Address, Answer, Caller

LONGEST_WAIT = 60.0
"""Seconds to wait at most before the next try, whatever a server asks for."""
BUSY = (408, 425, 429)
"""Refusals that are worth another try; so is every 5xx."""

UNFIT = (400, 413, 422)
"""Refusals of this one request (a prompt that is too long), which say nothing about the next."""


class EndpointEngine:
    """Asks `<url>/<path>`, several requests at a time, with retries.

    A request is tried again when the connection breaks, when the body is cut short or makes no sense, and when the
    server is busy or broken (429, 5xx), after the time it asks for (Retry-After) or twice the wait before. Redirects
    are refused, for they would carry the key elsewhere. After `concurrency` failures in a row nothing more is asked.

    Args:
        url: base of the server, for example `http://localhost:8000/v1`.
        model: the model's name there.
        max_new_tokens: as sent to the server.
        key: bearer token; `$OPENAI_API_KEY` when not given.
        concurrency: requests under way at once.
        timeout: seconds for one try, from the connection to the last byte.
        attempts: tries of one request; a server's 4xx answer other than 408, 425 and 429 is final.
        patience: seconds for one request with all its tries and waits.
    """

    path = "chat/completions"
    """What is asked for, below the server's address."""

    def __init__(
        self,
        url: str,
        model: str,
        *,
        max_new_tokens: int = 512,
        key: str | None = None,
        concurrency: int = 16,
        timeout: float = 120.0,
        attempts: int = 6,
        patience: float = 600.0,
    ) -> None:
        address = Address.parse(url)
        self.url, self.model = address.shown, model
        self.max_new_tokens = max_new_tokens
        key = (key if key is not None else os.environ.get("OPENAI_API_KEY", "")).strip()
        if not (key.isascii() and key.isprintable()):
            raise BadSetting(
                "The key in $OPENAI_API_KEY holds characters that a key cannot have; copy it again."
            )
        self.timeout, self.attempts, self.patience = timeout, attempts, patience
        self.concurrency = concurrency
        self.executor = ThreadPoolExecutor(concurrency, "hgpo-endpoint")
        self.counters = Counters()
        self.caller = Caller(address, key)
        self._closing = threading.Event()
        self._failed_in_row = 0

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
        """Break off the requests under way, if there still are any; those that have not been sent are dropped."""
        self._closing.set()
        self.caller.close()
        self.executor.shutdown(cancel_futures=True)

    def question(self, request: Request) -> dict[str, Any]:
        """The prompt as the server wants it."""
        return {"messages": [{"role": "user", "content": well_formed(request.prompt)}]}

    def read(self, answer: Answer) -> tuple[Reply, Counters]:
        """The reply in an answer, and the tokens that it says it took; raises ValueError when there is none."""
        return read_reply(answer)

    def ask(self, request: Request, temperature: float) -> tuple[Reply, Counters]:
        """The server's reply, and the tokens that it says it took.

        Raises:
            EndpointFailed: there is no reply, and there will be none.
        """
        if self._failed_in_row >= self.concurrency:
            raise EndpointFailed(
                f"The server at {self.url} left {self._failed_in_row} requests in a row without an answer and is not "
                "asked again."
            )
        body = {
            "model": well_formed(self.model),
            **self.question(request),
            "temperature": temperature,
            "max_tokens": self.max_new_tokens,
            # Servers read the seed as a 32-bit number at the narrowest.
            "seed": request.seed % 2**31,
        }
        end = time.monotonic() + self.patience
        error, wait, about_the_request = "", 0.0, False
        for attempt in range(self.attempts):
            left = end - time.monotonic()
            if attempt and (wait >= left or self._closing.wait(wait)):
                break
            wait = min(0.5 * 2.0**attempt, 10.0)
            try:
                answer = self.caller.post(self.path, body, min(self.timeout, max(left, 0.0)))
            except (OSError, HTTPException, ValueError) as problem:
                said = "no answer in time" if isinstance(problem, TimeoutError) else str(problem)
                error = f"{type(problem).__name__}: {' '.join(said.split())}"
                continue
            if answer.status == 200:
                try:
                    reply = self.read(answer)
                except ValueError as problem:
                    error = str(problem)
                    continue
                self._failed_in_row = 0
                return reply
            error = f"status {answer.status}: {answer.text(300)}"
            if 300 <= answer.status < 400:
                error = (
                    f"it redirects to {answer.location or 'another address'}, which is not followed, for the key would "
                    "go there too: give that address with --url if you trust it"
                )
                break
            about_the_request = answer.status in UNFIT
            if answer.status < 500 and answer.status not in BUSY:
                break
            if answer.retry_after is not None:
                wait = min(answer.retry_after, LONGEST_WAIT)
        if not about_the_request:
            self._failed_in_row += 1
        raise EndpointFailed(
            f"The server at {self.url} did not answer for model {self.model!r} ({self.caller.masked(error)}). "
            "Check the address, the model's name and $OPENAI_API_KEY."
        )


def read_choice(answer: Answer) -> tuple[dict[str, Any], Counters]:
    """The first choice of a completion and the counted tokens.

    Raises:
        ValueError: the body is none; says what it is.
    """
    content = answer.json()
    if isinstance(content, dict) and content.get("error"):
        raise ValueError(f"it reports an error: {str(content['error'])[:300]}")
    choices = content.get("choices") if isinstance(content, dict) else None
    choice = choices[0] if isinstance(choices, list) and choices else None
    if not isinstance(choice, dict):
        raise ValueError(f"the answer has no choices: {answer.text(200)}")
    usage = content.get("usage")
    tokens = Counters(
        prompt_tokens=_count(usage, "prompt_tokens"), new_tokens=_count(usage, "completion_tokens")
    )
    return choice, tokens


def read_reply(answer: Answer) -> tuple[Reply, Counters]:
    """The text and the counted tokens of a chat completion.

    Raises:
        ValueError: the body is none; says what it is.
    """
    choice, tokens = read_choice(answer)
    message = choice.get("message")
    if not isinstance(message, dict) or "content" not in message:
        raise ValueError(f"the answer has no choices[0].message.content: {answer.text(200)}")
    text = _text(message["content"])
    return Reply(well_formed(text), truncated=choice.get("finish_reason") == "length"), tokens


def _text(content: Any) -> str:
    """The text of a message: a string, nothing, or a list of parts of which some are text."""
    if content is None or isinstance(content, str):
        return content or ""
    if isinstance(content, list):
        parts = [part.get("text") if isinstance(part, dict) else part for part in content]
        return "".join(part for part in parts if isinstance(part, str))
    raise ValueError(f"choices[0].message.content is a JSON {type(content).__name__}; expected text")


def _count(usage: Any, name: str) -> int:
    value = usage.get(name) if isinstance(usage, dict) else None
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53 else 0


def well_formed(text: str) -> str:
    """Text without halves of surrogate pairs, which JSON can carry and nothing else can.

    >>> well_formed("a" + chr(0xd83d) + chr(0xde00)) == "a" + chr(0x1f600)
    True
    >>> well_formed("a" + chr(0xd83d) + "b") == "a" + chr(0xfffd) + "b"
    True
    """
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


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
