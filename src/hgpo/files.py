"""Writing files so that a reader never sees half of one."""

from __future__ import annotations

import contextlib
import math
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from .errors import BadFile

PARTIAL = ".partial-"
"""How the names of folders that are being written begin."""


@contextlib.contextmanager
def atomic_path(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give a temporary path beside `path`; move it there when the block ends well, remove it otherwise.

    The move is atomic and the data is flushed to disk first, so a kill at any instant leaves either the
    old file or the new one.
    """
    target = Path(path)
    try:
        # mkstemp opens with mode 600; the finished file should have the mode a plain open() gives.
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".part", dir=target.parent)
        umask = os.umask(0)
        os.umask(umask)
        os.fchmod(handle, 0o666 & ~umask)
        os.close(handle)
    except OSError as error:
        raise BadFile(
            f"Cannot write {target}: {error.strerror}. Choose a folder that exists and is writable."
        ) from error
    temporary = Path(name)
    try:
        yield temporary
        with open(temporary, "rb") as written:
            os.fsync(written.fileno())
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write `text` as UTF-8, atomically."""
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


@contextlib.contextmanager
def atomic_folder(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give a new folder beside `path`; put it in the place of `path` when the block ends well.

    All its files are flushed to disk before it is renamed, so a kill at any instant leaves no half of a folder. What a
    kill left behind is removed the next time.
    """
    target = Path(path)
    partial, old = (target.with_name(f"{PARTIAL}{word}{target.name}") for word in ("", "old-"))
    for leftover in (partial, old):
        shutil.rmtree(leftover, ignore_errors=True)
    partial.mkdir(parents=True)
    try:
        yield partial
        flush(partial)
        if target.exists():
            os.rename(target, old)
        os.rename(partial, target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    shutil.rmtree(old, ignore_errors=True)
    _sync_folder(target.parent)


def flush(folder: Path) -> None:
    """Force all files under `folder` to disk."""
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            with open(path, "rb") as handle:
                os.fsync(handle.fileno())
        else:
            _sync_folder(path)
    _sync_folder(folder)


def _sync_folder(folder: Path) -> None:
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        # Folders cannot be opened on some systems; the rename is then as durable as the system makes it.
        return
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values as JSON can hold them: a number that is not finite is null."""
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in values.items()
    }
