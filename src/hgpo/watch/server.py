"""The small server behind the page: this machine only, reading only.

It listens on the loopback address and answers requests whose `Host` is that address, so that a page elsewhere cannot
read runs through a name of its own that points here (DNS rebinding). Data is given to this page alone: the browser
says where a request comes from (`Sec-Fetch-Site`). Nothing that a request holds becomes a path.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import socket
from collections.abc import Callable, Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from ..errors import BadSetting, HgpoError
from ..inspect.page import asset, policy
from .board import Board, Cursor
from .kept import Kept

ADDRESS = "127.0.0.1"
HOSTS = (ADDRESS, "localhost", "[::1]")
"""Names under which a browser here reaches us, also through a forwarded port."""
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
SCRIPTS = ("chart.js", "runs.js", "kept.js", "main.js")
LARGE = 2_000
"""Bytes from which on a reply is compressed."""

Reply = tuple[str, bytes]
Query = dict[str, str]


class Server(ThreadingHTTPServer):
    """Serves the page for some runs. `serve_forever` until somebody ends it."""

    daemon_threads = True

    def __init__(self, places: Sequence[Path], port: int = 0) -> None:
        self.board, self.kept = Board(places), Kept()
        self.files = _files()
        self._open: set[socket.socket] = set()
        try:
            super().__init__((ADDRESS, port), Handler)
        except OSError as error:
            raise BadSetting(
                f"--port {port} was given, but {ADDRESS}:{port} cannot be had: {error.strerror or error}. Choose "
                "another, or leave it out."
            ) from error

    @property
    def address(self) -> str:
        """What to open in a browser."""
        return f"http://{ADDRESS}:{self.server_address[1]}/"

    def process_request(self, request: Any, client_address: Any) -> None:
        """A browser keeps its connections: they are remembered, to be ended with the server."""
        self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """The other side went away."""
        self._open.discard(request)
        super().shutdown_request(request)

    def server_close(self) -> None:
        """Stop listening, and leave nobody waiting."""
        super().server_close()
        for connection in list(self._open):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that went away in the middle of a reply is no news."""

    # What there is to ask for

    def news(self, query: Query) -> Reply:
        """`?have=ID.GENERATION.ROWS.VERSION,...`: what the page does not have yet."""
        cursors: dict[int, Cursor] = {}
        for part in query.get("have", "").split(",")[:2000]:
            words = part.split(".")
            if len(words) == 4 and all(word.isdigit() and len(word) < 16 for word in words):
                number, generation, rows, version = map(int, words)
                cursors[number] = Cursor(generation, rows, version)
        return _json(self.board.news(cursors))

    def column(self, query: Query) -> Reply:
        """`?run=ID&name=METRIC`: all values of a metric."""
        return _json(self.board.column(_number(query, "run"), query.get("name", "")))

    def groups(self, query: Query) -> Reply:
        """`?run=ID&key=ITERATION`: groups and advantages of kept rollouts."""
        return _json(self.kept.groups(self.board.run(_number(query, "run")), query.get("key", "")))

    def episode(self, query: Query) -> Reply:
        """`?run=ID&key=ITERATION&number=N`: an episode, step by step."""
        run = self.board.run(_number(query, "run"))
        return _json(self.kept.episode(run, query.get("key", ""), _number(query, "number")))

    def inspector(self, query: Query) -> Reply:
        """`?run=ID&key=ITERATION`: the page of `hgpo inspect`."""
        run = self.board.run(_number(query, "run"))
        return "text/html; charset=utf-8", self.kept.page(run, query.get("key", ""))


DATA: dict[str, Callable[[Server, Query], Reply]] = {
    "/news": Server.news,
    "/column": Server.column,
    "/groups": Server.groups,
    "/episode": Server.episode,
}


class Handler(BaseHTTPRequestHandler):
    """Answers one connection."""

    server: Server
    protocol_version = "HTTP/1.1"
    server_version = "hgpo"
    sys_version = ""
    timeout = 60

    def do_GET(self) -> None:
        """Give what is asked for, or say why not."""
        refusal = self._refusal()
        if refusal is not None:
            self._send(*refusal)
            return
        path, _, rest = self.path.partition("?")
        query = {name: values[0] for name, values in parse_qs(rest).items()}
        if path in self.server.files:
            self._send(HTTPStatus.OK, *self.server.files[path])
        elif path == "/inspect":
            self._give(Server.inspector, query, policy() + "; frame-ancestors 'none'")
        elif path in DATA:
            self._give(DATA[path], query)
        else:
            self._send(HTTPStatus.NOT_FOUND, "text/plain; charset=utf-8", b"There is nothing here.\n")

    do_HEAD = do_GET

    def do_POST(self) -> None:
        """Nothing can be changed here."""
        self.close_connection = True  # what was sent along is not read
        self._send(HTTPStatus.METHOD_NOT_ALLOWED, "text/plain; charset=utf-8", b"This page only reads.\n")

    do_PUT = do_DELETE = do_PATCH = do_OPTIONS = do_POST

    def _refusal(self) -> tuple[HTTPStatus, str, bytes] | None:
        host = (self.headers.get("Host") or "").strip().lower()
        name, _, port = host.rpartition(":") if not host.endswith("]") else (host, "", "")
        if not name:  # no port
            name, port = host, ""
        if name not in HOSTS or (port and not port.isdigit()):
            said = f"This page is served to this machine alone; ask for {self.server.address}\n"
            return HTTPStatus.FORBIDDEN, "text/plain; charset=utf-8", said.encode()
        origin = self.headers.get("Origin")
        if origin is not None and origin.lower() != f"http://{host}":
            return (
                HTTPStatus.FORBIDDEN,
                "text/plain; charset=utf-8",
                b"Only the page itself may ask for this.\n",
            )
        came_from = self.headers.get("Sec-Fetch-Site", "none")
        opened = self.path == "/" and self.headers.get("Sec-Fetch-Mode", "") == "navigate"
        if came_from not in ("none", "same-origin") and not opened:
            return (
                HTTPStatus.FORBIDDEN,
                "text/plain; charset=utf-8",
                b"Only the page itself may ask for this.\n",
            )
        return None

    def _give(self, method: Callable[[Server, Query], Reply], query: Query, policy: str = POLICY) -> None:
        try:
            kind, content = method(self.server, query)
        except (HgpoError, OSError) as error:
            kind, content = _json({"problem": str(error)})
        except Exception as error:
            # One question that goes wrong must not take the page away from a run that goes on.
            said = f"Something is wrong in hgpo itself ({type(error).__name__}: {error}); please report it."
            kind, content = _json({"problem": said})
        self._send(HTTPStatus.OK, kind, content, policy)

    def _send(self, status: HTTPStatus, kind: str, content: bytes, policy: str = POLICY) -> None:
        packed = len(content) > LARGE and "gzip" in self.headers.get("Accept-Encoding", "")
        if packed:
            content = gzip.compress(content, compresslevel=1)
        self.send_response(status)
        for name, value in {
            "Content-Type": kind,
            "Content-Length": str(len(content)),
            "Content-Security-Policy": policy,
            "Cache-Control": "no-store",
            "Cross-Origin-Opener-Policy": "same-origin",
            "Cross-Origin-Resource-Policy": "same-origin",
            "Referrer-Policy": "no-referrer",
            "X-Content-Type-Options": "nosniff",
            "X-Frame-Options": "DENY",
        }.items():
            self.send_header(name, value)
        if packed:
            self.send_header("Content-Encoding", "gzip")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: the terminal belongs to the run."""


def _files() -> dict[str, Reply]:
    """The page's own files, read once."""
    page = resources.files(__package__).joinpath("page")

    def own(name: str) -> str:
        return page.joinpath(name).read_text(encoding="utf-8")

    script = "\n".join([asset("text.js"), *map(own, SCRIPTS)])
    return {
        "/": ("text/html; charset=utf-8", own("watch.html").encode()),
        "/watch.css": ("text/css; charset=utf-8", own("watch.css").encode()),
        "/watch.js": ("text/javascript; charset=utf-8", script.encode()),
        "/icon.svg": ("image/svg+xml", own("icon.svg").encode()),
    }


def _number(query: Query, name: str) -> int:
    word = query.get(name, "")
    if not word.isascii() or not word.isdigit() or len(word) > 9:
        raise BadSetting(f"{name}={word[:40]!r} was asked for; expected a whole number.")
    return int(word)


def _json(content: Any) -> Reply:
    """Pure ASCII, so that lone surrogates travel too."""
    return "application/json", json.dumps(content, allow_nan=False, separators=(",", ":")).encode("ascii")
