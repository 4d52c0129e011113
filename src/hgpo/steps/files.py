"""Steps on disk: JSON lines and Parquet, read and written in pieces.

The format follows the file's name: `.jsonl` or `.ndjson` (also with `.gz`), `.parquet`. Reading keeps repeated text
once, so ten million steps need neither ten million dicts nor ten million strings.

Files that we write say in which version of the schema they are. Files without a version, such as other people's, are
read as they are.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ..errors import BadFile, BadSteps
from ..files import atomic_path, writes_into
from ..progress import Progress
from . import json_lines, parquet
from .batch import StepBatch
from .names import Renaming

ENDINGS = {
    "parquet": (".parquet", ".pq"),
    "jsonl": (".jsonl", ".ndjson"),
    "jsonl.gz": (".jsonl.gz", ".ndjson.gz"),
}
"""How the names of files of each form end."""


def read(path: str | os.PathLike[str], columns: Mapping[str, str]) -> StepBatch:
    """Read a file of steps; `columns` maps names in the file to ours."""
    source, form = _source(path)
    renaming = Renaming(columns)
    size = source.stat().st_size
    if size == 0:
        raise BadFile(f"{source} is empty; expected one step per line (JSON) or row (Parquet).")
    reader = parquet.read if form == "parquet" else json_lines.read
    with Progress(f"reading {source.name}", total=size) as progress:
        try:
            batch = reader(source, renaming, progress)
            renaming.check_found(source)
            return batch
        except BadSteps as error:
            renaming.check_found(source)
            raise BadSteps(f"{source}: {error}") from None


def rows(path: str | os.PathLike[str]) -> Iterator[dict[str, Any]]:
    """The rows of a file as they are, under their own names; for importers of other formats."""
    source, form = _source(path)
    yield from parquet.rows(source) if form == "parquet" else json_lines.rows(source)


def column_names(path: str | os.PathLike[str]) -> list[str]:
    """Names of the columns of a Parquet file."""
    return parquet.column_names(Path(path))


def write(batch: StepBatch, path: str | os.PathLike[str]) -> None:
    """Write a batch; nothing is left behind when it fails."""
    target = Path(path)
    form = check_form(target)
    with Progress(f"writing {target.name}", total=len(batch)) as progress, atomic_path(target) as temporary:
        if form == "parquet":
            parquet.write(batch, temporary, progress)
        else:
            json_lines.write(batch, temporary, progress, compress=form == "jsonl.gz")


def check_form(path: str | os.PathLike[str]) -> str:
    """The form in which steps are written to `path`, by its ending; JSON lines into a pipe or device without one.

    Raises:
        BadFile: the ending is none of those that are known.
        MissingExtra: Parquet without pyarrow.
    """
    target = Path(path)
    form = _form(target, otherwise="jsonl" if writes_into(target) else "")
    if form == "parquet":
        parquet.pyarrow()
    return form


def _source(path: str | os.PathLike[str]) -> tuple[Path, str]:
    """A file that is there, and its form."""
    source = Path(path)
    form = _form(source)
    if not source.is_file():
        raise BadFile(f"There is no file {source}. Check the path.")
    return source, form


def _form(path: Path, otherwise: str = "") -> str:
    for form, endings in ENDINGS.items():
        if path.name.lower().endswith(endings):
            return form
    if otherwise:
        return otherwise
    raise BadFile(f"{path} has an unknown ending; expected .jsonl, .jsonl.gz or .parquet. Rename the file.")
