"""Following `metrics.jsonl` while a run writes it: each line is read once.

The file may be appended to, cut back and written again (a resumed run does that), replaced by that of another run, or
deleted at any moment. A file is still the same when it is the same inode, not shorter than what was read, and its
bytes at the beginning and just before the place reached are those that were read.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from . import metrics

PROBE = 96
"""Bytes that are compared at the beginning and at the end of what was read."""
PIECE = 1 << 20
LONGEST = 4 << 20
"""Bytes of a line; the metrics of an iteration are a few thousand."""


@dataclass
class News:
    """What `Tail.read` found."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    """The lines since the last look, or all when `again`."""
    again: bool = False
    """The file is another one than before: `rows` are all there are."""
    missing: bool = False
    """There is no file (yet, or any more)."""
    damaged: list[str] = field(default_factory=list)
    """A sentence about each line that is not the metrics of an iteration; it was left out."""


class Tail:
    """The place reached in a `metrics.jsonl`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._known: tuple[int, int, int, int] | None = None
        """Device, inode, size and time of the file at the last look."""
        self._file: tuple[int, int] | None = None
        self._begin()

    def _begin(self) -> None:
        self._offset = self._line = 0
        self._head = self._end = b""

    def read(self) -> News:
        """What is new since the last call. Costs one `stat` when nothing is."""
        try:
            seen = os.stat(self.path)
            if not stat.S_ISREG(seen.st_mode):
                return News(missing=True)
            known = (seen.st_dev, seen.st_ino, seen.st_size, seen.st_mtime_ns)
            if known == self._known:
                return News()
            with open(self.path, "rb") as file:
                return self._read(file, known)
        except OSError:
            # Between two looks, or between `stat` and `open`, it may go away: a resumed run renames a new one over it.
            self._known = None
            return News(missing=True)

    def _read(self, file: BinaryIO, known: tuple[int, int, int, int]) -> News:
        now = os.fstat(file.fileno())
        news = News(again=self._file is not None and not self._same(file, now))
        if news.again or self._file is None:
            self._begin()
        self._file = (now.st_dev, now.st_ino)
        file.seek(self._offset)
        rest = b""
        while piece := file.read(PIECE):
            *whole, rest = (rest + piece).split(b"\n")
            for line in whole:
                self._take(line + b"\n", news)
            if len(rest) > LONGEST:
                self._take(rest, news)
                rest = b""
        # A line is complete with its bracket, even where nobody ended it.
        if rest.rstrip().endswith(b"}") and _is_row(rest):
            self._take(rest, news)
        self._known = known
        return news

    def _same(self, file: BinaryIO, now: os.stat_result) -> bool:
        if (now.st_dev, now.st_ino) != self._file or now.st_size < self._offset:
            return False
        file.seek(0)
        if file.read(len(self._head)) != self._head:
            return False
        file.seek(self._offset - len(self._end))
        return file.read(len(self._end)) == self._end

    def _take(self, line: bytes, news: News) -> None:
        if len(self._head) < PROBE:
            self._head = (self._head + line)[:PROBE]
        self._end = (self._end + line)[-PROBE:]
        self._offset += len(line)
        self._line += line.endswith(b"\n")
        if not line.strip():
            return
        try:
            news.rows.append(metrics.parse(line))
        except metrics.NOT_A_ROW as error:
            news.damaged.append(f"line {self._line} is not the metrics of an iteration ({str(error)[:200]})")


def _is_row(line: bytes) -> bool:
    try:
        metrics.parse(line)
    except metrics.NOT_A_ROW:
        return False
    return True
