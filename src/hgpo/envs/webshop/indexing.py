"""Building the search index: documents in, sorted postings out, in bounded memory."""

from __future__ import annotations

import tempfile
from array import array
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import BadFile
from .analysis import term_of, words
from .index import divisors, length_code, term_key
from .store import Writer

_TOKENS_A_BLOCK = 1 << 23
_POSTING = np.dtype([("term", np.int32), ("doc", np.int32), ("pair", np.uint32)])


class _TermIds(dict[str, int]):
    """Word to term number, -1 for stop words; grows as words are seen."""

    def __init__(self) -> None:
        super().__init__()
        self.terms: dict[str, int] = {}

    def __missing__(self, word: str) -> int:
        term = term_of(word)
        number = self.terms.setdefault(term, len(self.terms)) if term else -1
        self[word] = number
        return number


class IndexBuilder:
    """Takes documents one by one; blocks of sorted postings wait on disk until they are merged.

    Memory is bounded by the block size and the number of different words.

    Args:
        path: the store that is being made; blocks lie beside it, on the same disk.
    """

    def __init__(self, path: Path) -> None:
        self.ids = _TermIds()
        self.lengths = array("i")
        self.flushed = 0
        self.tokens = array("i")
        self.folder = tempfile.TemporaryDirectory(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
        self.blocks: list[Path] = []
        self.pairs: NDArray[np.uint32] = np.empty(0, dtype=np.uint32)
        """Every (frequency << 8 | length code) that occurs; there are few, so postings hold a number."""

    def __enter__(self) -> IndexBuilder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.folder.cleanup()

    def add(self, text: str) -> None:
        """Index the next document."""
        ids = self.ids
        numbers = [number for word in words(text) if (number := ids[word]) >= 0]
        self.tokens.extend(numbers)
        self.lengths.append(len(numbers))
        if len(self.tokens) >= _TOKENS_A_BLOCK:
            self._flush()

    def _flush(self) -> None:
        """Sort the tokens of the current block into postings and put them aside."""
        lengths = np.frombuffer(self.lengths, dtype=np.int32)[self.flushed :]
        docs = np.repeat(np.arange(self.flushed, len(self.lengths), dtype=np.int64), lengths)
        pairs = np.frombuffer(self.tokens, dtype=np.int32).astype(np.int64) << 32 | docs
        pairs, counts = np.unique(pairs, return_counts=True)
        block = np.empty(len(pairs), dtype=_POSTING)
        block["term"], block["doc"] = pairs >> 32, pairs & 0xFFFFFFFF
        codes = length_code(lengths)[block["doc"] - self.flushed]
        block["pair"] = np.minimum(counts, 0xFFFFFF) << 8 | codes
        self.pairs = np.union1d(self.pairs, block["pair"])
        path = Path(self.folder.name) / f"{len(self.blocks)}.npy"
        np.save(path, block)
        self.blocks.append(path)
        del lengths
        self.flushed = len(self.lengths)
        self.tokens = array("i")

    def write(self, writer: Writer) -> dict[str, int]:
        """Merge the blocks into the store; returns the counts a reader needs."""
        if self.tokens or not self.blocks:
            self._flush()
        lengths = np.frombuffer(self.lengths, dtype=np.int32).astype(np.int64)
        keys = np.array([term_key(term) for term in self.ids.terms], dtype=np.uint64)
        order = np.argsort(keys)
        if len(keys) and (np.diff(keys[order]) == 0).any():
            raise BadFile(
                "Two search terms have the same 64-bit key; the index cannot be built from these texts."
            )
        rank = np.empty(len(keys), dtype=np.int64)
        rank[order] = np.arange(len(keys))
        sizes = np.zeros(len(keys), dtype=np.int64)
        for path in self.blocks:
            sizes += np.bincount(rank[np.load(path, mmap_mode="r")["term"]], minlength=len(keys))
        starts = np.concatenate([[0], np.cumsum(sizes)])
        filled, tokens = int((lengths > 0).sum()), int(lengths.sum())
        docs, pairs = self._merge(rank, starts)
        writer.add("term_keys", keys[order])
        writer.add("term_starts", starts)
        writer.add("term_peaks", _peaks(pairs, starts, divisors(self.pairs, tokens / max(1, filled))))
        writer.add("post_docs", docs)
        writer.add("post_pairs", pairs)
        writer.add("pairs", self.pairs)
        return {"documents": len(lengths), "filled": filled, "tokens": tokens, "terms": len(keys)}

    def _merge(self, rank: NDArray[Any], starts: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        """All postings by term and then document; blocks come in document order already."""
        folder = Path(self.folder.name)
        size = max(1, int(starts[-1]))
        docs = np.memmap(folder / "docs", dtype=np.int32, mode="w+", shape=size)
        kind = np.uint16 if len(self.pairs) <= 1 << 16 else np.uint32
        pairs = np.memmap(folder / "pairs", dtype=kind, mode="w+", shape=size)
        free = starts[:-1].copy()
        for path in self.blocks:
            block = np.load(path, mmap_mode="r")
            terms = rank[block["term"]]
            # Inside a block the postings of a term lie together: its place is the term's next free one.
            first = np.flatnonzero(np.diff(terms, prepend=-1))
            run = np.diff(first, append=len(terms))
            places = np.repeat(free[terms[first]] - first, run) + np.arange(len(terms))
            docs[places], pairs[places] = block["doc"], np.searchsorted(self.pairs, block["pair"])
            free[terms[first]] += run
        return docs[: int(starts[-1])], pairs[: int(starts[-1])]


def _peaks(pairs: NDArray[Any], starts: NDArray[Any], parts: NDArray[np.float32]) -> NDArray[np.float32]:
    """The largest share of its weight that each term adds to any document; bounds a search from above."""
    shares = 1 - 1 / parts
    peaks = np.zeros(len(starts) - 1, dtype=np.float32)
    step = 1 << 16
    for first in range(0, len(peaks), step):
        bounds = starts[first : first + step + 1]
        part = shares[pairs[int(bounds[0]) : int(bounds[-1])]]
        peaks[first : first + step] = np.maximum.reduceat(part, bounds[:-1] - bounds[0])
    return peaks
