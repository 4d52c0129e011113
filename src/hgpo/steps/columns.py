"""Columns of a batch: plain numpy arrays, or text kept once per distinct value."""

from __future__ import annotations

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
    array = np.empty(len(values), dtype=object)
    if any(issubclass(kind, (list, tuple, np.ndarray)) for kind in set(map(type, values))):
        # Assigning a list of equally long lists at once would be read as a table.
        for row, value in enumerate(values):
            array[row] = value
        return array
    array[:] = values
    return array


class Encoder(dict[Hashable, int]):
    """Gives each distinct value the next integer, in order of first appearance.

    Looking a value up hashes it once; that hash is the whole cost of grouping text.
    """

    def __missing__(self, value: Hashable) -> int:
        code = len(self)
        self[value] = code
        return code

    def encode(self, values: Iterable[Any], count: int) -> IntArray:
        """Codes [count] of `values`; raises TypeError for a value that cannot be hashed."""
        return np.fromiter(map(self.__getitem__, values), dtype=np.int64, count=count)


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


Column = npt.NDArray[Any] | Categorical
