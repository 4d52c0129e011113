"""A run of verl on the terminal: what it is doing, and the numbers of every iteration. Its own lines are in its log."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable
from typing import Any, Protocol

from ..runs.tracking import Screen
from .voice import ROW, heard

SILENCE = 30.0
"""Seconds without a line after which one says that the run is still going."""
_COLOURS = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
# Names of the local trainer's line, and where verl's metrics have the same.
_NAMES = {"loss/policy": "pg_loss", "kl_old": "ppo_kl", "loss/kl": "kl_loss"}


class Listener(Protocol):
    """Hears the output of a command as it comes."""

    def line(self, text: str) -> None:
        """One line."""
        ...

    def tick(self) -> None:
        """Time passes; called about once a second."""
        ...


class Narrator:
    """Tells the screen what a run of verl does.

    Args:
        screen: where to.
        clock: seconds, for tests.
    """

    def __init__(self, screen: Screen, clock: Callable[[], float] = time.monotonic) -> None:
        self.screen, self.clock = screen, clock
        self.began = self.spoke = clock()
        self.doing, self.last = "Ray and verl are starting", ""
        self._lock = threading.Lock()
        screen.say(f"{self.doing} (all of their output: verl.log)")

    def line(self, text: str) -> None:
        """One line of verl's output."""
        with self._lock:
            said = heard(text)
            if said.startswith(ROW):
                self._row(json.loads(said[len(ROW) :]))
            elif said:
                self.doing = said
                self._say(f"{self.clock() - self.began:6.0f} s  {said}")
            elif text.strip():
                self.last = " ".join(_COLOURS.sub("", text).split())

    def tick(self) -> None:
        """On a terminal the latest line of verl; elsewhere, now and then, that the run is still going."""
        with self._lock:
            seconds = self.clock() - self.began
            self.screen.now(f"{seconds:6.0f} s  {self.doing}: {self.last}")
            if self.clock() - self.spoke > SILENCE:
                self._say(f"{seconds:6.0f} s  still: {self.doing} (verl's latest line: {self.last[:80]})")

    def _say(self, text: str) -> None:
        self.spoke = self.clock()
        self.screen.say(text)

    def _row(self, row: dict[str, Any]) -> None:
        self.spoke = self.clock()
        if "success" in row and row.get("seconds"):
            more = {name: row[theirs] for name, theirs in _NAMES.items() if row.get(theirs) is not None}
            self.screen.iteration({**row, **_complete(more)})
            return
        evaluated = [
            f"{name.split('/')[1]} {value:.1%}"
            for name, value in row.items()
            if name.startswith("eval/") and name.endswith("/success")
        ]
        if evaluated:
            self._say(f"iteration {row['iteration']:>4}: success on {', '.join(evaluated)}")


def _complete(more: dict[str, float]) -> dict[str, float]:
    """The screen shows a loss beside a KL, or neither."""
    return more if {"loss/policy", "kl_old"} <= more.keys() else {}


class Echo:
    """All of the output, as it comes."""

    def __init__(self, screen: Screen) -> None:
        self.screen = screen

    def line(self, text: str) -> None:
        """One line."""
        self.screen.say(text)

    def tick(self) -> None:
        """Nothing to add."""


class Silent:
    """Nothing at all."""

    def line(self, text: str) -> None:
        """Not shown."""

    def tick(self) -> None:
        """Nothing to add."""
