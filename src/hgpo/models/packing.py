"""Rows of tokens laid end to end for one pass: no padding, and a beginning that several rows share computed once.

Under causal attention what a model computes for a token depends on the tokens before it alone. Rows are therefore
sorted by their tokens; each stores only what it does not share with the row before it, and attends to its whole path:

    rows        a b c d          tokens   a b c d e f       (`tokens`, each once)
                a b e f          row 1:   queries a b c d   keys a b c d
                a b e f          row 2:   queries e f       keys a b e f
                                 row 3:   nothing new; it is row 2

Queries and keys of one row end at the same token, which is how attention kernels align them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ..steps.columns import IntArray, Ragged


@dataclass(frozen=True)
class Packing:
    """Several rows as one sequence of distinct tokens. A segment is a row with tokens of its own."""

    tokens: IntArray
    """[tokens] ids, segment after segment."""
    positions: IntArray
    """[tokens] place of each in its row."""
    starts: IntArray
    """[segments + 1] where the tokens of each segment begin."""
    keys: IntArray
    """[keys] for every segment the tokens of its whole path, as places in `tokens`."""
    key_starts: IntArray
    """[segments + 1] where the keys of each segment begin."""
    segments: IntArray
    """[rows] the segment whose path begins with this row, in the order in which the rows were given."""

    @property
    def uses(self) -> IntArray:
        """[tokens] how many segments attend to each token: its own and that many minus one directly after it."""
        return np.bincount(self.keys, minlength=len(self.tokens))

    def places(self, rows: IntArray, positions: IntArray) -> IntArray:
        """Where in `tokens` the given positions of the given rows are."""
        found: IntArray = self.keys[self.key_starts[self.segments[rows]] + positions]
        return found


def rounded(count: int) -> int:
    """At least `count`, and one of sixteen numbers between a power of two and the next.

    Libraries choose a kernel for every new shape of a matrix product, which takes longer than the product.
    """
    step = 1 << max(0, count.bit_length() - 5)
    return -(-count // step) * step


def filled(packing: Packing, count: int) -> Packing:
    """The packing with tokens that nobody uses up to `count`, in segments of their own of at most 128 tokens."""
    missing = count - len(packing.tokens)
    if missing <= 0:
        return packing
    sizes = np.diff(np.append(np.arange(0, missing, 128), missing))
    ends = np.cumsum(sizes)
    return Packing(
        tokens=np.concatenate([packing.tokens, np.zeros(missing, dtype=np.int64)]),
        positions=np.concatenate([packing.positions, np.arange(missing) % 128]),
        starts=np.concatenate([packing.starts, packing.starts[-1] + ends]),
        keys=np.concatenate([packing.keys, len(packing.tokens) + np.arange(missing)]),
        key_starts=np.concatenate([packing.key_starts, packing.key_starts[-1] + ends]),
        segments=packing.segments,
    )


def pack(rows: Sequence[IntArray]) -> Packing:
    """The packing of some rows, each with one token or more."""
    order = sorted_rows(rows)
    shared = shared_lengths(rows, order)
    tokens: list[IntArray] = []
    positions: list[IntArray] = []
    paths: list[IntArray] = []
    segments = np.zeros(len(rows), dtype=np.int64)
    count = 0
    for row, same in zip(order, shared):
        ids = rows[row]
        if same < len(ids):
            fresh = np.arange(count, count + len(ids) - same)
            count += len(fresh)
            tokens.append(ids[same:])
            positions.append(np.arange(same, len(ids)))
            paths.append(np.concatenate([paths[-1][:same], fresh]) if same else fresh)
        segments[row] = len(paths) - 1
    return Packing(
        tokens=np.concatenate(tokens).astype(np.int64),
        positions=np.concatenate(positions),
        starts=_starts(tokens),
        keys=np.concatenate(paths),
        key_starts=_starts(paths),
        segments=segments,
    )


def sorted_rows(rows: Sequence[IntArray]) -> list[int]:
    """The numbers of the rows in the order of their tokens; equal ones in the order given."""
    words = [row.astype(">u4").tobytes() for row in rows]
    return sorted(range(len(rows)), key=words.__getitem__)


def shared_lengths(rows: Sequence[IntArray], order: Sequence[int]) -> list[int]:
    """For the rows in the given order, how many tokens each begins with that the one before it begins with, too."""
    lengths = []
    before: IntArray = np.zeros(0, dtype=np.int64)
    for row in order:
        size = min(len(before), len(rows[row]))
        other = np.flatnonzero(before[:size] != rows[row][:size])
        lengths.append(int(other[0]) if len(other) else size)
        before = rows[row]
    return lengths


def packs(rows: Ragged, numbers: IntArray, token_budget: int) -> Iterator[tuple[IntArray, int]]:
    """Cut the rows with the given numbers into passes of at most `token_budget` distinct tokens, and those tokens.

    Rows that begin alike share a pass, and passes are of about equal size. A single row over the budget gets a pass of
    its own.
    """
    some = [rows[int(number)] for number in numbers]
    order = sorted_rows(some)
    shared = shared_lengths(some, order)
    fresh = sum(len(some[row]) - same for row, same in zip(order, shared))
    # As few passes as the budget allows; room for what the first row of a pass no longer shares.
    passes = -(-fresh // token_budget) if fresh else 1
    target = min(token_budget, -(-fresh // passes) + max(map(len, some), default=0))
    start, total = 0, 0
    for place, same in enumerate(shared):
        length = len(some[order[place]])
        if place > start and total + length - same > target:
            yield numbers[order[start:place]], total
            start, total, same = place, 0, 0
        total += length - same
    if len(order):
        yield numbers[order[start:]], total


def _starts(parts: Sequence[IntArray]) -> IntArray:
    starts = np.zeros(len(parts) + 1, dtype=np.int64)
    np.cumsum([len(part) for part in parts], out=starts[1:])
    return starts
