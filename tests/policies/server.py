"""A small server with the interface of OpenAI's chat completions, on a port of its own."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Server(ThreadingHTTPServer):
    seen: list[dict[str, Any]]
    """The requests so far."""
    fail_first: int
    """So many requests are answered with `status`."""
    status: int
    reply: Callable[[str], str]
    """From a prompt to what is said."""
    faults: list[Callable[[BaseHTTPRequestHandler], None]]
    """What happens to the first requests instead of an answer, one each."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1/"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.seen.append({**body, "path": self.path, "key": self.headers["Authorization"]})
        if self.server.faults:
            self.close_connection = True
            with suppress(OSError):
                self.server.faults.pop(0)(self)
            return
        if len(self.server.seen) <= self.server.fail_first:
            self.send_response(self.server.status)
            self.end_headers()
            self.wfile.write(b"try later")
            return
        prompt = body["messages"][0]["content"]
        said = self.server.reply(prompt)
        answer = {
            "choices": [{"message": {"content": said}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": len(prompt.split()), "completion_tokens": len(said.split())},
        }
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(answer).encode())

    def log_message(self, *args: object) -> None:
        pass


@contextmanager
def serving(reply: Callable[[str], str]) -> Iterator[Server]:
    """A server that answers with `reply` until the block ends."""
    server = Server(("127.0.0.1", 0), Handler)
    server.seen, server.fail_first, server.status, server.reply = [], 0, 503, reply
    server.faults, server.daemon_threads, server.block_on_close = [], True, False
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
