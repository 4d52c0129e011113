"""Fetching one large file over HTTP: resumable, bounded, and there only when it is whole."""

from __future__ import annotations

import http.client
import os
import re
import urllib.error
import urllib.parse
import urllib.request
from email.message import Message
from pathlib import Path

from .errors import BadFile
from .files import is_full
from .progress import Progress

SECONDS = 30.0
"""How long a server may be silent."""
PART = ".part"
"""How the name of a file that is not whole yet ends."""
_PIECE = 1 << 20
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


def download(url: str, target: Path, limit: int) -> Path:
    """Fetch `url` to `target`; what an interrupted attempt left is gone on with.

    Args:
        url: `https://...`; plain `http` from this machine only.
        target: the file; one that is there is taken as it is.
        limit: bytes that it may have at most.

    Raises:
        BadFile: it cannot be had, is too large, or ended before its end; what came is kept for the next attempt.
    """
    parts = urllib.parse.urlsplit(url)
    if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in _LOOPBACK):
        raise BadFile(f"{url!r} was given; expected an https address.")
    if target.is_file():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(target.name + PART)
    have = partial.stat().st_size if partial.is_file() else 0
    request = urllib.request.Request(url, headers={"Range": f"bytes={have}-"} if have else {})
    try:
        with urllib.request.urlopen(request, timeout=SECONDS) as answer:
            if answer.status != 206:  # the server begins anew
                have = 0
            total = _total(answer.headers, have)
            if total is not None and total > limit:
                raise BadFile(f"{url} has {total} bytes; expected {limit} at most.")
            with (
                open(partial, "r+b" if have else "wb") as out,
                Progress(f"fetching {target.name}", total) as progress,
            ):
                out.seek(have)
                progress.add(have)
                while piece := answer.read(_PIECE):
                    have += len(piece)
                    if have > limit:
                        raise BadFile(f"{url} has more than the {limit} bytes that were expected at most.")
                    out.write(piece)
                    progress.add(len(piece))
                out.flush()
                os.fsync(out.fileno())
    except urllib.error.HTTPError as error:
        if error.code == 416:  # another file than the one that was begun
            partial.unlink(missing_ok=True)
        raise BadFile(f"{url} cannot be fetched: the server says {error.code} {error.reason}.") from error
    except (urllib.error.URLError, http.client.HTTPException, OSError, ValueError) as error:
        if is_full(error):
            raise
        reason = getattr(error, "reason", None) or error
        raise BadFile(
            f"{url} cannot be fetched ({reason}). Run the command again; it goes on where it stopped."
        ) from error
    if total is not None and have != total:
        raise BadFile(
            f"{url} ended after {have} of {total} bytes. Run the command again; it goes on where it stopped."
        )
    os.replace(partial, target)
    return target


def _total(headers: Message, have: int) -> int | None:
    """The size of the whole file, where the server says it."""
    ranged = re.fullmatch(r"bytes (\d+)-\d+/(\d+)", headers.get("Content-Range") or "")
    if ranged:
        if int(ranged[1]) != have:
            raise ValueError(f"the server went on at byte {ranged[1]} instead of {have}")
        return int(ranged[2])
    length = headers.get("Content-Length") or ""
    return int(length) if length.isdigit() else None
