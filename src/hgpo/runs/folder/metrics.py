"""`metrics.jsonl`: the numbers of a run, one line per iteration."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...digests import content_digest
from ...errors import BadFile
from ...files import write_text

NOT_A_ROW = (ValueError, KeyError, TypeError, RecursionError)
"""What `parse` raises."""


def read(path: Path, notes: list[str] | None = None) -> list[dict[str, Any]]:
    """The lines of `metrics.jsonl` by iteration; of two lines about one iteration the later counts.

    A last line that is not complete (the run is writing it, or was killed) is left out.

    Args:
        notes: gets a sentence about lines that were left out; then a damaged line is no error.

    Raises:
        BadFile: a line before the last is damaged, and no notes are taken.
    """
    rows: dict[int, dict[str, Any]] = {}
    lines = path.read_bytes().splitlines() if path.is_file() else []
    for number, line in enumerate(lines, start=1):
        try:
            row = parse(line)
            rows[row["iteration"]] = row
        except NOT_A_ROW as error:
            problem = f"{path}, line {number} is not the metrics of an iteration ({error})"
            if notes is not None:
                notes.append(f"the rest of {path.name} was left out: {problem}.")
            elif number < len(lines):
                raise BadFile(f"{problem}. Restore the file, or remove the line.") from error
            break
    return [row for _, row in sorted(rows.items())]


def parse(line: bytes) -> dict[str, Any]:
    """The metrics of an iteration; raises one of `NOT_A_ROW` when the line is something else."""
    row: dict[str, Any] = json.loads(line)
    if type(row["iteration"]) is not int:
        raise TypeError(f"iteration is {row['iteration']!r}, no whole number")
    return row


def append(path: Path, row: Mapping[str, Any]) -> None:
    """Add the line of an iteration."""
    with open(path, "a", encoding="utf-8") as out:
        out.write(json.dumps(row) + "\n")
        out.flush()
        os.fsync(out.fileno())


def rewind(path: Path, iteration: int) -> None:
    """Keep the lines up to `iteration` only: what came after the checkpoint will be written again."""
    kept = [row for row in read(path) if row["iteration"] <= iteration]
    write_text(path, "".join(json.dumps(row) + "\n" for row in kept))


def digest(path: Path, iteration: int) -> str:
    """Of the lines up to an iteration, each counted as often as it is there."""
    lines = path.read_bytes().splitlines() if path.is_file() else []
    rows = []
    for line in lines:
        with contextlib.suppress(ValueError):  # the last one, when a kill cut it off
            rows.append(json.loads(line))
    return content_digest([row for row in rows if row["iteration"] <= iteration])
