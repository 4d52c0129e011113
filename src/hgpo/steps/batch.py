"""`StepBatch`: recorded steps as columns, one row per step of an agent.

| column | meaning |
| --- | --- |
| `task` | the task a rollout tried; groups never cross tasks |
| `trajectory` | the rollout, unique within its task |
| `step` | index of the step in its trajectory, from 0 |
| `observation` | what the agent saw before acting |
| `reward` | reward of the step |
| `action` | what the agent did (optional) |
| `valid` | whether the action was well formed (optional, true) |
| `state_key`, `prompt`, `response`, `done`, `success`, `admissible` | optional, see the documentation |
| `prompt_ids`, `response_ids`, `logprobs` | token ids and log-probabilities of the step, lists (optional) |
| `padding` | rows to leave out of everything (optional, false) |
| `iteration` | the training iteration; what is said of a task holds within each (optional, in all rows or in none) |

Any other column is kept as it is.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from operator import itemgetter
from typing import Any

import numpy as np

from ..errors import BadSteps
from .columns import (
    BoolArray,
    Categorical,
    Column,
    Encoder,
    FloatArray,
    IntArray,
    Ragged,
    concatenate,
    object_array,
)
from .order import Trajectories, apart, locate
from .values import (
    FLAGS,
    TEXT,
    convert,
    convert_plain,
    defaults,
    encode,
    encode_into,
    iteration_numbers,
    lists,
)

REQUIRED = ("task", "trajectory", "step", "observation", "reward")
CHUNK = 65_536


class StepBatch:
    """Columns of steps. Make one with `from_rows`, `from_arrays` or `read`.

    >>> batch = StepBatch.from_rows([
    ...     {"task": "t", "trajectory": "a", "step": 0, "observation": "door", "action": "open", "reward": 1.0},
    ...     {"task": "t", "trajectory": "b", "step": 0, "observation": "door", "action": "knock", "reward": 0.0},
    ... ])
    >>> len(batch), batch.column_names[:3]
    (2, ['task', 'trajectory', 'step'])
    """

    def __init__(self, columns: Mapping[str, Column]) -> None:
        """Take finished columns as they are; the constructors below check and convert."""
        self._columns = dict(columns)
        self._encoded: dict[str, Categorical] = {}

    # Making one

    @classmethod
    def from_rows(cls, rows: Iterable[Mapping[str, Any]]) -> StepBatch:
        """Collect rows (dicts); an iterator is read in chunks, so the dicts need not exist all at once."""
        builder = ColumnBuilder()
        iterator = iter(rows)
        while chunk := list(itertools.islice(iterator, CHUNK)):
            builder.add_rows(chunk)
        return builder.finish()

    @classmethod
    def from_arrays(cls, **columns: Any) -> StepBatch:
        """Make a batch from whole columns: sequences or arrays of one length [steps]."""
        lengths = {name: len(values) for name, values in columns.items()}
        if len(set(lengths.values())) > 1:
            raise BadSteps(
                f"Columns of different lengths were given: {lengths}. Every column needs one entry per step."
            )
        for name in REQUIRED:
            if name not in columns:
                raise _missing_column(name, columns)
        return _checked({name: convert(name, values) for name, values in columns.items()})

    @classmethod
    def concatenate(cls, batches: Sequence[StepBatch]) -> StepBatch:
        """One batch after another; a column that only some have holds its default in the others."""
        names = dict.fromkeys(name for batch in batches for name in batch.column_names)
        return _checked(
            {
                name: concatenate(
                    [
                        b._columns[name] if name in b else convert(name, defaults(name, len(b)))
                        for b in batches
                    ]
                )
                for name in names
            }
        )

    @classmethod
    def read(cls, path: str | os.PathLike[str], columns: Mapping[str, str] | None = None) -> StepBatch:
        """Read a `.jsonl`, `.jsonl.gz` or `.parquet` file.

        `columns` maps names in the file to ours. A mapped column wins over one that has the name already, which is
        kept as `original_NAME`.
        """
        from .files import read

        return read(path, columns or {})

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write all columns as `.jsonl`, `.jsonl.gz` or `.parquet`, atomically."""
        from .files import write

        write(self, path)

    # Looking inside

    def __len__(self) -> int:
        return len(self._columns["step"])

    def __contains__(self, name: object) -> bool:
        return name in self._columns

    def __getitem__(self, name: str) -> np.ndarray[Any, Any]:
        """The plain values of a column [steps]."""
        column = self.column(name)
        return column if isinstance(column, np.ndarray) else column.decode()

    def __repr__(self) -> str:
        return f"StepBatch({len(self)} steps, columns: {', '.join(self.column_names)})"

    @property
    def column_names(self) -> list[str]:
        """Names of all columns, in the order they were given."""
        return list(self._columns)

    def column(self, name: str) -> Column:
        """A column as it is stored."""
        if name not in self._columns:
            raise _missing_column(name, self._columns)
        return self._columns[name]

    def encoded(self, name: str) -> Categorical:
        """A column with its distinct values numbered; each value is hashed once per batch."""
        if name not in self._encoded:
            column = self.column(name)
            self._encoded[name] = column if isinstance(column, Categorical) else encode(name, column)
        return self._encoded[name]

    def lists(self, name: str) -> Ragged:
        """A column of lists of numbers (`prompt_ids`, `response_ids`, `logprobs`), stored end to end."""
        column = self.column(name)
        return column if isinstance(column, Ragged) else lists(name, self[name])

    @property
    def rewards(self) -> FloatArray:
        """float64 [steps]."""
        rewards: FloatArray = self._columns["reward"]  # type: ignore[assignment]
        return rewards

    def flag(self, name: str) -> BoolArray:
        """A true/false column [steps], or its default where it was not given."""
        if name in self._columns:
            values: BoolArray = self._columns[name]  # type: ignore[assignment]
            return values
        return np.full(len(self), FLAGS[name])

    @cached_property
    def iterations(self) -> IntArray | None:
        """Training iteration of each step [steps]; None where no row says one."""
        if "iteration" not in self._columns:
            return None
        return iteration_numbers(self["iteration"], self.flag("padding"))

    def by_iteration(self) -> list[tuple[int | None, IntArray]]:
        """Number and rows of each iteration, ascending; number None and all rows where no row says one."""
        numbers = self.iterations
        if numbers is None:
            return [(None, np.arange(len(self)))]
        if (numbers == numbers[0]).all():
            return [(int(numbers[0]), np.arange(len(self)))]
        return [(int(number), np.flatnonzero(numbers == number)) for number in np.unique(numbers)]

    @cached_property
    def trajectories(self) -> Trajectories:
        """Canonical order of the steps; checks the step indices.

        Tasks and trajectories of different iterations are different ones, whatever their names.
        """
        step: IntArray = self._columns["step"]  # type: ignore[assignment]
        task, numbers = self.encoded("task"), self.iterations
        if numbers is not None and (numbers != numbers[0]).any():
            task = apart(task, numbers)
        return locate(task, self.encoded("trajectory"), step)

    # Making another one from it

    def take(self, rows: IntArray | BoolArray) -> StepBatch:
        """The rows with the given numbers, in that order, or those where a mask is true."""
        return StepBatch(
            {n: c[rows] if isinstance(c, np.ndarray) else c.take(rows) for n, c in self._columns.items()}
        )

    def with_columns(self, **columns: Any) -> StepBatch:
        """The same steps with more columns, or with some replaced."""
        return StepBatch(
            {**self._columns, **{name: convert(name, values) for name, values in columns.items()}}
        )

    def renamed(self, names: Mapping[str, str]) -> StepBatch:
        """The same steps with some columns under other names, from old to new."""
        for old, new in names.items():
            if new in self._columns:
                raise BadSteps(
                    f"The column {old!r} would be kept as {new!r}, which the steps have already. Remove or rename one "
                    f"of them (the command line takes --columns {new}=other)."
                )
        return StepBatch({names.get(name, name): column for name, column in self._columns.items()})

    def rows(self) -> Iterator[dict[str, Any]]:
        """The steps as dicts of plain Python values, one at a time."""
        columns = {name: self[name] for name in self._columns}
        for start in range(0, len(self), CHUNK):
            lists = [column[start : start + CHUNK].tolist() for column in columns.values()]
            for values in zip(*lists):
                yield dict(zip(columns, values))


class ColumnBuilder:
    """Gathers chunks of rows into columns, keeping repeated text once."""

    def __init__(self) -> None:
        self.encoders = {name: Encoder() for name in TEXT}
        self.parts: dict[str, list[np.ndarray[Any, Any]]] = {}
        self.count = 0

    def add_rows(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Append a chunk of rows."""
        try:
            chunk = _transpose(rows)
            for name in REQUIRED:
                if name not in chunk:
                    raise _missing_column(name, chunk)
        except (KeyError, TypeError, AttributeError) as error:
            raise self._bad_row(rows, error) from None
        self.add_columns(chunk, len(rows))

    def add_columns(self, chunk: Mapping[str, Sequence[Any]], count: int) -> None:
        """Append a chunk given as columns."""
        for name in self.parts.keys() - chunk.keys():
            self.parts[name].append(defaults(name, count))
        for name, values in chunk.items():
            if name not in self.parts:
                self.parts[name] = [defaults(name, self.count)] if self.count else []
            if name in self.encoders:
                part: np.ndarray[Any, Any] = encode_into(self.encoders[name], name, values, self.count)
            else:
                part = convert_plain(name, values, self.count)
            self.parts[name].append(part)
        self.count += count

    def finish(self) -> StepBatch:
        """The batch of everything added."""
        if self.count == 0:
            raise BadSteps(
                "The batch is empty: no step was given. Expected at least one row with the columns "
                f"{', '.join(REQUIRED)}."
            )
        columns: dict[str, Column] = {}
        for name, parts in self.parts.items():
            if name in self.encoders:
                columns[name] = Categorical(np.concatenate(parts), object_array(list(self.encoders[name])))
            else:
                columns[name] = parts[0] if len(parts) == 1 else concatenate(parts)
        return _checked(columns)

    def _bad_row(self, rows: Sequence[Any], error: Exception) -> BadSteps:
        for number, row in enumerate(rows, start=self.count):
            if not isinstance(row, Mapping):
                return BadSteps(
                    f"Row {number} is a {type(row).__name__}; expected a dict with the keys {', '.join(REQUIRED)}."
                )
            for name in REQUIRED:
                if name not in row:
                    return BadSteps(
                        f"Row {number} has no {name!r}; it has {', '.join(map(str, row)) or 'nothing'}. Expected the "
                        f"keys {', '.join(REQUIRED)} in every row; rename yours or add what is missing."
                    )
        return BadSteps(f"The rows could not be read as dicts: {error}.")


def _transpose(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Columns of a chunk of rows; a key that only some rows have is None in the others."""
    names = list(rows[0])
    try:
        chunk = {name: list(map(itemgetter(name), rows)) for name in names}
        if set(map(len, rows)) == {len(names)}:  # with all names present, equal length means equal keys
            return chunk
    except KeyError:
        pass
    names += sorted(set().union(*rows).difference(names))
    return {n: [r[n] for r in rows] if n in REQUIRED else [r.get(n) for r in rows] for n in names}


def _checked(columns: dict[str, Column]) -> StepBatch:
    """The finished batch, with its step indices checked where rows are not padding."""
    batch = StepBatch(columns)
    if len(batch) == 0:
        raise BadSteps("The batch is empty: the columns have no entries. Give at least one step.")
    padding = batch.flag("padding")
    for name in TEXT:
        # NaN is no value either: it does not even equal itself.
        missing = [
            code
            for code, value in enumerate(batch.encoded(name).values.tolist())
            if value is None or (isinstance(value, float) and value != value)
        ]
        if missing and (lacking := np.isin(batch.encoded(name).codes, missing) & ~padding).any():
            raise BadSteps(
                f"Row {np.flatnonzero(lacking)[0]} has no {name} (null or NaN); expected a "
                f"value in every row that is not padding, because steps "
                f"are compared by it."
            )
    if not padding.any():
        _ = batch.trajectories
    return batch


def _missing_column(name: str, given: Iterable[str]) -> BadSteps:
    return BadSteps(
        f"The steps have no column {name!r}; they have {', '.join(map(str, given)) or 'none'}. "
        f"Add it, or rename yours (the command line takes --columns theirs=ours)."
    )
