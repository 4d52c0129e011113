"""Columns of a batch: plain numpy arrays, text kept once per distinct value, lists of numbers end to end."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]
ObjectArray = npt.NDArray[np.object_]


def object_array(values: Sequence[Any]) -> ObjectArray:
    """An object array [len(values)] that never tries to look inside its items."""
    if isinstance(values, list | tuple):
        return np.fromiter(values, dtype=object, count=len(values))
    array = np.empty(len(values), dtype=object)
    if any(issubclass(kind, (list, tuple, np.ndarray)) for kind in set(map(type, values))):
        # Assigning a list of equally long lists at once would be read as a table.
        for row, value in enumerate(values):
            array[row] = value
        return array
    array[:] = values
    return array


NEAR = 4096
"""Values that are looked up in a table of their own."""


class Numbering(dict[Hashable, int]):
    """Numbers distinct values in order of first appearance."""

    def __missing__(self, value: Hashable) -> int:
        code = len(self)
        self[value] = code
        return code


class Encoder(Numbering):
    """Gives each distinct value the next integer, in order of first appearance.

    Looking a value up hashes it once; that hash is the whole cost of grouping text. Steps that follow one another
    repeat one another, so values are looked up in a small table first, which stays in the processor's cache, and only
    what is new there in the large one: millions of steps cost as much each as thousands.
    """

    def encode(self, values: Iterable[Any], count: int) -> IntArray:
        """Codes [count] of `values`; raises TypeError for a value that cannot be hashed."""
        codes = np.empty(count, dtype=np.int64)
        rest = iter(values)
        for start in range(0, count, NEAR):
            near, size = Numbering(), min(NEAR, count - start)
            places = np.fromiter(map(near.__getitem__, itertools.islice(rest, size)), np.int64, size)
            met = np.fromiter(map(self.__getitem__, near), np.int64, len(near))
            np.take(met, places, out=codes[start : start + size], mode="clip")
        return codes


@dataclass(frozen=True)
class Categorical:
    """A column whose distinct values are stored once.

    `codes` is an integer array [steps] into `values`; equal codes mean equal values.
    """

    codes: IntArray
    values: ObjectArray

    @classmethod
    def of(cls, values: Sequence[Any]) -> Categorical:
        """Encode plain values; raises TypeError for a value that cannot be hashed."""
        encoder = Encoder()
        codes = encoder.encode(values, len(values))
        return cls(codes, object_array(list(encoder)))

    def __len__(self) -> int:
        return len(self.codes)

    def take(self, rows: IntArray | BoolArray) -> Categorical:
        """The column of the given rows."""
        return Categorical(self.codes[rows], self.values)

    def decode(self) -> ObjectArray:
        """The plain values [steps]."""
        decoded: ObjectArray = self.values[self.codes]
        return decoded


@dataclass(frozen=True)
class Ragged:
    """A column of lists of numbers, such as token ids, stored end to end.

    The list of row `i` is `values[offsets[i]:offsets[i + 1]]`; `values` is [items], `offsets` [steps + 1].

    >>> tokens = Ragged.of([(5, 6), (), (7,)], np.int64)
    >>> tokens.lengths.tolist(), tokens.take(np.array([2, 0])).decode().tolist()
    ([2, 0, 1], [[7], [5, 6]])
    """

    values: npt.NDArray[Any]
    offsets: IntArray

    @classmethod
    def of(cls, lists: Sequence[Iterable[Any]], dtype: type[np.generic]) -> Ragged:
        """Store lists; raises TypeError or ValueError for what is not a list of numbers."""
        lengths = np.fromiter(map(len, lists), dtype=np.int64, count=len(lists))  # type: ignore[arg-type]
        offsets = _offsets(lengths)
        items = itertools.chain.from_iterable(lists)
        return cls(np.fromiter(items, dtype=dtype, count=int(offsets[-1])), offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, row: int) -> npt.NDArray[Any]:
        """The list of one row, as a view."""
        return self.values[self.offsets[row] : self.offsets[row + 1]]

    @property
    def lengths(self) -> IntArray:
        """[steps] length of each list."""
        return np.diff(self.offsets)

    def positions(self, rows: IntArray) -> IntArray:
        """Where the items of the given rows stand in `values`, row after row."""
        starts, lengths = self.offsets[rows], self.offsets[rows + 1] - self.offsets[rows]
        ends = np.cumsum(lengths)
        total = int(ends[-1]) if len(ends) else 0
        positions: IntArray = np.arange(total) + np.repeat(starts - ends + lengths, lengths)
        return positions

    def take(self, rows: IntArray | BoolArray) -> Ragged:
        """The column of the given rows."""
        chosen: IntArray = np.flatnonzero(rows) if rows.dtype == np.bool_ else rows  # type: ignore[assignment]
        return Ragged(self.values[self.positions(chosen)], _offsets(self.lengths[chosen]))

    def decode(self) -> ObjectArray:
        """The plain lists [steps]."""
        items, ends = self.values.tolist(), self.offsets.tolist()
        return object_array([items[start:end] for start, end in itertools.pairwise(ends)])


def _offsets(lengths: IntArray) -> IntArray:
    offsets = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


Column = npt.NDArray[Any] | Categorical | Ragged


def concatenate(columns: Sequence[Column]) -> Column:
    """One column after another; distinct values are numbered in order of first appearance."""
    if all(isinstance(column, Categorical) for column in columns):
        encoder, parts = Encoder(), []
        for column in columns:
            assert isinstance(column, Categorical)
            used, first = np.unique(column.codes, return_index=True)
            used = used[np.argsort(first)]
            codes = np.zeros(len(column.values), dtype=np.int64)
            codes[used] = encoder.encode(column.values[used], len(used))
            parts.append(codes[column.codes])
        return Categorical(np.concatenate(parts), object_array(list(encoder)))
    if all(isinstance(column, Ragged) for column in columns):
        lists = [column for column in columns if isinstance(column, Ragged)]
        lengths = np.concatenate([column.lengths for column in lists])
        return Ragged(np.concatenate([column.values for column in lists]), _offsets(lengths))
    plain = [column if isinstance(column, np.ndarray) else column.decode() for column in columns]
    if len({column.dtype for column in plain}) > 1:
        # numpy would turn large integers into rounded floats, and truth values into numbers.
        plain = [object_array(column.tolist()) for column in plain]
    return np.concatenate(plain)
