"""One POST of JSON to a server that is not trusted: within a time, without redirects, with no secret in any message."""

from __future__ import annotations

import base64
import contextlib
import email.utils
import functools
import io
import json
import socket
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPSConnection
from typing import Any

from ..errors import BadSetting

LONGEST = 16 << 20
"""Bytes of an answer that are read at most."""


@dataclass(frozen=True)
class Address:
    """The base address of a server, its secrets apart."""

    base: str
    """Without user, password and query."""
    query: str = field(default="", repr=False)
    """Sent with every request (some servers want a version or a key there)."""
    user: str = field(default="", repr=False)
    """`name:password`, sent as basic authorization."""

    @classmethod
    def parse(cls, url: str) -> Address:
        """Raises BadSetting for what is no address."""
        try:
            parts = urllib.parse.urlsplit(url)
            usable = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
            host = (parts.hostname or "").encode("idna").decode() if parts.hostname else ""
        except ValueError:  # a port that is no number, brackets that do not close, a name that is none
            usable, host = False, ""
        if not usable or not url.isprintable() or " " in url:
            raise BadSetting(
                f"--url is {masked(url)!r}; expected the server's base address, http://host:8000/v1."
            )
        host = f"[{host}]" if ":" in host else host
        place = host if parts.port is None else f"{host}:{parts.port}"
        path = urllib.parse.quote(parts.path, safe="/%:@!$&'()*+,;=~-._").rstrip("/")
        user = urllib.parse.unquote(parts.netloc.rpartition("@")[0])
        query = urllib.parse.quote(parts.query, safe="=&%/:@!$'()*+,;~-._?")
        return cls(f"{parts.scheme}://{place}{path}", query, user)

    @property
    def shown(self) -> str:
        """For messages and results."""
        return self.base

    def under(self, path: str) -> str:
        """The address of something below."""
        return f"{self.base}/{path}" + (f"?{self.query}" if self.query else "")


def masked(url: str) -> str:
    """An address for a message: without user, password and query.

    >>> masked("http://me:secret@host:80/v1?key=abc")
    'http://***@host:80/v1?***'
    """
    base, question, _ = url.partition("?")
    scheme, slashes, rest = base.partition("//") if "//" in base else ("", "", base)
    place, slash, path = rest.partition("/")
    if "@" in place:
        place = f"***@{place.rpartition('@')[2]}"
    elif "@" in rest:  # a password with a slash in it
        place, slash, path = f"***@{rest.rpartition('@')[2]}", "", ""
    return f"{scheme}{slashes}{place}{slash}{path}" + ("?***" if question else "")


@dataclass(frozen=True)
class Answer:
    """What a server answered."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def location(self) -> str:
        """Where a redirect leads."""
        return masked(self.headers.get("Location") or "")

    @property
    def retry_after(self) -> float | None:
        """Seconds that the server asks to wait, from 0; None where it does not say."""
        value = (self.headers.get("Retry-After") or "").strip()
        if value.isascii() and value.isdecimal():
            return float(value[:12])
        with contextlib.suppress(ValueError, TypeError, OverflowError):
            return max(0.0, email.utils.parsedate_to_datetime(value).timestamp() - time.time())
        return None

    def text(self, limit: int) -> str:
        """The beginning of the body, for a message."""
        return " ".join(self.body[: 4 * limit].decode(errors="replace").split())[:limit]

    def json(self) -> Any:
        """The body as JSON, whatever it calls itself; raises ValueError with a sentence when it is none."""
        charset = _charset(self.headers.get("Content-Type") or "")
        try:
            if charset:
                return json.loads(self.body.decode(charset).lstrip("\ufeff"))
            return json.loads(self.body.removeprefix(b"\xef\xbb\xbf"))
        except (ValueError, LookupError, RecursionError):
            kind = self.headers.get("Content-Type") or "no content type"
            raise ValueError(
                f"the answer is not JSON ({len(self.body)} bytes, {kind[:80]}): {self.text(200)}"
            ) from None


def _charset(content_type: str) -> str:
    """A charset that is named and is not what JSON is in anyway."""
    _, _, name = content_type.lower().partition("charset=")
    name = name.partition(";")[0].strip(" \"'")
    return "" if name in ("", "utf-8", "utf8", "us-ascii", "ascii") else name


class Caller:
    """Posts to one server; `close` breaks off what is under way."""

    def __init__(self, address: Address, key: str = "") -> None:
        self.address, self.key = address, key
        self._sockets: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._closed = False

    def post(self, path: str, body: Any, seconds: float) -> Answer:
        """Send `body` as JSON to `<base>/<path>` and read the whole answer within `seconds`.

        Raises:
            OSError, http.client.HTTPException: the connection failed, broke or took too long.
        """
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if self.key:
            headers["Authorization"] = f"Bearer {self.key}"
        elif self.address.user:
            headers["Authorization"] = f"Basic {base64.b64encode(self.address.user.encode()).decode()}"
        request = urllib.request.Request(
            self.address.under(path), json.dumps(body).encode(), headers, method="POST"
        )
        opener = urllib.request.build_opener(_NoRedirects, _Http(self, seconds), _Https(self, seconds))
        try:
            answer = opener.open(request, timeout=seconds)
        except urllib.error.HTTPError as error:  # any status but 2xx
            answer = error
        except urllib.error.URLError as error:
            raise error.reason if isinstance(error.reason, OSError) else OSError(str(error.reason)) from None
        with answer:
            content = answer.read(LONGEST + 1)
            if len(content) > LONGEST:
                raise OSError(f"the answer is longer than {LONGEST >> 20} MiB")
            return Answer(answer.status, dict(answer.headers.items()), content)

    def masked(self, text: str) -> str:
        """Text without the key and the password, which a server may repeat."""
        password = self.address.user.partition(":")[2]
        values = [value for _, value in urllib.parse.parse_qsl(self.address.query)]
        for secret in (self.key, password, *values):
            if len(secret) > 3:
                text = text.replace(secret, "***")
        return text

    def close(self) -> None:
        """Break off every request under way."""
        with self._lock:
            self._closed = True
            for one in self._sockets:
                with contextlib.suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)

    def _register(self, one: socket.socket) -> None:
        with self._lock:
            if self._closed:
                one.close()
                raise ConnectionAbortedError("the evaluation is over")
            self._sockets.add(one)

    def _forget(self, one: socket.socket) -> None:
        with self._lock:
            self._sockets.discard(one)


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A redirect is an answer like any other: following it would send the key to another place."""

    def redirect_request(self, *_: Any) -> None:
        return None


class _Http(urllib.request.HTTPHandler):
    def __init__(self, caller: Caller, seconds: float) -> None:
        super().__init__()
        self.make = functools.partial(_Limited, _Limits(caller, time.monotonic() + seconds))

    def http_open(self, request: urllib.request.Request) -> Any:
        return self.do_open(self.make, request)


class _Https(urllib.request.HTTPSHandler):
    def __init__(self, caller: Caller, seconds: float) -> None:
        super().__init__()
        self.make = functools.partial(_LimitedSafe, _Limits(caller, time.monotonic() + seconds))

    def https_open(self, request: urllib.request.Request) -> Any:
        return self.do_open(self.make, request)


@dataclass(frozen=True)
class _Limits:
    caller: Caller
    end: float
    """When the whole answer must be there."""


class _Limited(HTTPConnection):
    """Waits no longer than its limits allow, once it is connected."""

    def __init__(self, limits: _Limits, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.limits = limits
        self.sock: Any = None

    def connect(self) -> None:
        super().connect()
        self.sock = _Timed(self.sock, self.limits)


class _LimitedSafe(_Limited, HTTPSConnection):
    """The same, encrypted."""


class _Timed:
    """A socket whose every wait ends at one moment: a server that sends a byte now and then does not hold it open."""

    def __init__(self, inner: socket.socket, limits: _Limits) -> None:
        self.inner, self.limits = inner, limits
        self.read = False
        limits.caller._register(inner)

    def sendall(self, data: Any) -> None:
        self._hurry()
        self.inner.sendall(data)

    def makefile(self, *_: Any, **__: Any) -> io.BufferedReader:
        self.read = True
        return io.BufferedReader(_Reader(self))

    def receive(self, buffer: Any) -> int:
        self._hurry()
        return self.inner.recv_into(buffer)

    def _hurry(self) -> None:
        left = self.limits.end - time.monotonic()
        if left <= 0:
            raise TimeoutError("no answer in time")
        self.inner.settimeout(left)

    def close(self) -> None:
        # An answer is read after its connection is closed: the socket then goes with the answer's reader.
        if not self.read:
            self.end()

    def end(self) -> None:
        self.limits.caller._forget(self.inner)
        self.inner.close()


class _Reader(io.RawIOBase):
    def __init__(self, timed: _Timed) -> None:
        self.timed = timed

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        return self.timed.receive(buffer)

    def close(self) -> None:
        if not self.closed:
            self.timed.end()
        super().close()
