"""Steps as JSON lines, perhaps compressed: a step a line, so that files may be concatenated and cut."""

from __future__ import annotations

import gzip
import io
import itertools
import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np

from ..errors import BadFile, BadSteps
from ..progress import Progress
from .batch import CHUNK, ColumnBuilder, StepBatch
from .names import Renaming
from .schema import SCHEMA_VERSION, VERSION_KEY, check_version


def read(source: Path, renaming: Renaming, progress: Progress) -> StepBatch:
    """All steps of a file."""
    builder = ColumnBuilder()
    number = 0
    with open(source, "rb") as raw:
        lines = _lines(raw, source)
        position = 0
        while chunk := list(itertools.islice(lines, CHUNK)):
            steps = []
            for line in chunk:
                number += 1
                if line.strip():
                    steps.append(renaming.row(_parse(line, number, source)))
            if steps:
                builder.add_rows(steps)
            progress.add(raw.tell() - position)
            position = raw.tell()
    return builder.finish()


def rows(source: Path) -> Iterator[dict[str, Any]]:
    """The objects of a file as they are."""
    with open(source, "rb") as raw:
        for number, line in enumerate(_lines(raw, source), start=1):
            if line.strip():
                yield _parse(line, number, source)


def write(batch: StepBatch, target: Path, progress: Progress, *, compress: bool) -> None:
    """Write a batch, its version in the first step."""
    with open(target, "wb") as raw:
        # A fixed time keeps compressed files of equal content equal.
        stream: IO[bytes] = gzip.GzipFile("", "wb", fileobj=raw, mtime=0) if compress else raw  # type: ignore[assignment]
        with io.TextIOWrapper(stream, encoding="utf-8", newline="\n") as text:
            for number, row in enumerate(batch.rows()):
                step = row if number else {VERSION_KEY: SCHEMA_VERSION, **row}
                line = json.dumps(step, ensure_ascii=False, default=_plain)
                if not line.isascii() and any("\ud800" <= letter <= "\udfff" for letter in line):
                    line = json.dumps(step, default=_plain)  # half a pair is no UTF-8, but JSON can escape it
                text.write(line + "\n")
                progress.add()


def _lines(raw: IO[bytes], source: Path) -> Iterator[bytes]:
    stream: IO[bytes] = gzip.GzipFile(fileobj=raw) if source.name.lower().endswith(".gz") else raw  # type: ignore[assignment]
    try:
        yield from stream
    except (EOFError, OSError, zlib.error) as error:
        raise BadFile(f"{source} is damaged or cut short: {error}. Copy or write the file again.") from None


def _parse(line: bytes, number: int, source: Path) -> dict[str, Any]:
    try:
        row: Any = json.loads(line)
    except (ValueError, RecursionError) as error:
        reason = "the line ends in the middle (a truncated file?)" if not line.endswith(b"\n") else str(error)
        raise BadFile(
            f"{source}, line {number}: not a JSON object: {reason}. Expected one complete step per line; "
            f"write the file again or remove the line."
        ) from None
    if not isinstance(row, dict):
        raise BadFile(
            f"{source}, line {number}: a JSON {type(row).__name__}; expected an object with the keys of a step."
        )
    if VERSION_KEY in row:
        check_version(row.pop(VERSION_KEY), source)
    return row


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    raise BadSteps(
        f"A column holds a {type(value).__name__}, which JSON cannot carry; write Parquet or remove the column."
    )
