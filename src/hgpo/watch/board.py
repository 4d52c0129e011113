"""All the runs that were asked for, and those that turn up in folders of runs."""

from __future__ import annotations

import os
import secrets
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import BadFile
from ..runs.folder import RunFolder
from ..runs.glossary import meaning
from ..runs.lock import holder_of
from ..runs.naming import titles
from .follow import Followed

DEEP = 3
"""`runs/PRESET/NAME`: so many folders down runs are looked for."""
LOOK, SEARCH = 0.5, 5.0
"""Seconds between looks at runs, and between searches for new ones, however many pages ask."""
MANY = 500


@dataclass(frozen=True)
class Cursor:
    """What a page has of a run."""

    generation: int = -1
    rows: int = 0
    version: int = -1


def is_run(folder: Path) -> bool:
    """Whether a run was begun here: other things have a `config.json` too, a model for one."""
    run = RunFolder(folder)
    try:
        return run.exists() and (bool(run.description().config) or run.metrics_file.exists())
    except BadFile:
        return run.metrics_file.exists()
    except OSError:
        return False


def runs_below(folder: Path, deep: int = DEEP) -> list[Path]:
    """The runs in a folder of runs, by name."""
    try:
        inner = sorted(entry.path for entry in os.scandir(folder) if entry.is_dir() and entry.name[:1] != ".")
    except OSError:
        return []
    found: list[Path] = []
    for path in map(Path, inner):
        if is_run(path) or holder_of(path) is not None:
            found.append(path)
        elif deep > 1:
            found += runs_below(path, deep - 1)
        if len(found) >= MANY:
            break
    return found[:MANY]


def check_place(place: Path) -> None:
    """Refuse what is there and neither a run nor a folder of runs.

    Raises:
        BadFile: says what was expected.
    """
    if not os.path.lexists(place):
        return
    if not place.is_dir():
        raise BadFile(f"{place} is a file; expected the folder of a run, or a folder of runs.")
    if not is_run(place) and holder_of(place) is None and not runs_below(place):
        raise BadFile(
            f"{place} is no run ({RunFolder(place).config_file.name} is missing) and holds none. Name a folder given "
            "by --run, or a folder of runs; one that does not exist yet is waited for."
        )


class Board:
    """Runs by a number that stays theirs. Every method may be called from several threads."""

    def __init__(self, places: Sequence[Path]) -> None:
        self.places = list(dict.fromkeys(places))
        self.runs: dict[int, Followed] = {}
        self._ids: dict[Path, int] = {}
        self.name = secrets.token_hex(4)
        """Tells a page whether it still speaks with the same one."""
        self._count = 0
        self._named: list[tuple[int, int]] = []
        """The descriptions by which the runs were called last; no other run has the identity while one is held."""
        self._lock = threading.RLock()
        self._looked = self._searched = -SEARCH
        self.refresh()

    def refresh(self) -> None:
        """Look at all runs, and now and then for new ones."""
        with self._lock:
            now = time.monotonic()
            if now - self._looked < LOOK:
                return
            if now - self._searched >= SEARCH or any(one.description is None for one in self.runs.values()):
                self._search()
                self._searched = time.monotonic()
            for one in self.runs.values():
                one.refresh()
            self._name()
            self._looked = time.monotonic()

    def news(self, cursors: Mapping[int, Cursor]) -> dict[str, Any]:
        """What a page that has so much does not have yet."""
        with self._lock:
            self.refresh()
            return {
                "board": self.name,
                "runs": [
                    _news(number, one, cursors.get(number, Cursor())) for number, one in self.runs.items()
                ],
            }

    def column(self, number: int, name: str) -> dict[str, Any]:
        """All values of one metric."""
        with self._lock:
            one = self.run(number)
            return {
                "generation": one.generation,
                "iterations": one.series.iterations,
                "values": one.series.part([name], 0).get(name, []),
                "meaning": meaning(name),
            }

    def run(self, number: int) -> Followed:
        """A run by its number."""
        with self._lock:
            if number not in self.runs:
                raise BadFile(f"There is no run {number} on this page.")
            return self.runs[number]

    def _search(self) -> None:
        for place in self.places:
            single = (place in self._ids and self._begun(place)) or is_run(place)
            below = [] if single else runs_below(place)
            if below and place in self._ids:
                del self.runs[self._ids.pop(place)]
            for path in below or ([] if self._within(place) else [place]):
                self._follow(path)

    def _begun(self, place: Path) -> bool:
        return self.runs[self._ids[place]].description is not None

    def _within(self, place: Path) -> bool:
        """Whether runs in this folder are followed already."""
        return any(place in path.parents for path in self._ids)

    def _follow(self, path: Path) -> None:
        if path in self._ids or any(_same(path, other) for other in self._ids):
            return
        self._ids[path] = self._count
        self.runs[self._count] = Followed(path, str(path))
        self._count += 1

    def _name(self) -> None:
        described = [(number, id(one.description)) for number, one in self.runs.items()]
        if described == self._named:
            return
        self._named = described
        known = [one for one in self.runs.values() if one.description is not None]
        configs = [_telling(one.description.config) for one in known if one.description is not None]
        for one, title in zip(known, titles(configs, [one.folder.path.name or one.shown for one in known])):
            if one.title != title:
                one.rename(title)


def _telling(config: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that tell runs apart on the page: how long one is, and what tracks it, does not."""
    return {
        key: value
        for key, value in config.items()
        if key not in ("iterations", "save_every", "keep", "track")
    }


def _same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:
        return False


def _news(number: int, run: Followed, cursor: Cursor) -> dict[str, Any]:
    again = cursor.generation != run.generation or cursor.rows > len(run.series)
    start = 0 if again else cursor.rows
    news: dict[str, Any] = {
        "id": number,
        "generation": run.generation,
        "from": start,
        "count": len(run.series),
        "version": run.version,
    }
    if again or start < len(run.series):
        news["rows"] = run.rows(start)
    if cursor.version != run.version:
        news["about"] = run.about()
    return news
