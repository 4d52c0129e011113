"""A vLLM server behind `/v1/completions`: ids go out, ids and log-probabilities come back, nothing is re-tokenised."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from hgpo.errors import EndpointFailed
from hgpo.models.tiny import make_tokenizer
from hgpo.play.policy import Request
from hgpo.policies.completions import CompletionsEngine

WORDS = ["take the red apple", "put it on the table"]


class Completions(ThreadingHTTPServer):
    """Answers like vLLM: ids that decoding and encoding again would not give back."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.seen: list[dict[str, Any]] = []
        self.choice: dict[str, Any] = {}

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"


class Handler(BaseHTTPRequestHandler):
    server: Completions

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.seen.append({"path": self.path, **body})
        answer = {"choices": [self.server.choice], "usage": {"prompt_tokens": 4, "completion_tokens": 3}}
        with suppress(OSError):
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(answer).encode())

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Completions]:
    server = Completions()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return make_tokenizer(WORDS, "bpe", 300)


def choice(ids: list[int], logs: Any, **more: Any) -> dict[str, Any]:
    """One choice as vLLM writes it."""
    logprobs = {"token_logprobs": logs, "tokens": [str(one) for one in ids], "top_logprobs": None}
    return {
        "index": 0,
        "text": "take",
        "token_ids": ids,
        "logprobs": logprobs,
        "finish_reason": "stop",
        **more,
    }


def ask(engine: CompletionsEngine) -> Any:
    async def one() -> Any:
        policy = engine.policy(0.7)
        ids = await policy.encode(WORDS[0])
        return await policy.generate(Request(WORDS[0], ids, 2**40 + 5, "e", 0, "o")), list(ids)

    return asyncio.run(one())


def test_sampled_ids_and_logs_are_kept_as_they_came(server: Completions, tokenizer: Any) -> None:
    byte_by_byte = [tokenizer.convert_tokens_to_ids(letter) for letter in "take"]
    again = tokenizer("take", add_special_tokens=False)["input_ids"]
    assert byte_by_byte != again, "the tokenizer would give these ids back: the test could not fail"
    ids = [*byte_by_byte, tokenizer.eos_token_id]
    server.choice = choice(ids, [-0.5, -0.25, -1.0, -2.0, -0.125], finish_reason="length")
    engine = CompletionsEngine(server.url, "served", tokenizer, max_new_tokens=9, key="")
    reply, prompt = ask(engine)
    assert list(reply.response_ids) == ids
    assert list(reply.logprobs) == [-0.5, -0.25, -1.0, -2.0, -0.125]
    assert reply.text == "take"
    assert reply.truncated
    (asked,) = server.seen
    assert asked["path"] == "/v1/completions"
    assert asked["prompt"] == prompt == list(engine.encoder(WORDS[0]))
    assert asked["return_token_ids"] is True
    assert asked["logprobs"] == 0
    assert (asked["model"], asked["temperature"], asked["max_tokens"]) == ("served", 0.7, 9)
    assert asked["seed"] == (2**40 + 5) % 2**31
    assert engine.counters.requests == 1
    assert engine.counters.new_tokens == len(ids)
    assert engine.counters.prompt_tokens == len(prompt)
    engine.close()


@pytest.mark.parametrize(
    ("answered", "sentence"),
    [
        ({"text": "take", "finish_reason": "stop"}, "no choices\\[0\\].token_ids: it takes a vLLM server"),
        (choice([5, 6], [-0.5]), "no log-probability for each"),
        (choice([5, 6], [-0.5, None]), "no log-probability for each"),
        (choice([5], [float("nan")]), "no log-probability for each"),
        (choice([5], None), "no log-probability for each"),
        ({**choice([5], [-0.5]), "token_ids": ["5"]}, "no choices\\[0\\].token_ids"),
    ],
)
def test_a_server_without_ids_or_logs_is_refused(
    server: Completions, tokenizer: Any, answered: dict[str, Any], sentence: str
) -> None:
    server.choice = answered
    engine = CompletionsEngine(server.url, "served", tokenizer, attempts=1, key="")
    with pytest.raises(EndpointFailed, match=sentence):
        ask(engine)
    engine.close()


@pytest.mark.slow
def test_an_evaluation_on_the_server_of_a_model(server: Completions, tmp_path: Path) -> None:
    """`hgpo eval RUN --engine completions --url ...` takes the settings of the run and asks with its token ids."""
    from hgpo.runs import evaluate, load, train

    from ..worlds import FETCH, WORLD

    run = tmp_path / "run"
    train(load(FETCH, ["iterations=1", "eval.every=0"]), run, quiet=True)
    server.choice = choice([7, 8], [-0.5, -0.5])
    found = evaluate(
        str(run),
        seeds=[1],
        tasks=2,
        engine="completions",
        url=server.url,
        logs=str(tmp_path / "logs"),
        allow_env=WORLD,
    )
    assert found["episodes"] == 2
    assert found["server"] == server.url
    assert all(one["model"] == str(run / "model") and one["prompt"] for one in server.seen)
