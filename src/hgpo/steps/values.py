"""What the columns of steps may hold: checks and conversions of the values that callers give."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import BadSteps
from .columns import BoolArray, Categorical, Column, Encoder, FloatArray, IntArray, Ragged, object_array

TEXT = ("task", "trajectory", "observation")
"""Columns of which each distinct value is kept once."""
FLAGS = {"valid": True, "done": False, "truncated": False, "success": False, "padding": False}
"""Columns of truth values, and what they are where nothing is given."""


def defaults(name: str, count: int) -> np.ndarray[Any, Any]:
    """What `count` rows without the column `name` hold in it."""
    return np.full(count, FLAGS[name]) if name in FLAGS else np.full(count, None, dtype=object)


def convert(name: str, values: Any) -> Column:
    """A whole column, checked."""
    if isinstance(values, Categorical | Ragged):
        return values
    return encode(name, values) if name in TEXT else convert_plain(name, values, 0)


def encode(name: str, values: Any) -> Categorical:
    """A whole column of text, each distinct value once."""
    encoder = Encoder()
    if isinstance(values, np.ndarray):
        values = values.tolist()
    codes = encode_into(encoder, name, values, 0)
    return Categorical(codes, object_array(list(encoder)))


def encode_into(encoder: Encoder, name: str, values: Sequence[Any], first_row: int) -> IntArray:
    """Codes of text that begins at row `first_row` of its column."""
    try:
        return encoder.encode(values, len(values))
    except TypeError:
        for row, value in enumerate(values, start=first_row):
            try:
                hash(value)
            except TypeError:
                raise BadSteps(
                    f"Row {row} has a {name} of type {type(value).__name__}, which cannot be hashed; expected "
                    f"text, a number or a tuple. Turn it into text (for an image: a digest of its bytes) first."
                ) from None
        raise


def lists(name: str, values: Any) -> Ragged:
    """A whole column of lists of numbers, end to end."""
    try:
        return Ragged.of(values, np.float64 if name == "logprobs" else np.int64)
    except (TypeError, ValueError):
        row = _first(values, lambda v: isinstance(v, (list, tuple, np.ndarray)))
        raise BadSteps(
            f"The column {name!r} holds {values[row]!r} in row {row}; expected a list of "
            f"{'numbers' if name == 'logprobs' else 'whole numbers'} in every row."
        ) from None


def convert_plain(name: str, values: Any, first_row: int) -> np.ndarray[Any, Any]:
    """Values of a column other than text that begin at its row `first_row`."""
    if name == "reward":
        return _rewards(values, first_row)
    if name == "step":
        return _step_indices(values, first_row)
    if name in FLAGS:
        return _flags(name, values, first_row)
    if isinstance(values, np.ndarray):
        return values
    dtype = {float: np.float64, int: np.int64, bool: np.bool_}
    kinds = set(map(type, values))
    if len(kinds) == 1 and (kind := kinds.pop()) in dtype:
        try:
            return np.asarray(values, dtype=dtype[kind])
        except OverflowError:  # integers beyond 64 bits stay Python objects
            pass
    return object_array(values)


def iteration_numbers(values: np.ndarray[Any, Any], padding: BoolArray) -> IntArray | None:
    """Training iteration of each row; None where no row that counts says one."""
    if values.dtype.kind in "iu":
        return values.astype(np.int64)
    given = [_whole(value) for value in values.tolist()]
    real = np.flatnonzero(~padding).tolist()
    if all(values[row] is None for row in real):
        return None
    for row in real:
        if given[row] is None:
            raise BadSteps(
                f"Row {row} has the iteration {values[row]!r}; expected a whole number in every row, or in none, "
                f"because steps of different iterations are never compared. If the column means something else, "
                f"rename it (the command line takes --columns iteration=other)."
            )
    # Padding counts for nothing, so it may stand in any iteration.
    return np.array([given[real[0]] if number is None else number for number in given], dtype=np.int64)


def _whole(value: Any) -> int | None:
    """A whole number that fits 64 bits, also one written as a float; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) < 2**63:
        return None
    return int(value) if value == int(value) else None


def _rewards(values: Any, first_row: int) -> FloatArray:
    try:
        rewards = np.asarray(values, dtype=np.float64)
        if rewards.ndim != 1:
            raise ValueError
    except (TypeError, ValueError, OverflowError):
        row = _first(values, _is_float)
        raise BadSteps(
            f"Row {first_row + row} has the reward {_short(values[row])} of type {type(values[row]).__name__}; "
            f"expected a number that float64 can hold."
        ) from None
    finite = np.isfinite(rewards)
    if not finite.all():
        row = int(np.flatnonzero(~finite)[0])
        raise BadSteps(
            f"Row {first_row + row} has the reward {values[row]!s}; expected a finite number. Look for a "
            f"division by zero or a missing value where the reward is made."
        )
    return rewards


def _step_indices(values: Any, first_row: int) -> IntArray:
    array = _array(values)
    if array.ndim == 1 and array.dtype.kind in "iu":
        return array.astype(np.int64, copy=False)
    if (
        array.ndim == 1
        and array.dtype.kind == "f"
        and (abs(array) < 2**53).all()
        and (array == np.floor(array)).all()
    ):
        return array.astype(np.int64)
    row = _first(values, _is_index)
    raise BadSteps(
        f"Row {first_row + row} has the step {_short(values[row])} of type {type(values[row]).__name__}; expected the "
        f"index of the step in its trajectory, a whole number from 0."
    )


def _flags(name: str, values: Any, first_row: int) -> BoolArray:
    if isinstance(values, list):
        try:
            # One byte each is how numpy keeps truth values; read like this they cost a sixth.
            given = np.frombuffer(bytearray(values), dtype=np.uint8)
            if (given <= 1).all():
                return given.view(np.bool_)
        except (TypeError, ValueError):  # not all are whole numbers from 0 to 255
            pass
    array = _array(values)
    if array.ndim == 1 and array.dtype.kind == "b":
        return array
    if array.ndim == 1 and array.dtype.kind in "iuf" and np.isin(array, (0, 1)).all():
        return array.astype(bool)
    default = FLAGS[name]
    if all(v is None or (isinstance(v, (bool, np.bool_, int)) and v in (0, 1)) for v in values):
        return np.array([default if v is None else bool(v) for v in values], dtype=bool)
    row = _first(values, lambda v: v is None or v in (0, 1))
    raise BadSteps(
        f"Row {first_row + row} has {name}={_short(values[row])} of type {type(values[row]).__name__}; "
        f"expected true or false."
    )


def _array(values: Any) -> np.ndarray[Any, Any]:
    """As numpy reads the values; lists among numbers, which it does not read, stay objects."""
    try:
        return np.asarray(values)
    except ValueError:
        return object_array(values)


def _is_float(value: Any) -> bool:
    try:
        return isinstance(value, (int, float, np.number)) and float(value) is not None
    except OverflowError:
        return False


def _is_index(value: Any) -> bool:
    if isinstance(value, (float, np.floating)):
        return bool(value == np.floor(value) and abs(value) < 2**53)
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool) and abs(int(value)) < 2**63


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 100 else f"{text[:100]}..."


def _first(values: Sequence[Any], good: Any) -> int:
    return next((row for row, value in enumerate(values) if not good(value)), 0)
