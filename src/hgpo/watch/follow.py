"""One run, followed: what is new in it since the last look, and what happened to it."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..errors import BadFile
from ..runs.alarms import Alarm, Alarms
from ..runs.folder import LOCAL, Description, RunFolder, Tail
from ..runs.lock import Holder, holder_of
from ..runs.naming import flat
from .series import Series, numbers

CHARTED = (
    "success", "return", "score", "entropy", "kl_old", "loss/kl", "action_disagreement", "clip_share", "grad_norm",
    "inadmissible_share", "malformed_share", "shortened_share", "episode_length", "estimator/advantage/zero_share",
    "estimator/advantage/penalty_share", "tokens_per_second", "lr", "seconds",
)  # fmt: skip
"""The metrics that every page gets; it asks for others by name."""
SILENT = 600.0
"""Seconds without a line after which a run on another machine is no longer taken to be under way."""
EVENTS = 30


class Followed:
    """A folder in which a run is, was, or is expected. `refresh` looks; everything else only tells."""

    def __init__(self, path: Path, shown: str) -> None:
        self.folder = RunFolder(path)
        self.shown = shown
        """The folder as somebody wrote it."""
        self.series = Series()
        self.generation = 0
        """Goes up when rows that were handed out are no longer right."""
        self.version = 0
        """Goes up when `about` says something else."""
        self.description: Description | None = None
        self._settings: dict[str, str] = {}
        self.alarms: list[Alarm] = []
        self.events: list[dict[str, Any]] = []
        self.kept: list[str] = []
        self.title = shown
        self._tail = Tail(self.folder.metrics_file)
        self._alarms = Alarms()
        self._seen: dict[Path, tuple[int, ...] | None] = {}
        self._results: Mapping[str, Any] | None = None
        self._problem = self._unread = ""
        self._gone = self._lost = False
        self._holder: Holder | None = None
        self._about: dict[str, Any] = {}

    def refresh(self) -> None:
        """Look at the folder. A few `stat`s when nothing is new."""
        try:
            self._read_description()
            self._read_metrics()
            if self._changed(self.folder.results_file):
                self._read_results()
            if self._changed(self.folder.rollouts):
                self.kept = self._kept_files()
            self._read_holder()
        except OSError as error:  # a folder that may not be read, a disk that does not answer
            self._unread = f"The folder cannot be read: {error.strerror or error}."
        else:
            self._unread = ""
        self._settle()

    def rename(self, title: str) -> None:
        """Call it otherwise: another run came to stand beside it."""
        self.title = title
        self._settle()

    def rows(self, start: int) -> dict[str, Any]:
        """Iterations and charted metrics from the place `start` on."""
        names = [*CHARTED, *(name for name in self.series.columns if _is_charted(name))]
        return {
            "iterations": self.series.iterations[start:],
            "columns": self.series.part(dict.fromkeys(names), start),
        }

    def about(self) -> dict[str, Any]:
        """Everything but the rows."""
        return self._about

    # Looking

    def _changed(self, path: Path) -> bool:
        """Whether a file or folder is another one than at the last look."""
        try:
            found = os.stat(path)
            now: tuple[int, ...] | None = (found.st_ino, found.st_size, found.st_mtime_ns)
        except OSError:
            now = None
        if path in self._seen and self._seen[path] == now:
            return False
        self._seen[path] = now
        return True

    def _read_description(self) -> None:
        if not self._changed(self.folder.config_file):
            return
        if not self.folder.exists():
            if self.description is not None and not self._gone:
                self._gone = True
                self._say("The run was deleted. What was read of it stays on this page.")
            return
        try:
            found = self.folder.description()
        except (BadFile, OSError) as error:
            self._problem = f"config.json cannot be read: {error}"
            return
        self._problem, before = "", self.description
        if self._gone:
            self._say("There is a run in the folder again.")
        if before is not None and before.identity != found.identity:
            self._say("Another run has begun in this folder; the numbers of the one before were put away.")
            self._forget()
            self._tail = Tail(self.folder.metrics_file)
        self._gone, self.description, self._settings = False, found, flat(found.config)

    def _read_metrics(self) -> None:
        news = self._tail.read()
        if news.missing and not self._lost and not self._gone and len(self.series):
            self._say(f"{self.folder.metrics_file.name} is gone. What was read of it stays on this page.")
        self._lost = news.missing
        for sentence in news.damaged[:3]:
            self._say(f"{self.folder.metrics_file.name}: {sentence}; it is left out.")
        if len(news.damaged) > 3:
            self._say(f"{self.folder.metrics_file.name}: {len(news.damaged) - 3} further lines are left out.")
        if news.again:
            before = self.series
            self._forget()
            self._take(news.rows)
            self._tell_what_became_of(before)
        elif news.rows:
            self._take(news.rows)

    def _take(self, rows: list[dict[str, Any]]) -> None:
        for row in rows:
            if not self.series.add(row):
                self.generation += 1
            self.alarms += self._alarms.raised({**numbers(row), "iteration": row["iteration"]})

    def _forget(self) -> None:
        self.series, self._alarms, self.alarms = Series(), Alarms(), []
        self.generation += 1

    def _tell_what_became_of(self, before: Series) -> None:
        """Of the rows that were there, after the file was written anew."""
        if not len(before):
            return
        same = self.series.agreement(before)
        if same == 0:
            self._say("The numbers were replaced by others; all were read again.")
        elif same < len(before):
            last, kept = before.iterations[-1], before.iterations[same - 1]
            self._say(f"The run went back from iteration {last} to {kept}: it was resumed from a checkpoint.")
        else:
            self._say(f"The run was resumed after iteration {before.iterations[-1]}.")

    def _read_results(self) -> None:
        try:
            self._results = self.folder.results()
        except (BadFile, OSError):
            self._results = None

    def _kept_files(self) -> list[str]:
        try:
            return [path.name.partition(".")[0] for path in self.folder.rollout_files()]
        except OSError:
            return []

    def kept_file(self, key: str) -> tuple[Path, int]:
        """The file and the iteration of kept rollouts, by what stands before the dot of its name."""
        for path, iteration in self.folder.rollout_files().items():
            if path.name.partition(".")[0] == key:
                return path, iteration
        raise BadFile(f"The rollouts {key!r} of {self.shown} are not there (any more).")

    def _read_holder(self) -> None:
        found = holder_of(self.folder.path)
        self._holder = found if found is not None and self._trains(found) else None

    def _trains(self, holder: Holder) -> bool:
        alive = holder.alive()
        if alive is None:
            seen = self._seen_last()
            return seen is None or time.time() - seen < SILENT
        return alive

    def _seen_last(self) -> float | None:
        try:
            return os.stat(self.folder.metrics_file).st_mtime
        except OSError:
            return None

    # Telling

    def _say(self, text: str) -> None:
        self.events = [*self.events, {"time": time.time(), "text": text}][-EVENTS:]

    def _settle(self) -> None:
        state, sentence = self._state()
        described = self.description or Description()
        about = {
            "title": self.title,
            "place": self.shown,
            "name": described.name,
            "state": state,
            "sentence": sentence,
            "iterations": _whole(described.config.get("iterations")),
            "trainer": described.trainer,
            "estimator": str(described.estimator.get("name", "")),
            "settings": self._settings,
            "panels": {str(split): panel.tasks for split, panel in described.panels.items()},
            "alarms": [vars(alarm) for alarm in self.alarms],
            "events": self.events,
            "kept": self.kept,
            "metrics": sorted(self.series.columns),
        }
        if about != self._about:
            self._about = about
            self.version += 1

    def _state(self) -> tuple[str, str]:
        """A word for the page's colours, and a sentence for people."""
        if self._unread or self._problem:
            return "broken", self._unread or self._problem
        if self._gone:
            return "gone", "The run was deleted; these are its last numbers."
        if self.description is None and self._holder is None:
            return "waiting", "There is no run here yet. This page goes on when one begins."
        if self._holder is not None:
            if not len(self.series):
                return "starting", "The run has begun; its first numbers are not there yet."
            return "training", f"In training, process {self._holder.pid} since {self._holder.since}."
        if self._results is not None:
            return "ended", self._outcome(self._results)
        going_on = self.description is not None and self.description.trainer == LOCAL
        advice = f" Go on with: hgpo train --resume {self.shown}" if going_on else ""
        return "stopped", f"No process trains here and the run has no outcome: it was stopped.{advice}"

    @staticmethod
    def _outcome(results: Mapping[str, Any]) -> str:
        ended, count, seconds = (results.get(name) for name in ("ended", "iterations", "seconds"))
        sentence = str(ended or "ended")[:200]
        sentence = sentence[:1].upper() + sentence[1:]
        if isinstance(count, int):
            sentence += f" after {count} iterations"
        if isinstance(seconds, (int, float)):
            sentence += f", {seconds:.0f} s of training"
        return sentence + "."


def _is_charted(name: str) -> bool:
    return name.startswith("seconds/") or (
        name.startswith("eval/") and name.endswith(("/success", "/return", "/score"))
    )


def _whole(value: Any) -> int | None:
    return value if type(value) is int else None
