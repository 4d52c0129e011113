"""A progress line for work that takes long: silent when it is short or when nobody is looking."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TextIO


class Progress:
    """Shows `label  43%  1.2M/2.8M  12 s left` on a terminal, from the second second on.

    Nothing is printed when the stream is not a terminal, so logs and pipes stay clean.

    >>> with Progress("reading", total=10) as bar:
    ...     for _ in range(10):
    ...         bar.add(1)
    """

    def __init__(
        self, label: str, total: float | None = None, stream: TextIO | None = None, delay: float = 1.0
    ) -> None:
        self.label, self.total, self.done = label, total, 0.0
        self.stream = stream if stream is not None else sys.stderr
        self.visible = self.stream.isatty()
        self.start = self.last = time.monotonic()
        self.delay = delay
        self.width = 0

    def add(self, amount: float = 1.0) -> None:
        """Count `amount` more as done and redraw at most ten times a second."""
        self.done += amount
        if not self.visible:
            return
        now = time.monotonic()
        if now - self.start < self.delay or now - self.last < 0.1:
            return
        self.last = now
        self._draw(self.text(now - self.start))

    def text(self, elapsed: float) -> str:
        """The line for the present state after `elapsed` seconds."""
        if not self.total:
            return f"{self.label}  {_count(self.done)}  {elapsed:.0f} s"
        share = min(1.0, self.done / self.total)
        left = elapsed * (1 - share) / share if share > 0 else float("inf")
        bar = ("#" * round(20 * share)).ljust(20, ".")
        remaining = f"{left:.0f} s left" if left < 1e6 else ""
        return f"{self.label}  [{bar}] {share:4.0%}  {_count(self.done)}/{_count(self.total)}  {remaining}"

    def _draw(self, line: str) -> None:
        self.stream.write("\r" + line.ljust(self.width))
        self.stream.flush()
        self.width = len(line)

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.width:
            self.stream.write("\r" + " " * self.width + "\r")
            self.stream.flush()


def _count(number: float) -> str:
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.1f}{unit}"
    return f"{number:.0f}"
