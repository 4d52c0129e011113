"""The endpoint policy against a real local server."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from hgpo.errors import EndpointFailed
from hgpo.play.policy import Request
from hgpo.policies.endpoint import EndpointEngine


class Server(ThreadingHTTPServer):
    seen: list[dict[str, Any]]
    fail_first: int
    status: int


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.seen.append({**body, "path": self.path, "key": self.headers["Authorization"]})
        if len(self.server.seen) <= self.server.fail_first:
            self.send_response(self.server.status)
            self.end_headers()
            self.wfile.write(b"try later")
            return
        words = body["messages"][0]["content"].split()
        answer = {
            "choices": [{"message": {"content": f"<action>{words[-1]}</action>"}, "finish_reason": "stop"}]
        }
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(answer).encode())

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server(("127.0.0.1", 0), Handler)
    server.seen, server.fail_first, server.status = [], 0, 503
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def ask(server: Server, count: int = 1) -> list[str]:
    engine = EndpointEngine(f"http://127.0.0.1:{server.server_port}/v1/", "m", key="secret")
    policy = engine.policy(0.4)
    requests = [Request(f"say word{n}", (), 2**40 + n, f"e{n}", 0, "") for n in range(count)]

    async def go() -> list[str]:
        return [reply.text for reply in await asyncio.gather(*(policy.generate(one) for one in requests))]

    return asyncio.run(go())


def test_asks_with_seed_and_key(server: Server) -> None:
    assert ask(server, 3) == [f"<action>word{n}</action>" for n in range(3)]
    assert all(one["path"] == "/v1/chat/completions" and one["key"] == "Bearer secret" for one in server.seen)
    assert len({one["seed"] for one in server.seen}) == 3


def test_tries_again_when_the_server_is_busy(server: Server) -> None:
    server.fail_first = 2
    assert ask(server) == ["<action>word0</action>"]


def test_gives_up_at_once_on_a_wrong_request(server: Server) -> None:
    server.fail_first, server.status = 99, 404
    with pytest.raises(EndpointFailed, match=r"404.*Check the address"):
        ask(server)
    assert len(server.seen) == 1
