"""A run in small parts, to take along to another machine and go on there.

Machines that are lent for an hour give back small files, and few at a time. A parcel is a folder of parts with a list
beside them, `parcel.json`: which files the parts hold end to end, and the sha256 of every file and part. It has what
`--resume` needs: settings, metrics, checkpoints, and the policy that the run began with where the run made it (or the
digests of that, when it is to be made again: a whole model is the largest part of a run with adapters).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO

from ...digests import file_digest, sealed, unsealed
from ...errors import BadFile, BadSetting
from ...files import atomic_folder, check_new, read_json, write_json
from ...models.folder import listed
from ..lock import hold
from .run import RunFolder

LIST = "parcel.json"
KEPT = ("config.json", "metrics.jsonl", "results.json", "checkpoints", "start")
"""What a parcel takes of a run's folder; kept rollouts, pictures and logs stay."""
_PART = re.compile(r"part-\d{4,6}")
_PIECE = 1 << 20


@dataclass(frozen=True)
class Item:
    """A file of the run, or a part of the parcel."""

    name: str
    """Path in its folder, with forward slashes."""
    size: int
    """Bytes."""
    sha256: str


@dataclass(frozen=True)
class Parcel:
    """What the list says."""

    files: tuple[Item, ...]
    parts: tuple[Item, ...]

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(item.size for item in self.files)


def pack(run: Path, out: Path, part_bytes: int, *, last: bool = False, start: bool = True) -> Parcel:
    """Write the run as a parcel into the new folder `out`.

    Args:
        run: the folder of a run of `hgpo train` with a checkpoint; nobody may be training into it.
        out: a folder that does not exist, or is empty.
        part_bytes: a part has at most so many bytes.
        last: of the checkpoints only the last one.
        start: also the files of the policy that the run began with. Without them the run makes them again when it goes
            on, and compares them with their digests, which the parcel has in any case.

    Raises:
        BadFile: there is no such run, or nothing to go on from.
        BadSetting: the start cannot be left out.
        FolderBusy: the run is being trained.
    """
    if part_bytes < 1:
        raise BadSetting(f"Parts of {part_bytes} bytes were asked for; expected at least 1.")
    folder = RunFolder(run)
    folder.description()
    check_new([out], "Give --out a new folder.")
    with hold(run):
        saved = folder.checkpoints()
        if not saved:
            raise BadFile(f"{run} has no checkpoint, so there is nothing to go on from elsewhere.")
        saved[-1].check(folder.description().identity)
        taken = [path for path in _files(run) if not last or _of_last(path, run, saved[-1].path)]
        if not start:
            left = {folder.start / name for name in listed(folder.start)}
            if not left:
                raise BadSetting(
                    f"{run} has no start with digests that could be left out and made again. Pack it without "
                    "--without-start."
                )
            taken = [path for path in taken if path not in left]
        with atomic_folder(out) as partial:
            files = tuple(Item(_name(path, run), path.stat().st_size, file_digest(path)) for path in taken)
            parts = tuple(_cut(taken, partial, part_bytes))
            parcel = Parcel(files, parts)
            write_json(partial / LIST, sealed(asdict(parcel)))
    return parcel


def unpack(parcel: Path, run: Path) -> Parcel:
    """Put the files of a parcel into the new folder `run`; nothing is left there when anything is wrong.

    Raises:
        BadFile: a part is missing or damaged, or the list is; says which.
    """
    check_new([run], "Give --run a new folder.")
    known = read(parcel)
    for part in known.parts:
        path = parcel / part.name
        if not path.is_file():
            raise BadFile(
                f"{part.name} of {parcel} is missing; expected {len(known.parts)} parts. Bring it here, too."
            )
        if path.stat().st_size != part.size or file_digest(path) != part.sha256:
            raise BadFile(f"{path} is not the part that was written: it is damaged. Bring it here again.")
    with atomic_folder(run) as partial:
        stream = _joined([parcel / part.name for part in known.parts])
        rest = b""
        for item in known.files:
            target = partial / item.name
            target.parent.mkdir(parents=True, exist_ok=True)
            with open(target, "wb") as file:
                rest = _fill(file, item, rest, stream)
            if file_digest(target) != item.sha256:
                raise BadFile(
                    f"{item.name} does not come out of {parcel} as it went in: its list is damaged. Pack the run again."
                )
    return known


def read(parcel: Path) -> Parcel:
    """The list of a parcel, checked: it may come from anywhere.

    Raises:
        BadFile: it is none, is damaged, or names files that no run has.
    """
    path = parcel / LIST
    content = unsealed(read_json(path, "the list of a parcel"), path, "Pack the run again")
    files, parts = (_items(content.get(key), path) for key in ("files", "parts"))
    for item in files:
        name = PurePosixPath(item.name)
        inside = not name.is_absolute() and ".." not in name.parts and str(name) == item.name
        if not inside or name.parts[0] not in KEPT or "\\" in item.name or not item.name.isprintable():
            raise BadFile(f"{path} names {item.name!r}, which no run has. Pack the run again.")
    for item in parts:
        if not _PART.fullmatch(item.name):
            raise BadFile(f"{path} names the part {item.name!r}; expected part-0000 and so on.")
    if len({item.name for item in files}) < len(files) or sum(one.size for one in files) != sum(
        one.size for one in parts
    ):
        raise BadFile(f"{path} is damaged: its files and parts do not fit together. Pack the run again.")
    return Parcel(files, parts)


def _items(values: Any, path: Path) -> tuple[Item, ...]:
    try:
        items = tuple(Item(**value) for value in values)
    except TypeError as error:
        raise BadFile(f"{path} is not the list of a parcel. Pack the run again.") from error
    for item in items:
        plain = isinstance(item.name, str) and isinstance(item.sha256, str) and type(item.size) is int
        if not plain or not item.name or item.size < 0:
            raise BadFile(f"{path} is not the list of a parcel. Pack the run again.")
    return items


def _files(run: Path) -> Iterator[Path]:
    """The files that a parcel takes, in the order of their names."""
    for name in KEPT:
        place = run / name
        if place.is_file():
            yield place
        elif place.is_dir():
            yield from (path for path in sorted(place.rglob("*")) if path.is_file())


def _of_last(path: Path, run: Path, last: Path) -> bool:
    """Whether `path` belongs to no checkpoint but the last."""
    inside = path.relative_to(run).parts
    return inside[0] != "checkpoints" or (len(inside) > 1 and inside[1] == last.name)


def _name(path: Path, run: Path) -> str:
    return path.relative_to(run).as_posix()


def _joined(paths: list[Path]) -> Iterator[bytes]:
    """The content of several files end to end, in pieces."""
    for path in paths:
        with open(path, "rb") as file:
            while piece := file.read(_PIECE):
                yield piece


def _cut(paths: list[Path], out: Path, part_bytes: int) -> Iterator[Item]:
    """Write the files end to end into parts of at most `part_bytes` bytes."""
    stream, rest, number = _joined(paths), b"", 0
    while True:
        name, size, state = f"part-{number:04d}", 0, hashlib.sha256()
        with open(out / name, "wb") as file:
            while size < part_bytes:
                rest = rest or next(stream, b"")
                if not rest:
                    break
                piece, rest = rest[: part_bytes - size], rest[part_bytes - size :]
                file.write(piece)
                state.update(piece)
                size += len(piece)
        if not size:
            (out / name).unlink()
            return
        yield Item(name, size, state.hexdigest())
        number += 1


def _fill(file: BinaryIO, item: Item, rest: bytes, stream: Iterator[bytes]) -> bytes:
    """Write the next `item.size` bytes; what was read beyond them."""
    missing = item.size
    while missing:
        rest = rest or next(stream)
        file.write(rest[:missing])
        rest, missing = rest[missing:], max(0, missing - len(rest))
    return rest
