"""The endpoint engine against a real local server."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import email.utils
import json
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest

from hgpo.errors import BadSetting, EndpointFailed
from hgpo.play.policy import Request
from hgpo.policies.endpoint import EndpointEngine
from hgpo.policies.engine import Counters

from .server import Server, serving


@pytest.fixture
def server() -> Iterator[Server]:
    with serving(lambda prompt: f"<action>{prompt.split()[-1]}</action>") as one:
        yield one


def ask(engine: EndpointEngine, count: int = 1) -> list[str]:
    policy = engine.policy(0.4)
    requests = [Request(f"say word{n}", (), 2**40 + n, f"e{n}", 0, "") for n in range(count)]

    async def go() -> list[str]:
        return [reply.text for reply in await asyncio.gather(*(policy.generate(one) for one in requests))]

    try:
        return asyncio.run(go())
    finally:
        engine.close()


def engine(server: Server) -> EndpointEngine:
    return EndpointEngine(server.url, "m", key="secret")


def test_asks_with_seed_and_key(server: Server) -> None:
    assert ask(engine(server), 3) == [f"<action>word{n}</action>" for n in range(3)]
    assert all(one["path"] == "/v1/chat/completions" and one["key"] == "Bearer secret" for one in server.seen)
    assert len({one["seed"] for one in server.seen}) == 3
    assert {one["temperature"] for one in server.seen} == {0.4}


def test_counts_what_the_server_says_it_took(server: Server) -> None:
    asked = engine(server)
    ask(asked, 3)
    assert replace(asked.counters, seconds=0.0) == Counters(requests=3, prompt_tokens=6, new_tokens=3)
    assert asked.counters.seconds > 0


def test_tries_again_when_the_server_is_busy(server: Server) -> None:
    server.fail_first = 2
    assert ask(engine(server)) == ["<action>word0</action>"]


def test_gives_up_at_once_on_a_wrong_request(server: Server) -> None:
    server.fail_first, server.status = 99, 404
    with pytest.raises(EndpointFailed, match=r"404.*Check the address"):
        ask(engine(server))
    assert len(server.seen) == 1


def test_an_address_that_is_none_is_refused() -> None:
    with pytest.raises(BadSetting, match=r"--url is 'localhost'; expected the server's base address"):
        EndpointEngine("localhost", "m")


# A server that is not trusted

SURROGATE = chr(0xD83D)
Fault = Callable[[BaseHTTPRequestHandler], None]


def answering(status: int, body: bytes = b"", **headers: str) -> Fault:
    def fault(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()
        handler.wfile.write(body)

    return fault


def said(text: object) -> bytes:
    return json.dumps({"choices": [{"message": {"content": text}}]}).encode()


def hang_up(handler: BaseHTTPRequestHandler) -> None:
    handler.connection.shutdown(socket.SHUT_RDWR)


def drip(handler: BaseHTTPRequestHandler) -> None:
    """A byte now and then, for ever: no single wait is long."""
    handler.send_response(200)
    handler.end_headers()
    for _ in range(300):
        handler.wfile.write(b" ")
        handler.wfile.flush()
        time.sleep(0.05)


def quick(server: Server, **changes: Any) -> EndpointEngine:
    return EndpointEngine(server.url, "m", **{"key": "secret", "timeout": 5.0, **changes})


BROKEN: dict[str, Fault] = {
    "a closed connection": hang_up,
    "a body that is cut short": answering(200, said("x")[:20], Content_Length="9000"),
    "half of the JSON": answering(200, said("x")[:20]),
    "nothing": answering(200),
    "a page": answering(200, b"<html>Log in</html>", Content_Type="text/html"),
    "another shape": answering(200, b'{"choices": []}'),
    "a list": answering(200, b"[1]"),
    "a number as content": answering(200, said(7)),
    "an error inside a good status": answering(200, b'{"error": {"message": "loading"}}'),
    "an unknown charset": answering(200, said("x"), Content_Type="application/json; charset=klingon"),
    "nested too deeply": answering(200, b"[" * 100_000),
    "a status line that is none": lambda handler: handler.wfile.write(b"HELLO\r\n\r\n") and None,
    "503": answering(503, b"later"),
    "429": answering(429, b"slow down", Retry_After="0"),
    "408": answering(408),
}


@pytest.mark.parametrize("fault", BROKEN)
def test_what_may_pass_is_tried_again(server: Server, fault: str) -> None:
    server.faults = [BROKEN[fault]]
    assert ask(quick(server)) == ["<action>word0</action>"]
    assert len(server.seen) == 2


@pytest.mark.parametrize("fault", BROKEN)
def test_what_does_not_pass_gets_a_sentence(server: Server, fault: str) -> None:
    server.faults = [BROKEN[fault]] * 2
    with pytest.raises(EndpointFailed, match=r"did not answer for model 'm' \(.+\)\. Check the address"):
        ask(quick(server, attempts=2))
    assert len(server.seen) == 2


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (answering(200, said("ok")[:-1] + b', "usage": "none"}', Content_Type="text/plain"), "ok"),
        (answering(200, b"\xef\xbb\xbf" + said("ok"), Content_Type="text/event-stream"), "ok"),
        (answering(200, said("ok").decode().encode("utf-16"), Content_Type="x; charset=utf-16"), "ok"),
        (answering(200, said(None)), ""),
        (answering(200, said([{"type": "text", "text": "o"}, {"type": "image"}, "k"])), "ok"),
        (answering(200, said(f"a{SURROGATE}b")), "a\ufffdb"),
        (answering(200, said(f"{SURROGATE}{chr(0xDE00)}")), "\U0001f600"),
    ],
)
def test_odd_answers_are_understood(server: Server, answer: Fault, text: str) -> None:
    server.faults = [answer]
    assert ask(quick(server)) == [text]
    assert len(server.seen) == 1


def test_half_a_surrogate_pair_in_a_prompt_is_not_sent(server: Server) -> None:
    with contextlib.closing(quick(server)) as engine:
        engine.ask(Request(f"say {SURROGATE}", (), 1, "e", 0, ""), 0.4)
    assert server.seen[0]["messages"][0]["content"] == "say \ufffd"


def test_the_whole_answer_must_come_in_time(server: Server) -> None:
    server.faults = [drip]
    began = time.monotonic()
    with pytest.raises(EndpointFailed, match="no answer in time"):
        ask(quick(server, timeout=0.5, attempts=1))
    assert time.monotonic() - began < 3


def test_all_tries_together_have_a_limit(server: Server) -> None:
    server.fail_first = 99
    began = time.monotonic()
    with pytest.raises(EndpointFailed, match="503"):
        ask(quick(server, patience=1.0))
    assert time.monotonic() - began < 3


def test_a_server_may_say_when_to_come_back_but_not_for_ever(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []
    with contextlib.closing(quick(server)) as engine:
        monkeypatch.setattr(engine._closing, "wait", lambda seconds: waits.append(seconds))
        later = email.utils.format_datetime(datetime.now(timezone.utc) + timedelta(hours=3), usegmt=True)
        server.faults = [
            answering(429, Retry_After=value) for value in ("7", "1000000000", later, "soon", "-1")
        ]
        engine.ask(Request("say x", (), 1, "e", 0, ""), 0.4)
    assert waits == [7, 60, 60, 4.0, 8.0]


def test_a_redirect_is_an_error_and_carries_no_key(server: Server) -> None:
    with serving(lambda prompt: "stolen") as other:
        elsewhere = other.url.replace("//", "//me:hidden@")
        server.faults = [answering(307, Location=elsewhere)]
        with pytest.raises(EndpointFailed, match=r"redirects to http://\*\*\*@127.*not followed") as caught:
            ask(quick(server))
    assert other.seen == []
    assert "hidden" not in str(caught.value)


def test_no_secret_in_a_message(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    server.faults = [answering(401, b"wrong key: sesame-1, not sesame-2 or sesame-3")]
    url = server.url.replace("//", "//me:sesame-2@") + "?api-key=sesame-3"
    with pytest.raises(EndpointFailed, match="wrong key: ") as caught:
        ask(EndpointEngine(url, "m", key="sesame-1"))
    assert "sesame" not in str(caught.value)
    assert server.seen[0]["path"] == "/v1/chat/completions?api-key=sesame-3"
    for bad in (
        "http://me:sesame@host:port/v1",
        "ftp://me:sesame@host",
        "http://me:se/same@",
        "http://h/?k=sesame x",
    ):
        with pytest.raises(BadSetting, match="expected the server's base address") as refused:
            EndpointEngine(bad, "m")
        assert "same" not in str(refused.value)
    with pytest.raises(BadSetting, match="copy it again") as key:
        EndpointEngine("http://host/v1", "m", key="ses\name")
    assert "name" not in str(key.value)


def test_a_user_and_password_are_sent_as_such(server: Server) -> None:
    assert ask(EndpointEngine(server.url.replace("//", "//me:pass%40word@"), "m", key="")) != []
    assert server.seen[0]["key"] == "Basic " + base64.b64encode(b"me:pass@word").decode()


def test_a_server_that_never_answers_is_not_asked_for_ever(server: Server) -> None:
    server.fail_first, server.status = 10**6, 404
    with contextlib.closing(quick(server, concurrency=3)) as engine:
        for _ in range(10):
            with pytest.raises(EndpointFailed):
                engine.ask(Request("say x", (), 1, "e", 0, ""), 0.4)
        assert len(server.seen) == 3
    server.seen.clear()
    server.status = 400  # about one request, not about the server
    with contextlib.closing(quick(server, concurrency=3)) as engine:
        for _ in range(5):
            with pytest.raises(EndpointFailed):
                engine.ask(Request("say x", (), 1, "e", 0, ""), 0.4)
    assert len(server.seen) == 5


def test_closing_breaks_off_what_is_under_way(server: Server) -> None:
    server.faults = [drip] * 4
    engine = quick(server, timeout=60.0)
    future = engine.executor.submit(engine.ask, Request("say x", (), 1, "e", 0, ""), 0.4)
    while not server.seen:
        time.sleep(0.01)
    began = time.monotonic()
    engine.close()
    assert time.monotonic() - began < 2
    assert isinstance(future.exception(), EndpointFailed)
