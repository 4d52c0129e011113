"""A web server of this machine for tests: what it was asked, and answers that a test chooses."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass(frozen=True)
class Request:
    """What a client sent."""

    method: str
    path: str
    headers: dict[str, str]
    """By lower-case name."""
    body: bytes


@dataclass(frozen=True)
class Reply:
    """What the client gets."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)


@dataclass
class Server:
    """A running server."""

    url: str
    requests: list[Request] = field(default_factory=list)


@contextmanager
def serving(answer: Callable[[Request], Reply]) -> Iterator[Server]:
    """Serve on a free port of the loopback address until the block ends."""
    server = Server("")

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_any(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            headers = {name.lower(): value for name, value in self.headers.items()}
            if "chunked" in headers.get("transfer-encoding", ""):
                body = b""
                while size := int(self.rfile.readline().split(b";")[0], 16):
                    body += self.rfile.read(size)
                    self.rfile.readline()
                self.rfile.readline()
            else:
                body = self.rfile.read(length)
            request = Request(self.command, self.path, headers, body)
            server.requests.append(request)
            reply = answer(request)
            self.send_response(reply.status)
            for name, value in {"Content-Length": str(len(reply.body)), **reply.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(reply.body)

        do_GET = do_POST = do_PUT = do_HEAD = handle_any

        def log_message(self, format: str, *args: object) -> None:
            pass

    running = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.url = f"http://127.0.0.1:{running.server_address[1]}"
    thread = threading.Thread(target=running.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        running.shutdown()
        running.server_close()
        thread.join()
