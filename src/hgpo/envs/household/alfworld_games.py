"""Where official games come from: a compact file with all of them, or the folder of the official download.

Both are read once per process and shared by all environments. A game's text is parsed when it is played.
"""

from __future__ import annotations

import functools
import hashlib
import json
import lzma
import re
import threading
import zlib
from abc import ABC, abstractmethod
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...errors import BadFile
from ..places import ALFWORLD_FILE
from .house import House

FOLDERS = ("train", "valid_seen", "valid_unseen", "valid_train")
"""The official split folders."""

GAME_FILE = "game.tw-pddl"
"""The file of a game in the official download, `<split>/<name>/<trial>/game.tw-pddl`: JSON."""

# The PDDL domain and the text grammar that the native engine implements, as sha256 of the text with runs of
# white space made one space and the task sentence made `UNKNOWN GOAL.`: first as in the released games
# (ALFWorld 0.4.0), then as packaged with alfworld 0.4.2 for people who generate games anew. They differ in
# how the help text is written down and in a sink type that no receptacle has.
DOMAIN_DIGESTS = (
    "095330b41d6659e74c6797f4a914b07923707bc33fa33984f278c9cb98edec5b",
    "c1ef97add90ca92e2a4ac7431e16f2d4073301a21cec767355cc0b8c99156aef",
)
GRAMMAR_DIGESTS = (
    "5fb7a5abf4ffd49fc595a679ecba89744f8c6b2b7e80b7d891200c42a02be72f",
    "49281f55d68cf8db1f80636d6247beb078daac200a340bedf133da0b161211fb",
)

_AGAIN = "The file is damaged or truncated; fetch it again, or make it anew (`hgpo data`)."
_GENERIC = "Your task is to: UNKNOWN GOAL."
_TASK = re.compile(r'Your task is to: ((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True)
class Game:
    """One official game."""

    problem: str
    """Its PDDL problem."""
    task: str
    """The sentence after "Your task is to: "."""
    walkthrough: tuple[str, ...]
    domain: str
    grammar: str
    """Its text grammar, with the task sentence in it."""


class HouseCache:
    """The houses used recently, shared by all environments of a process."""

    def __init__(self, size: int = 1024) -> None:
        self.size = size
        self._houses: OrderedDict[str, House] = OrderedDict()

    def get(self, task: str) -> House | None:
        house = self._houses.get(task)
        if house is not None:
            self._houses.move_to_end(task)
        return house

    def put(self, task: str, house: House) -> None:
        self._houses[task] = house
        if len(self._houses) > self.size:
            self._houses.popitem(last=False)


class Games(ABC):
    """A source of games."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.houses = HouseCache()

    @abstractmethod
    def folders(self) -> tuple[str, ...]:
        """The split folders that exist."""

    @abstractmethod
    def tasks(self, folder: str) -> list[str]:
        """The sorted task ids of a split folder."""

    @abstractmethod
    def has(self, task: str) -> bool:
        """Whether there is such a game."""

    @abstractmethod
    def game(self, task: str) -> Game:
        """Read one game."""

    def _no_split(self, folder: str) -> BadFile:
        present = ", ".join(self.folders()) or "none"
        return BadFile(
            f"{self.path} has no games of the split {folder!r}; it has {present}. "
            "`hgpo data` says where the official games are; or choose a split that is there."
        )


def open_games(path: Path) -> Games:
    """The games at `path`: the compact file, a folder that has it, or the official download.

    They are read again only when the file changes.
    """
    if _download(path) is None and (path / ALFWORLD_FILE.name).is_file():
        path = path / ALFWORLD_FILE.name
    try:
        status = path.stat()
    except OSError as error:
        raise BadFile(
            f"Cannot read ALFWorld games from {path}: {error.strerror}. Give the compact file, or the folder "
            "that `alfworld-download` made ($ALFWORLD_DATA); `hgpo data` says where to get either."
        ) from error
    with _reading:
        return _open(path.absolute(), status.st_mtime_ns, status.st_size)


_reading = threading.Lock()
"""Held while games are read: threads that start together share one reading, and do not each read them all."""


@functools.lru_cache(maxsize=8)
def _open(path: Path, changed: int, size: int) -> Games:
    return FolderGames(path) if path.is_dir() else CompactGames(path)


class CompactGames(Games):
    """All games in one `.jsonl` or `.jsonl.xz` file.

    Line 1 holds the domain and the grammar, every further line one game. Rows are kept compressed, one by one
    (26 MB for all 4,027 games instead of 190), and parsed when played.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._rows: dict[str, bytes] = {}
        self._by_folder: dict[str, list[str]] = {}
        number = 0
        try:
            with lzma.open(path) if _is_xz(path) else open(path, "rb") as lines:
                for number, line in enumerate(lines, 1):
                    if number == 1:
                        self._read_header(line)
                    elif line.strip():
                        self._add(line)
        except (OSError, EOFError, lzma.LZMAError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise BadFile(
                f"{path}: line {number if number else 1} of the compact games file cannot be read "
                f"({type(error).__name__}: {error}). {_AGAIN}"
            ) from error
        if not self._rows:
            raise BadFile(f"{path} holds no games. {_AGAIN}")
        for ids in self._by_folder.values():
            ids.sort()

    def _read_header(self, line: bytes) -> None:
        header = json.loads(line)
        self._domains, self._grammars = dict(header["domains"]), dict(header["grammars"])

    def _add(self, line: bytes) -> None:
        # The id's parts come before the long problem text, so only the start of the row is looked at.
        task = _row_id(line)
        self._rows[task] = zlib.compress(line, 1)
        self._by_folder.setdefault(task.split("/")[0], []).append(task)

    def folders(self) -> tuple[str, ...]:
        return tuple(folder for folder in FOLDERS if folder in self._by_folder)

    def tasks(self, folder: str) -> list[str]:
        if folder not in self._by_folder:
            raise self._no_split(folder)
        return self._by_folder[folder]

    def has(self, task: str) -> bool:
        return task in self._rows

    def game(self, task: str) -> Game:
        try:
            row = json.loads(zlib.decompress(self._rows[task]))
            sentence = str(row["task"])
            grammar = str(self._grammars[row["grammar"]])
            return Game(
                problem=row["problem"],
                task=sentence,
                walkthrough=tuple(row["walkthrough"]),
                domain=self._domains[row["domain"]],
                grammar=with_task(grammar, sentence),
            )
        except (ValueError, KeyError, TypeError) as error:
            raise BadFile(
                f"{self.path}: the game {task} cannot be read ({type(error).__name__}: {error}). {_AGAIN}"
            ) from error


_ID = re.compile(rb'"(split|name|trial)": ?"([^"\\]+)"')


def _row_id(line: bytes) -> str:
    parts = dict(_ID.findall(line, 0, 1000))
    if len(parts) != 3:
        row = json.loads(line)
        return f"{row['split']}/{row['name']}/{row['trial']}"
    if not line.rstrip().endswith(b"}"):
        raise ValueError("the row is cut short")
    return b"/".join((parts[b"split"], parts[b"name"], parts[b"trial"])).decode()


def _is_xz(path: Path) -> bool:
    with open(path, "rb") as file:
        return file.read(6) == b"\xfd7zXZ\x00"


def _splits(path: Path) -> tuple[str, ...]:
    """The official split folders in a folder."""
    return tuple(folder for folder in FOLDERS if (path / folder).is_dir())


def _download(path: Path) -> Path | None:
    """The folder with the official splits: `path` or the last `json_*` in it; None where there is none."""
    for folder in (path, *sorted(path.glob("json_*"), reverse=True)):
        if _splits(folder):
            return folder
    return None


class FolderGames(Games):
    """The official download: `json_2.1.1/<split>/<name>/<trial>/game.tw-pddl`.

    As in the official environment, games with movable receptacles or slicing in their name and games
    marked as not solvable are left out.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        root = _download(path)
        if root is None:
            raise BadFile(
                f"{self.path} holds none of {', '.join(FOLDERS)} (nor json_2.1.1 with them). Give the folder "
                "that `alfworld-download` made ($ALFWORLD_DATA)."
            )
        self.root = root
        self._by_folder: dict[str, list[str]] = {}

    def folders(self) -> tuple[str, ...]:
        return _splits(self.root)

    def tasks(self, folder: str) -> list[str]:
        if folder not in self.folders():
            raise self._no_split(folder)
        if folder not in self._by_folder:
            tasks = []
            for file in (self.root / folder).glob(f"*/*/{GAME_FILE}"):
                task = f"{folder}/{file.parent.parent.name}/{file.parent.name}"
                if in_official_set(task) and _listed(file):
                    tasks.append(task)
            self._by_folder[folder] = sorted(tasks)
        if not self._by_folder[folder]:
            raise self._no_split(folder)
        return self._by_folder[folder]

    def has(self, task: str) -> bool:
        parts = task.split("/")
        return len(parts) == 3 and parts[0] in self.folders() and task in self.tasks(parts[0])

    def game(self, task: str) -> Game:
        file = self.root / task / GAME_FILE
        try:
            return parse_game(json.loads(file.read_text(encoding="utf-8")))
        except (OSError, ValueError) as error:
            raise BadFile(
                f"{file} cannot be read ({type(error).__name__}: {error}). The file is damaged or missing; "
                "fetch it again with `alfworld-download`."
            ) from error


def parse_game(content: Any) -> Game:
    """A game from the JSON of its file.

    Raises:
        ValueError: something is missing or of another type; says what.
    """
    if not isinstance(content, dict):
        raise ValueError(f"a JSON {type(content).__name__}, expected an object")
    for key in ("pddl_domain", "grammar", "pddl_problem"):
        if not isinstance(content.get(key), str):
            raise ValueError(f"no text under {key!r}")
    walkthrough = content.get("walkthrough") or []
    if not isinstance(walkthrough, list) or not all(isinstance(command, str) for command in walkthrough):
        raise ValueError("'walkthrough' is no list of commands")
    sentence = _TASK.search(content["grammar"])
    if sentence is None:
        raise ValueError("no task sentence in the grammar")
    return Game(
        content["pddl_problem"],
        str(json.loads(f'"{sentence[1]}"')),
        tuple(walkthrough),
        content["pddl_domain"],
        content["grammar"],
    )


def in_official_set(task: str) -> bool:
    """Whether the official environment plays games of this name: none with movable receptacles or slicing."""
    return "movable" not in task and "Sliced" not in task


def _listed(file: Path) -> bool:
    """Whether the game says that it is solvable; the text is searched, since parsing all would take minutes.

    A damaged file is listed too: it is named when it is played, where leaving it out would quietly
    change the set of tasks.
    """
    try:
        content = file.read_bytes()
    except OSError:
        return True
    if re.search(rb'"solvable": ?true', content):
        return True
    try:
        json.loads(content)
    except ValueError:
        return True
    return False


def rules_digest(text: str) -> str:
    """Digest of a domain or grammar that ignores white space and the task sentence."""
    return hashlib.sha256(" ".join(without_task(text).split()).encode()).hexdigest()


def with_task(grammar: str, sentence: str) -> str:
    """The shared grammar with a game's task sentence in it."""
    return grammar.replace(_GENERIC, f"Your task is to: {sentence}")


def without_task(grammar: str) -> str:
    """A game's grammar with `UNKNOWN GOAL.` for its task sentence: the same for all games."""
    return _TASK.sub(f'{_GENERIC}"', grammar)


@functools.lru_cache(maxsize=4)
def _domain_known(domain: str) -> bool:
    return rules_digest(domain) in DOMAIN_DIGESTS


def check_rules(game: Game, source: str) -> None:
    """Refuse a game of another version: its texts and commands differ from what the native engine says."""
    for part, known in (
        ("PDDL domain", _domain_known(game.domain)),
        ("text grammar", rules_digest(game.grammar) in GRAMMAR_DIGESTS),
    ):
        if not known:
            raise BadFile(
                f"{source}: its {part} is not that of ALFWorld 0.4 (`move X to Y`; before, `put X in/on Y`), "
                "which the native engine implements. Fetch the games again with `alfworld-download` of "
                "alfworld 0.4, or use engine='official'."
            )
