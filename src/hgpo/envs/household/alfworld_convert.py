"""From the official download to the compact file: 4,027 files of 500 MB to one of 5 MB, with the same games.

    convert(open_download(Path("json_2.1.2_tw-pddl.zip")), Path("data/alfworld/games.jsonl.xz"))

The download is data of unknown origin: archives are read in place and never unpacked, only files named
`<split>/<name>/<trial>/game.tw-pddl` are opened, each up to `MAX_GAME` bytes, and every game is checked before one byte
is written. The file that comes out depends on the games alone, not on their order or on how they were packed.
"""

from __future__ import annotations

import hashlib
import json
import lzma
import re
import stat
import zipfile
import zlib
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...errors import BadFile
from ...files import atomic_path
from ...progress import Progress
from .alfworld_games import (
    FOLDERS,
    GAME_FILE,
    FolderGames,
    check_rules,
    in_official_set,
    parse_game,
    with_task,
    without_task,
)

MAX_GAME = 8 << 20
"""Bytes of a game's file; the largest official one has a tenth of a megabyte."""
MAX_GAMES = 100_000
MAX_HELD = 1 << 30
"""Bytes of all games together, compressed one by one; the official ones have 26 million."""
# What a name or a trial may be made of: they become parts of task ids and of paths.
_NAME = re.compile(r"[\w+,-][\w.+,-]*")
FETCH = "Fetch it again (`hgpo data` says where)."


class Download(ABC):
    """The official download, as a folder or as an archive."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @abstractmethod
    def tasks(self) -> Sequence[str]:
        """The ids of all games, sorted."""

    @abstractmethod
    def read(self, task: str) -> bytes:
        """The file of a game, up to one byte more than `MAX_GAME`."""


class FolderDownload(Download):
    """The folder that `alfworld-download` made, or one with an archive unpacked in it."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.root = FolderGames(path).root

    def tasks(self) -> Sequence[str]:
        files = (file.relative_to(self.root).as_posix() for file in self.root.glob(f"*/*/*/{GAME_FILE}"))
        return sorted(task for file in files if (task := _task(self.path, file)))

    def read(self, task: str) -> bytes:
        file = self.root / task / GAME_FILE
        if not stat.S_ISREG(file.stat().st_mode):
            raise OSError("it is not a regular file")
        with open(file, "rb") as content:
            return content.read(MAX_GAME + 1)


class ArchiveDownload(Download):
    """The zip archive of the official games, read in place."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        try:
            self._archive = zipfile.ZipFile(path)
        except (OSError, zipfile.BadZipFile, ValueError) as error:
            raise BadFile(f"{path} cannot be read as a zip archive ({error}). {FETCH}") from error
        self._members: dict[str, zipfile.ZipInfo] = {}
        for member in self._archive.infolist():
            task = _task(path, member.filename)
            if task and task in self._members:
                raise BadFile(f"{path} holds the game {task} twice. {FETCH}")
            if task:
                self._members[task] = member

    def tasks(self) -> Sequence[str]:
        return sorted(self._members)

    def read(self, task: str) -> bytes:
        try:
            with self._archive.open(self._members[task]) as content:
                return content.read(MAX_GAME + 1)
        except (RuntimeError, NotImplementedError, zipfile.BadZipFile, zlib.error, EOFError) as error:
            raise OSError(str(error)) from error  # encrypted, packed in an unknown way, damaged


def open_download(path: Path) -> Download:
    """The official download at `path`.

    Raises:
        BadFile: there is nothing, or something else.
    """
    if path.is_dir():
        return FolderDownload(path)
    if not path.is_file():
        raise BadFile(f"{path} does not exist. `hgpo data` says where the official download is.")
    return ArchiveDownload(path)


@dataclass(frozen=True)
class Converted:
    """What a conversion did."""

    games: Mapping[str, int]
    """How many games of each split were written."""
    not_played: int
    """Games that the official environment leaves out too: movable receptacles, slicing, not solvable."""


def convert(download: Download, target: Path) -> Converted:
    """Write the compact file of a download, whole or not at all.

    Raises:
        BadFile: a game is damaged or of another version of ALFWorld; names it.
    """
    tasks = download.tasks()
    if not tasks:
        raise BadFile(
            f"{download.path} holds no games: no file <split>/<name>/<trial>/{GAME_FILE} with one of the splits "
            f"{', '.join(FOLDERS)}. {FETCH}"
        )
    if len(tasks) > MAX_GAMES:
        raise BadFile(
            f"{download.path} holds {len(tasks)} games; expected {MAX_GAMES} at most (ALFWorld has 4,027)."
        )
    domains: dict[str, str] = {}
    grammars: dict[str, str] = {}
    rows: list[bytes] = []
    counts: Counter[str] = Counter()
    held = 0
    with Progress("reading games", total=len(tasks)) as progress:
        for task in tasks:
            row = _row(download, task, domains, grammars) if in_official_set(task) else None
            if row is not None:
                rows.append(row)
                counts[task.split("/")[0]] += 1
                held += len(row)
            if held > MAX_HELD:
                raise BadFile(f"The games in {download.path} are too large to be ALFWorld's. {FETCH}")
            progress.add()
    if not rows:
        raise BadFile(
            f"None of the {len(tasks)} games in {download.path} is one that the official environment plays."
        )
    target.parent.mkdir(parents=True, exist_ok=True)
    with (
        atomic_path(target) as partial,
        lzma.open(partial, "wb") as out,
        Progress("writing games", total=len(rows)) as progress,
    ):
        out.write(json.dumps({"domains": domains, "grammars": grammars}).encode() + b"\n")
        for row in rows:
            out.write(zlib.decompress(row) + b"\n")
            progress.add()
    return Converted({folder: counts[folder] for folder in FOLDERS if counts[folder]}, len(tasks) - len(rows))


def _row(download: Download, task: str, domains: dict[str, str], grammars: dict[str, str]) -> bytes | None:
    """The row of a game, compressed until all are read; None for one that cannot be solved.

    Its domain and grammar are added to those known so far, each under its digest.
    """
    where = f"{download.path} ({task})"
    try:
        raw = download.read(task)
        if len(raw) > MAX_GAME:
            raise ValueError(f"more than {MAX_GAME >> 20} MB for one game")
        content = json.loads(raw)
        game = parse_game(content)
    except (OSError, ValueError, RecursionError) as error:
        reason = getattr(error, "strerror", None) or error
        raise BadFile(f"The game {where} cannot be read: {reason}. {FETCH}") from error
    if content.get("solvable") is not True:
        return None
    check_rules(game, where)
    grammar = without_task(game.grammar)
    if with_task(grammar, game.task) != game.grammar:
        raise BadFile(f"The task sentence of {where} cannot be held in the compact file: {game.task!r}.")
    split, name, trial = task.split("/")
    row = {
        "split": split,
        "name": name,
        "trial": trial,
        "task": game.task,
        "solvable": True,
        "walkthrough": list(game.walkthrough),
        "domain": _add(domains, game.domain),
        "grammar": _add(grammars, grammar),
        "problem": game.problem,
    }
    return zlib.compress(json.dumps(row).encode(), 1)


def _add(texts: dict[str, str], text: str) -> str:
    key = hashlib.md5(text.encode("utf-8", "surrogatepass"), usedforsecurity=False).hexdigest()
    texts[key] = text
    return key


def _task(source: Path, file: str) -> str:
    """The id of the game in a file; empty for files that are no games of a split."""
    parts = file.split("/")[-4:]
    if len(parts) < 4 or parts[3] != GAME_FILE or parts[0] not in FOLDERS:
        return ""
    if not all(_NAME.fullmatch(part) for part in parts[1:3]):
        raise BadFile(
            f"{source} holds a game under the name {file!r}; expected {parts[0]}/<name>/<trial>/{GAME_FILE} with names "
            f"of letters, digits and _ . + , -. {FETCH}"
        )
    return "/".join(parts[:3])
