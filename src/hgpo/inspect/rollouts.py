"""Where rollouts are: a file, a run folder of the trainer, or a folder of one file per iteration."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..errors import BadFile, BadSteps
from ..runs.folder import RunFolder
from ..steps import files as stepfiles
from ..steps.batch import REQUIRED, StepBatch
from .importers import from_verl, is_verl_dump, known_names

ENDINGS = (".jsonl", ".ndjson", ".jsonl.gz", ".ndjson.gz", ".parquet", ".pq")
PEEK = 64


@dataclass(frozen=True)
class Iteration:
    """The rollouts of one training iteration."""

    number: int
    batch: StepBatch


@dataclass
class Rollouts:
    """Recorded rollouts, read one file at a time. Make one with `open_rollouts`."""

    path: Path
    files: list[Path]
    columns: Mapping[str, str]
    estimator: str | None = None
    """The estimator a run folder was trained with."""
    config: Mapping[str, Any] = field(default_factory=dict)
    """All settings of a run."""
    settings: dict[str, Any] = field(default_factory=dict)
    """Its settings."""
    logged: list[dict[str, Any]] = field(default_factory=list)
    """Lines of the run's metrics.jsonl."""
    notes: list[str] = field(default_factory=list)
    """What was assumed while reading."""

    def __iter__(self) -> Iterator[Iteration]:
        for position, file in enumerate(self.files):
            try:
                yield from self._read(file, _number(file, position))
            except BadSteps as error:
                raise BadSteps(str(error) if str(file) in str(error) else f"{file}: {error}") from None

    def _read(self, file: Path, number: int) -> Iterator[Iteration]:
        names = _peek(file)
        if is_verl_dump(names, self.columns) and not set(REQUIRED) <= set(names):
            rows, notes = from_verl(stepfiles.rows(file), self.columns)
            self._note(*notes)
            yield from _by_iteration(StepBatch.from_rows(rows), number)
            return
        columns = known_names(names, self.columns)
        guessed = {theirs: ours for theirs, ours in columns.items() if theirs not in self.columns}
        if guessed:
            renamed = ", ".join(f"{theirs} as {ours}" for theirs, ours in guessed.items())
            self._note(f"columns read under our names: {renamed}")
        yield from _by_iteration(StepBatch.read(file, columns), number)

    def inputs(self) -> list[Path]:
        """Every file that is read, or that belongs to the run that is read: nothing may be written over one."""
        return [*self.files, *RunFolder(self.path).own_files()]

    def _note(self, *notes: str) -> None:
        self.notes += [note for note in notes if note not in self.notes]


def open_rollouts(path: str | Path, columns: Mapping[str, str] | None = None) -> Rollouts:
    """Find the rollout files at `path` without reading them."""
    place = Path(path)
    if place.is_file():
        return Rollouts(place, [place], columns or {})
    if not place.is_dir():
        raise BadFile(f"There is no file or folder {place}. Check the path.")
    run = RunFolder(place)
    inner = run.rollouts
    files = _files(inner if inner.is_dir() else place)
    if not files:
        where = inner if inner.is_dir() or run.exists() else place
        raise BadFile(
            f"{place} holds no rollouts: expected .jsonl, .jsonl.gz or .parquet files in {where}. A run keeps them "
            f"with rollout.keep_every=1, and verl with trainer.rollout_data_dir."
        )
    rollouts = Rollouts(place, files, columns or {})
    if inner.is_dir():
        if run.exists():
            described = run.description()
            rollouts.config, rollouts.settings = described.config, dict(described.estimator)
            rollouts.estimator = rollouts.settings.pop("name", None)
        rollouts.logged = run.metrics(rollouts.notes)
    return rollouts


def _files(folder: Path) -> list[Path]:
    files = [file for file in folder.iterdir() if file.is_file() and file.name.lower().endswith(ENDINGS)]
    files = [
        file for file in files if not file.name.startswith(".") and file != RunFolder(folder).metrics_file
    ]
    return sorted(
        files, key=lambda file: [int(p) if p.isdigit() else p for p in re.split(r"(\d+)", file.name)]
    )


def _number(file: Path, position: int) -> int:
    digits = re.findall(r"\d+", file.name.split(".")[0])
    return int(digits[-1][:15]) if digits else position + 1


def _peek(file: Path) -> list[str]:
    """Column names of a file, from its schema or its first rows."""
    if file.name.lower().endswith((".parquet", ".pq")):
        return stepfiles.column_names(file)
    first = itertools.islice(stepfiles.rows(file), PEEK)
    return list(dict.fromkeys(str(name) for row in first for name in row))


def _by_iteration(batch: StepBatch, number: int) -> Iterator[Iteration]:
    """The iterations of a file; one that does not say them is the iteration `number`."""
    parts = batch.by_iteration()
    for own, rows in parts:
        yield Iteration(number if own is None else own, batch if len(parts) == 1 else batch.take(rows))
