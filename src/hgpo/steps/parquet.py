"""Steps as Parquet, read and written in pieces; text stays encoded from end to end.

What we write holds a digest of all its bytes, so that a file with one bit changed is refused.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import BadFile, BadSteps, MissingExtra
from ..progress import Progress
from .batch import CHUNK, StepBatch
from .columns import Categorical, Encoder, Ragged, concatenate, object_array
from .names import Renaming
from .schema import SCHEMA_VERSION, VERSION_KEY, check_version
from .values import TEXT

DIGEST_KEY = "hgpo_digest"
"""SHA-256 of the whole Parquet file, taken with zeros in the place of the digest itself."""
NO_DIGEST = b"0" * 64
ROWS_PER_GROUP = 4 * CHUNK


def pyarrow() -> Any:
    """The package, which is optional; raises MissingExtra without it."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise MissingExtra("pyarrow", "data", "Reading and writing Parquet") from None
    return pyarrow


def read(source: Path, renaming: Renaming, progress: Progress) -> StepBatch:
    """All steps of a file."""
    arrow = pyarrow()
    with _explained(arrow, source):
        file = _open(arrow, source, texts=True)
        names = renaming.row({name: name for name in file.schema_arrow.names})
        if len(names) < len(file.schema_arrow.names):
            raise BadFile(f"{source} has two columns of one name; expected every name once.")
        gathered = _ArrowColumns()
        for piece in file.iter_batches(batch_size=CHUNK):
            gathered.add({ours: piece.column(theirs) for ours, theirs in names.items()})
            progress.add(source.stat().st_size * piece.num_rows / max(file.metadata.num_rows, 1))
    return gathered.finish()


def rows(source: Path) -> Iterator[dict[str, Any]]:
    """The rows of a file as they are."""
    arrow = pyarrow()
    with _explained(arrow, source):
        for piece in _open(arrow, source).iter_batches(batch_size=CHUNK):
            yield from piece.to_pylist()


def column_names(source: Path) -> list[str]:
    """The names of a file's columns."""
    arrow = pyarrow()
    with _explained(arrow, source):
        return list(map(str, _open(arrow, source).schema_arrow.names))


def write(batch: StepBatch, target: Path, progress: Progress) -> None:
    """Write a batch, its version and digest in the metadata."""
    arrow = pyarrow()
    fields = [arrow.field(name, _arrow_type(arrow, name, batch)) for name in batch.column_names]
    schema = arrow.schema(fields, metadata={VERSION_KEY: str(SCHEMA_VERSION)})
    with (
        _storing(arrow, "The steps"),
        arrow.parquet.ParquetWriter(target, schema, compression="zstd", write_page_checksum=True) as writer,
    ):
        for start in range(0, len(batch), ROWS_PER_GROUP):
            part = batch.take(np.arange(start, min(start + ROWS_PER_GROUP, len(batch))))
            arrays = [_to_arrow(arrow, field, part) for field in schema]
            writer.write_table(arrow.table(arrays, schema=schema))
            progress.add(len(part))
        writer.add_key_value_metadata({DIGEST_KEY: NO_DIGEST.decode()})
    stored, place = _find_digest(target)
    assert stored == NO_DIGEST
    digest = _digest(target, place)
    with open(target, "r+b") as file:
        file.seek(place)
        file.write(digest)


@contextlib.contextmanager
def _explained(arrow: Any, source: Path) -> Iterator[None]:
    try:
        yield
    except (arrow.ArrowException, OSError, UnicodeDecodeError) as error:
        reason = str(error).splitlines()[0]
        raise BadFile(
            f"{source} is damaged, cut short or not Parquet: {reason} Write the file again."
        ) from None


def _open(arrow: Any, source: Path, texts: bool = False) -> Any:
    """A Parquet file, its digest and version checked; with `texts` columns of text are read encoded."""
    _check_digest(source)
    schema = arrow.parquet.read_schema(source)
    _check_metadata(schema, source)
    encoded = [field.name for field in schema if texts and arrow.types.is_string(field.type)]
    return arrow.parquet.ParquetFile(source, read_dictionary=encoded, page_checksum_verification=True)


def _check_metadata(schema: Any, source: Path) -> None:
    stored = (schema.metadata or {}).get(VERSION_KEY.encode())
    if stored is not None:
        check_version(int(stored) if stored.isdigit() else stored.decode(errors="replace"), source)


def _check_digest(source: Path) -> None:
    """Refuse a file that has a digest which is not that of its bytes."""
    stored, place = _find_digest(source)
    if stored and _digest(source, place) != stored:
        raise BadFile(
            f"{source} is damaged: its bytes do not have the digest that was stored when it was written. Copy or write "
            f"the file again."
        )


def _find_digest(source: Path) -> tuple[bytes, int]:
    """The stored digest and where it stands; empty for a file without one, such as other people's."""
    with open(source, "rb") as file:
        size = file.seek(0, os.SEEK_END)
        # A Parquet file ends with what describes it, the length of that in 4 bytes, and a mark of 4.
        file.seek(max(size - 8, 0))
        start = max(size - 8 - int.from_bytes(file.read(8)[:4], "little"), 0)
        file.seek(start)
        footer = file.read()
    key = footer.rfind(DIGEST_KEY.encode())
    # Between the key and its value stand the type of the value and its length (64), a byte each.
    place = key + len(DIGEST_KEY) + 2
    if key < 0:
        return b"", 0
    return footer[place : place + len(NO_DIGEST)], start + place


def _digest(source: Path, place: int) -> bytes:
    """Digest of a file that is `NO_DIGEST` at `place`, whatever stands there."""
    found = hashlib.sha256()
    with open(source, "rb") as file:
        left = place
        while left and (block := file.read(min(left, 1 << 20))):
            found.update(block)
            left -= len(block)
        found.update(NO_DIGEST)
        file.seek(place + len(NO_DIGEST))
        while block := file.read(1 << 20):
            found.update(block)
    return found.hexdigest().encode()


class _ArrowColumns:
    """Joins pieces of a Parquet file; text stays encoded from end to end."""

    def __init__(self) -> None:
        self.encoders: dict[str, Encoder] = {}
        self.parts: dict[str, list[Any]] = {}

    def add(self, piece: Mapping[str, Any]) -> None:
        arrow = pyarrow()
        for name, values in piece.items():
            if arrow.types.is_dictionary(values.type) and values.null_count == 0:
                encoder = self.encoders.setdefault(name, Encoder())
                known = encoder.encode(values.dictionary.to_pylist(), len(values.dictionary))
                part = known[values.indices.to_numpy().astype(np.int64)]
            elif name in self.encoders:
                part = self.encoders[name].encode(values.to_pylist(), len(values))
            elif _is_number(arrow, values.type) and values.null_count == 0:
                part = values.to_numpy(zero_copy_only=False)
            else:
                part = object_array(values.to_pylist())
            self.parts.setdefault(name, []).append(part)

    def finish(self) -> StepBatch:
        columns: dict[str, Any] = {}
        for name, parts in self.parts.items():
            encoder = self.encoders.get(name)
            if encoder is None:
                columns[name] = concatenate(parts)
            elif all(part.dtype == np.int64 for part in parts):
                columns[name] = Categorical(np.concatenate(parts), object_array(list(encoder)))
            else:  # a null appeared before the first text: decode what was encoded
                values = object_array(list(encoder))
                columns[name] = np.concatenate([p if p.dtype == object else values[p] for p in parts])
        return StepBatch.from_arrays(**columns)


def _is_number(arrow: Any, kind: Any) -> bool:
    types = arrow.types
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind))


@contextlib.contextmanager
def _storing(arrow: Any, what: str) -> Iterator[None]:
    try:
        yield
    except (arrow.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise BadSteps(
            f"{what} cannot be stored as Parquet: {str(error).splitlines()[0].rstrip('.')}. Give every column values "
            f"of one type, or write .jsonl."
        ) from None


def _arrow_type(arrow: Any, name: str, batch: StepBatch) -> Any:
    """The type of a whole column, so that all its pieces have the same."""
    column = batch.column(name)
    with _storing(arrow, f"The column {name!r}"):
        if isinstance(column, Ragged):
            return arrow.list_(arrow.from_numpy_dtype(column.values.dtype))
        values = column.values if isinstance(column, Categorical) else column
        if values.dtype != object:
            return arrow.from_numpy_dtype(values.dtype)
        plain = values.tolist()
        if name in TEXT and len({type(value) for value in plain}) > 1:
            raise TypeError("it mixes types")
        return arrow.infer_type(plain)


def _to_arrow(arrow: Any, field: Any, batch: StepBatch) -> Any:
    column = batch.column(field.name)
    with _storing(arrow, f"The column {field.name!r}"):
        if isinstance(column, Categorical):
            if arrow.types.is_string(field.type):
                codes = arrow.array(column.codes.astype(np.int32))
                texts = arrow.array(column.values.tolist(), arrow.string())
                return arrow.DictionaryArray.from_arrays(codes, texts).cast(arrow.string())
            return arrow.array(column.decode().tolist(), field.type)
        if isinstance(column, Ragged):
            return arrow.ListArray.from_arrays(
                arrow.array(column.offsets.astype(np.int32)), arrow.array(column.values)
            )
        if column.dtype != object:
            return arrow.array(column)
        plain = column.tolist()
        stored = arrow.array(plain, field.type)
        if "struct<" in str(field.type):
            _check_unchanged(plain, stored.to_pylist())
        return stored


def _check_unchanged(values: Sequence[Any], stored: Sequence[Any]) -> None:
    """Parquet gives every dict of a column the same keys, with nulls for those that it did not have."""
    for value, back in zip(values, stored):
        if value != back and _plain_text(value) != _plain_text(back):
            raise ValueError(f"{value!r} would come back as {back!r}")


def _plain_text(value: Any) -> str:
    return json.dumps(
        value, default=lambda v: v.tolist() if isinstance(v, (np.generic, np.ndarray)) else repr(v)
    )
