"""The endpoint engine against a real local server."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace

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
