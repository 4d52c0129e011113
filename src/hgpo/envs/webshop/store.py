"""One file that all workers of a machine map into memory.

Layout: a magic line, the length of the header, the header (JSON: format version, what the store was made
from, its sections with type, place, length and checksum), the sections, and an end mark. A store is written
under another name, flushed, and moved into place, so a reader sees a whole store or none. `Store.open` still
checks the magic, the header's checksum, the length of the file, the end mark and checksums of the sections
(of the whole section in a small store, of its first and last block in a large one), because disks and copies
fail in other ways too. A store that fails any check is said to be damaged, and its owner builds it again.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from ...errors import DamagedStore
from ...files import atomic_path

MAGIC = b"HGPO-STORE\n"
END = b"\nHGPO-END\n"
VERSION = 1
_ALIGN = 64
_BLOCK = 1 << 20
_SMALL = 1 << 26


class Writer:
    """Appends sections to a store that is being written."""

    def __init__(self, file: BinaryIO) -> None:
        self.file = file
        self.sections: dict[str, dict[str, Any]] = {}

    def add(self, name: str, array: NDArray[Any]) -> None:
        """Write an array of one dimension."""
        with self.stream(name, array.dtype) as write:
            write(np.ascontiguousarray(array).data)

    @contextlib.contextmanager
    def stream(self, name: str, kind: Any = np.uint8) -> Iterator[Any]:
        """Write a section piece by piece."""
        self.file.write(b"\0" * (-self.file.tell() % _ALIGN))
        start = self.file.tell()
        section = {"type": np.dtype(kind).str, "start": start, "bytes": 0}

        def write(data: bytes | memoryview) -> None:
            self.file.write(data)

        yield write
        section["bytes"] = self.file.tell() - start
        self.sections[name] = section


@contextlib.contextmanager
def write(path: Path, about: Mapping[str, Any]) -> Iterator[Writer]:
    """Write a store at `path`; it appears there, whole, when the block ends."""
    with atomic_path(path) as temporary, open(temporary, "w+b") as file:
        file.write(MAGIC + b"\0" * 16)
        writer = Writer(file)
        yield writer
        file.flush()
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as view:
            for section in writer.sections.values():
                section["checks"] = _checks(view, section["start"], section["bytes"])
        header = json.dumps({"about": dict(about), "sections": writer.sections}).encode()
        start = file.seek(0, os.SEEK_END)
        file.write(header + zlib.crc32(header).to_bytes(4, "little") + END)
        file.seek(len(MAGIC))
        file.write(
            VERSION.to_bytes(4, "little") + len(header).to_bytes(4, "little") + start.to_bytes(8, "little")
        )


def _checks(data: mmap.mmap | bytes, start: int, size: int) -> list[int]:
    """Checksums of the first block, the last block and the whole of a section."""
    view = memoryview(data)[start : start + size]
    try:
        whole = 0
        for place in range(0, size, _BLOCK):
            whole = zlib.crc32(view[place : place + _BLOCK], whole)
        return [zlib.crc32(view[:_BLOCK]), zlib.crc32(view[-_BLOCK:]), whole]
    finally:
        view.release()


class Store:
    """A store opened for reading; sections are arrays over the mapped file."""

    def __init__(self, path: Path, data: mmap.mmap, header: Mapping[str, Any], seen: os.stat_result) -> None:
        self.path = path
        self._seen = seen
        self.about: Mapping[str, Any] = header["about"]
        self._data = data
        self._sections: Mapping[str, Mapping[str, Any]] = header["sections"]

    @classmethod
    def open(cls, path: Path, thorough: bool | None = None) -> Store:
        """Map a store; raises `DamagedStore` when it is not whole.

        Args:
            path: the file.
            thorough: check every byte; by default only in stores up to 64 MiB.
        """
        try:
            with open(path, "rb") as file:
                seen = os.fstat(file.fileno())
                data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError) as error:
            raise DamagedStore(f"The store {path} cannot be opened: {error}.") from error
        first = len(MAGIC) + 16
        if len(data) < first + len(END) or data[: len(MAGIC)] != MAGIC:
            raise DamagedStore(f"{path} is not a whole store: it does not begin like one.")
        numbers = data[len(MAGIC) : first]
        version, size = int.from_bytes(numbers[:4], "little"), int.from_bytes(numbers[4:8], "little")
        start = int.from_bytes(numbers[8:], "little")
        if version != VERSION:
            raise DamagedStore(f"{path} is a store of version {version}; this is version {VERSION}.")
        if start + size + 4 + len(END) != len(data) or data[-len(END) :] != END:
            raise DamagedStore(f"The store {path} is truncated or was only half written.")
        text = data[start : start + size]
        if zlib.crc32(text) != int.from_bytes(data[start + size : start + size + 4], "little"):
            raise DamagedStore(f"The header of the store {path} is damaged.")
        store = cls(path, data, json.loads(text), seen)
        store._verify(len(data) <= _SMALL if thorough is None else thorough)
        return store

    def _verify(self, thorough: bool) -> None:
        for name, section in self._sections.items():
            start, size, wanted = section["start"], section["bytes"], section["checks"]
            if thorough:
                right = _checks(self._data, start, size) == wanted
            else:
                end = start + size
                ends = (
                    self._data[start : min(end, start + _BLOCK)],
                    self._data[max(start, end - _BLOCK) : end],
                )
                right = [zlib.crc32(part) for part in ends] == wanted[:2]
            if not right:
                raise DamagedStore(f"The section {name!r} of the store {self.path} is damaged.")

    def is_current(self) -> bool:
        """Whether the file at the path is still the one that was mapped, untouched."""
        try:
            now = self.path.stat()
        except OSError:
            return False
        seen = self._seen
        return (now.st_ino, now.st_size, now.st_mtime_ns) == (seen.st_ino, seen.st_size, seen.st_mtime_ns)

    def array(self, name: str) -> NDArray[Any]:
        """A section as an array over the mapped file; nothing is copied."""
        section = self._sections[name]
        kind = np.dtype(section["type"])
        return np.frombuffer(self._data, kind, section["bytes"] // kind.itemsize, section["start"])

    def bytes(self, name: str, start: int, end: int) -> bytes:
        """Some bytes of a section."""
        place = int(self._sections[name]["start"])
        return self._data[place + start : place + end]

    def json(self, name: str) -> Any:
        """A section that holds JSON."""
        return json.loads(self.bytes(name, 0, self._sections[name]["bytes"]))

    @property
    def size(self) -> int:
        """Bytes on disk."""
        return len(self._data)

    def sizes(self) -> dict[str, int]:
        """Bytes of each section."""
        return {name: section["bytes"] for name, section in self._sections.items()}
