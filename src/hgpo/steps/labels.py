"""Whole numbers as labels: their order and their distinct values, by counting and never by comparing."""

from __future__ import annotations

import numpy as np

from .columns import IntArray

COUNTED = 16
"""Numbers below so many times their count are counted, larger ones sorted."""


def sorted_order(keys: IntArray) -> IntArray:
    """The stable order of whole numbers from 0 [n]: sixteen bits at a time, each a pass over the array."""
    order: IntArray = np.argsort(keys.astype(np.uint16), kind="stable")
    high, shift = int(keys.max(initial=0)) >> 16, 16
    while high:
        digits = (keys >> shift).astype(np.uint16)
        order = order[np.argsort(digits[order], kind="stable")]
        high, shift = high >> 16, shift + 16
    return order


def dense(keys: IntArray) -> IntArray:
    """Relabel integer keys [n] as 0..g-1, equal where the keys are equal."""
    if len(keys) == 0:
        return keys
    low, high = int(keys.min()), int(keys.max())
    places = keys - low if low else keys
    if high - low <= COUNTED * len(keys) + 1024:
        # A small range is counted; sorting is only for the others.
        present = np.zeros(high - low + 1, dtype=bool)
        present[places] = True
        met = np.flatnonzero(present)
        ranks = np.empty(len(present), dtype=np.int64)
        ranks[met] = np.arange(len(met))
        counted: IntArray = ranks[places]
        return counted
    order = sorted_order(places)
    labels = np.empty(len(keys), dtype=np.int64)
    labels[order] = np.cumsum(changes(keys[order]))
    return labels


def last_equal(keys: IntArray) -> IntArray:
    """Where the last number equal to each stands, of whole numbers from 0 [n]. Int [n]."""
    if int(keys.max(initial=0)) > COUNTED * len(keys) + 1024:
        keys = dense(keys)
    last = np.empty(int(keys.max(initial=-1)) + 1, dtype=np.int64)
    last[keys] = np.arange(len(keys))  # of equal numbers the last one stays; what nobody has is never read
    found: IntArray = last[keys]
    return found


def by_appearance(codes: IntArray) -> IntArray:
    """Renumber whole numbers from 0 [n] in the order in which they first occur. Int [n]."""
    highest = np.maximum.accumulate(codes)
    if not highest[:1].any() and (highest[1:] - highest[:-1] <= 1).all():
        return codes  # as a column is numbered when it is read
    first = np.full(int(highest[-1]) + 1, len(codes))
    first[codes[::-1]] = np.arange(len(codes))[::-1]  # of equal numbers the last one stays, the first of all
    ranks = np.empty_like(first)
    ranks[np.argsort(first, kind="stable")] = np.arange(len(first))
    numbered: IntArray = ranks[codes]
    return numbered


def changes(ordered: IntArray) -> IntArray:
    """1 where a value differs from the one before it, 0 elsewhere and at the start. Int [n]."""
    changed = np.empty(len(ordered), dtype=np.int64)
    changed[:1] = 0
    np.not_equal(ordered[1:], ordered[:-1], out=changed[1:], casting="unsafe")
    return changed
