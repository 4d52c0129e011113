"""Full-text search that ranks as Lucene does: BM25 in its arithmetic, over an inverted index in the store.

For a term t with boost q (how often the query has it) in a document d with frequency f, in single precision,

    w = q * ln(1 + (N - n + 0.5) / (n + 0.5))
    score(t, d) = w - w / (1 + f / (k1 * (1 - b + b * |d| / mean)))

with N documents, n of them with the term. The length |d| is what is left after it has gone through one byte
(`shorten`). The scores of the terms are added in double precision and rounded to single. Equal scores are put
in the order of the product identifiers, as the original's search library does.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import BadQuery
from .analysis import analyse
from .store import Store

K1, B = np.float32(0.9), np.float32(0.4)
LONGEST_QUERY = 1024
"""Different terms in one query; Lucene refuses more."""
_PRUNE_FROM = 1 << 17
"""Postings of a query from which on it pays to leave out documents that cannot be among the best."""


def length_code(lengths: NDArray[Any]) -> NDArray[np.uint8]:
    """Document lengths as one byte each."""
    return (np.searchsorted(LENGTHS, lengths, side="right") - 1).astype(np.uint8)


def shorten(length: int) -> int:
    """A document length as it comes back from one byte: exact to 40, then coarser and coarser.

    >>> [shorten(length) for length in (7, 39, 40, 41, 100, 1000)]
    [7, 39, 40, 40, 96, 984]
    """
    return int(LENGTHS[length_code(np.array([length]))[0]])


def _byte_lengths() -> NDArray[np.int64]:
    """The 256 lengths a byte can stand for: 24 exact values, then floats with four significant bits."""
    free = 255 - _bits(2**31 - 1)
    values = list(range(free))
    for code in range(256 - free):
        mantissa, shift = code & 7, (code >> 3) - 1
        values.append(free + (mantissa if shift < 0 else (mantissa | 8) << shift))
    return np.array(values, dtype=np.int64)


def _bits(number: int) -> int:
    """The code of a number as a float of four significant bits: exponent, then three bits of mantissa."""
    length = number.bit_length()
    if length < 4:
        return number
    shift = length - 4
    return (number >> shift) & 7 | (shift + 1) << 3


LENGTHS = _byte_lengths()


@lru_cache(maxsize=1 << 14)
def term_key(term: str) -> int:
    """64 bits that stand for a term in the dictionary."""
    return int.from_bytes(
        hashlib.blake2b(term.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little"
    )


def inverse_norms(mean: float) -> NDArray[np.float32]:
    """1 / (k1 * (1 - b + b * length / mean)) for each length code, in single precision."""
    one = np.float32(1)
    norms: NDArray[np.float32] = one / (K1 * ((one - B) + B * LENGTHS.astype(np.float32) / np.float32(mean)))
    return norms


class Index:
    """The search side of the index in a store."""

    def __init__(self, store: Store) -> None:
        self.documents = int(store.about["documents"])
        self.filled = int(store.about["filled"])
        self.keys = store.array("term_keys")
        self.starts = store.array("term_starts")
        self.peaks = store.array("term_peaks")
        self.docs = store.array("post_docs")
        self.counts = store.array("post_counts")
        self.codes = store.array("doc_codes")
        self.ranks = store.array("asin_ranks")
        self.norms = inverse_norms(store.about["tokens"] / max(1, self.filled))

    def search(self, query: str, count: int) -> list[int]:
        """The best `count` documents for a query, best first, as index positions."""
        asked = Counter(analyse(query))
        if len(asked) > LONGEST_QUERY:
            raise BadQuery(
                f"The query has {len(asked):,} different search terms, the most that can be searched for is "
                f"{LONGEST_QUERY:,}. Shorten it."
            )
        if not asked:
            return []
        wanted = np.array([term_key(term) for term in asked], dtype=np.uint64)
        places = np.searchsorted(self.keys, wanted)
        places[places == len(self.keys)] = 0
        found = self.keys[places] == wanted if len(self.keys) else np.zeros(len(wanted), dtype=bool)
        boosts = np.array(list(asked.values()), dtype=np.float32)[found]
        places = places[found]
        starts, ends = self.starts[places], self.starts[places + 1]
        weights = boosts * self._idf(ends - starts)
        total = int((ends - starts).sum())
        if total < _PRUNE_FROM:
            docs, scores = self._all(starts, ends, weights)
        else:
            docs = self._promising(starts, ends, weights, weights * self.peaks[places], count)
            scores = self._exact(docs, starts, ends, weights)
        return self._best(docs, scores, count)

    def _idf(self, documents: NDArray[Any]) -> NDArray[np.float32]:
        """ln(1 + (N - n + 0.5) / (n + 0.5)), rounded to single precision."""
        return np.array(
            [math.log(1 + (self.filled - n + 0.5) / (n + 0.5)) for n in documents.tolist()], dtype=np.float32
        )

    def _score(self, docs: NDArray[Any], counts: NDArray[Any], weight: Any) -> NDArray[np.float32]:
        result: NDArray[np.float32] = weight - weight / (
            np.float32(1) + counts.astype(np.float32) * self.norms[self.codes[docs]]
        )
        return result

    def _all(
        self, starts: NDArray[Any], ends: NDArray[Any], weights: NDArray[np.float32]
    ) -> tuple[NDArray[Any], NDArray[np.float32]]:
        """Every document with any of the terms, and its score."""
        spans = list(zip(starts.tolist(), ends.tolist()))
        if not spans:
            return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.float32)
        docs = np.concatenate([self.docs[start:end] for start, end in spans])
        counts = np.concatenate([self.counts[start:end] for start, end in spans])
        parts = self._score(docs, counts, np.repeat(weights, ends - starts))
        sums = np.bincount(docs, weights=parts, minlength=1)
        found = np.flatnonzero(sums)
        return found, sums[found].astype(np.float32)

    def _promising(
        self,
        starts: NDArray[Any],
        ends: NDArray[Any],
        weights: NDArray[np.float32],
        peaks: NDArray[np.float32],
        count: int,
    ) -> NDArray[Any]:
        """Documents among which the best are, found from the weightiest terms as far as needed.

        Terms are taken from the largest possible contribution down. When what the rest could add is less than
        what separates a document from the `count`-th best so far, the rest need not be read.
        """
        sums = np.zeros(self.documents)
        order = np.argsort(-peaks, kind="stable").tolist()
        left = float(peaks.sum(dtype=np.float64)) * (1 + 1e-5)
        for position, term in enumerate(order, start=1):
            docs = self.docs[starts[term] : ends[term]]
            sums[docs] += self._score(docs, self.counts[starts[term] : ends[term]], weights[term])
            left -= float(peaks[term])
            if position == len(order):
                break
            touched = np.flatnonzero(sums)
            if len(touched) <= count:
                continue
            parts = sums[touched]
            threshold = float(np.partition(parts, len(parts) - count)[len(parts) - count])
            if left < threshold:
                near: NDArray[Any] = touched[parts + left >= threshold]
                if position == len(order) or len(near) <= len(touched) // 4 or len(near) < 50 * count:
                    return near
        found = np.flatnonzero(sums)
        if len(found) <= count:
            return found
        parts = sums[found]
        threshold = float(np.partition(parts, len(parts) - count)[len(parts) - count])
        return found[parts >= threshold * (1 - 1e-6)]

    def _exact(
        self, docs: NDArray[Any], starts: NDArray[Any], ends: NDArray[Any], weights: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        """The scores of chosen documents, terms added in the order of the query."""
        sums = np.zeros(len(docs))
        for start, end, weight in zip(starts.tolist(), ends.tolist(), weights):
            posted = self.docs[start:end]
            places = np.searchsorted(posted, docs.astype(posted.dtype))
            places[places == len(posted)] = 0
            here = posted[places] == docs
            counts = self.counts[start:end][places[here]]
            sums[here] += self._score(docs[here], counts, weight)
        return sums.astype(np.float32)

    def _best(self, docs: NDArray[Any], scores: NDArray[np.float32], count: int) -> list[int]:
        """The `count` documents of highest score, equal ones by identifier."""
        if len(docs) > 4 * count:
            kth = len(scores) - count
            keep = scores >= np.partition(scores, kth)[kth]
            docs, scores = docs[keep], scores[keep]
        order = np.lexsort((self.ranks[docs], -scores))[:count]
        best: list[int] = docs[order].tolist()
        return best
