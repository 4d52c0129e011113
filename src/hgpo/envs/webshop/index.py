"""Full-text search that ranks as Lucene does: BM25 in its arithmetic, over an inverted index in the store.

For a term t with boost q (how often the query has it) in a document d with frequency f, in single precision,

    w = q * ln(1 + (N - n + 0.5) / (n + 0.5))
    score(t, d) = w - w / (1 + f / (k1 * (1 - b + b * |d| / mean)))

with N documents, n of them with the term. The length |d| is what is left after it has gone through one byte
(`length_code`). The scores of the terms are added in double precision and rounded to single. Equal scores are put
in the order of the product identifiers, as the original's search library does.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

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


_SAMPLE = 4096
"""Documents from which the search learns early what the best will have at least."""


class _Term(NamedTuple):
    """A term of a query: where its postings are, its weight, and the most it adds to any document."""

    start: int
    end: int
    weight: np.float32
    peak: float


def length_code(lengths: NDArray[Any]) -> NDArray[np.uint8]:
    """Document lengths as one byte each: exact to 40, then coarser and coarser.

    >>> LENGTHS[length_code(np.array([7, 39, 40, 41, 100, 1000]))].tolist()
    [7, 39, 40, 40, 96, 984]
    """
    return (np.searchsorted(LENGTHS, lengths, side="right") - 1).astype(np.uint8)


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


def divisors(pairs: NDArray[Any], mean: float) -> NDArray[np.float32]:
    """1 + f / (k1 * (1 - b + b * |d| / mean)) for each pair (f << 8 | code of |d|), in single precision."""
    one = np.float32(1)
    norms = one / (K1 * ((one - B) + B * LENGTHS.astype(np.float32) / np.float32(mean)))
    result: NDArray[np.float32] = one + (pairs >> 8).astype(np.float32) * norms[pairs & 0xFF]
    return result


class Index:
    """The search side of the index in a store."""

    def __init__(self, store: Store) -> None:
        self.documents = int(store.about["documents"])
        self.filled = int(store.about["filled"])
        self.keys = store.array("term_keys")
        self.starts = store.array("term_starts")
        self.peaks = store.array("term_peaks")
        self.docs = store.array("post_docs")
        self.pairs = store.array("post_pairs")
        self.ranks = store.array("asin_ranks")
        self.divisors = divisors(store.array("pairs"), store.about["tokens"] / max(1, self.filled))

    def search(self, query: str, count: int) -> list[int]:
        """The best `count` documents for a query, best first, as index positions."""
        asked = Counter(analyse(query))
        if len(asked) > LONGEST_QUERY:
            raise BadQuery(
                f"The query has {len(asked):,} different search terms, the most that can be searched for is "
                f"{LONGEST_QUERY:,}. Shorten it."
            )
        terms = self._terms(asked)
        if not terms:
            return []
        if sum(term.end - term.start for term in terms) < _PRUNE_FROM:
            docs, scores = self._all(terms)
        else:
            docs = self._promising(terms, count)
            scores = self._exact(docs, terms)
        return self._best(docs, scores, count)

    def _terms(self, asked: Mapping[str, int]) -> list[_Term]:
        """The terms of a query that the index knows, in the order of the query."""
        if not asked or not len(self.keys):
            return []
        wanted = np.array([term_key(term) for term in asked], dtype=np.uint64)
        places = np.searchsorted(self.keys, wanted)
        places[places == len(self.keys)] = 0
        known = self.keys[places] == wanted
        boosts = np.array(list(asked.values()), dtype=np.float32)[known]
        places = places[known]
        spans = zip(self.starts[places].tolist(), self.starts[places + 1].tolist())
        return [
            _Term(start, end, weight := boost * self._idf(end - start), float(weight) * peak)
            for (start, end), boost, peak in zip(spans, boosts, self.peaks[places].tolist())
        ]

    def _idf(self, documents: int) -> np.float32:
        """ln(1 + (N - n + 0.5) / (n + 0.5)), rounded to single precision."""
        rarity: np.float32 = np.float32(math.log(1 + (self.filled - documents + 0.5) / (documents + 0.5)))
        return rarity

    def _all(self, terms: list[_Term]) -> tuple[NDArray[Any], NDArray[np.float32]]:
        """Every document with any of the terms, and its score."""
        docs = np.concatenate([self.docs[term.start : term.end] for term in terms])
        pairs = np.concatenate([self.pairs[term.start : term.end] for term in terms])
        weights = np.repeat(
            np.array([term.weight for term in terms]), [term.end - term.start for term in terms]
        )
        sums = np.bincount(docs, weights=weights - weights / self.divisors[pairs])
        documents = np.flatnonzero(sums)
        return documents, sums[documents].astype(np.float32)

    def _promising(self, terms: list[_Term], count: int) -> NDArray[Any]:
        """Documents among which the best are, found from the weightiest terms as far as needed.

        Terms are taken from the largest possible contribution down. The `count`-th best among some documents of
        the first terms is a bound from below on what the best have. Once the rest of the terms cannot lift
        another document to it, the rest need not be read.
        """
        sums = np.zeros(self.documents)
        sample: NDArray[Any] = np.empty(0, dtype=np.int64)
        order = sorted(terms, key=lambda term: -term.peak)
        left = sum(term.peak for term in terms) * (1 + 1e-5)
        unread = sum(term.end - term.start for term in terms)
        threshold = 0.0
        for term in order:
            docs = self.docs[term.start : term.end].astype(np.int64)
            parts = (term.weight - term.weight / self.divisors)[self.pairs[term.start : term.end]]
            sums[docs] += parts
            left -= term.peak
            unread -= len(docs)
            if len(sample) < count:
                if len(docs) > _SAMPLE:
                    docs = docs[np.argpartition(parts, len(parts) - _SAMPLE)[-_SAMPLE:]]
                sample = np.union1d(sample, docs)
            if len(sample) >= count:
                partial = sums[sample]
                kth = len(partial) - count
                threshold = float(np.partition(partial, kth)[kth])
            if unread and left < threshold:
                near: NDArray[Any] = np.flatnonzero(sums >= threshold - left)
                # Looking a document up in the rest costs more than reading a posting.
                if len(near) * 8 * (len(terms) + 1) < unread:
                    return near
        return np.flatnonzero(sums >= threshold * (1 - 1e-6)) if threshold else np.flatnonzero(sums)

    def _exact(self, docs: NDArray[Any], terms: list[_Term]) -> NDArray[np.float32]:
        """The scores of chosen documents, terms added in the order of the query."""
        sums = np.zeros(len(docs))
        for term in terms:
            posted = self.docs[term.start : term.end]
            places = np.searchsorted(posted, docs.astype(posted.dtype))
            places[places == len(posted)] = 0
            here = posted[places] == docs
            pairs = self.pairs[term.start : term.end][places[here]]
            sums[here] += term.weight - term.weight / self.divisors[pairs]
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
