"""Rows laid end to end: every row is found again, beginnings that rows share are stored once, budgets hold."""

from __future__ import annotations

import numpy as np
import pytest

from hgpo.models.packing import Packing, filled, pack, packs, rounded
from hgpo.steps.columns import Ragged


def some(seed: int, count: int, letters: int, longest: int = 9) -> list[np.ndarray]:
    random = np.random.default_rng(seed)
    return [random.integers(0, letters, random.integers(1, longest)) for _ in range(count)]


def row(packing: Packing, number: int, length: int) -> list[int]:
    places = packing.places(np.full(length, number), np.arange(length))
    assert packing.positions[places].tolist() == list(range(length))
    return packing.tokens[places].tolist()


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("letters", [2, 3, 70000])
def test_every_row_is_found_again_and_shared_beginnings_are_stored_once(seed: int, letters: int) -> None:
    rows = some(seed, 40, letters)
    packing = pack(rows)
    assert [row(packing, number, len(ids)) for number, ids in enumerate(rows)] == [r.tolist() for r in rows]
    distinct = {tuple(ids[: end + 1]) for ids in rows for end in range(len(ids))}
    assert len(packing.tokens) == len(distinct)
    # A segment's queries are the end of its keys, and those who use a token stand side by side.
    for number, (start, end) in enumerate(zip(packing.starts, packing.starts[1:])):
        keys = packing.keys[packing.key_starts[number] : packing.key_starts[number + 1]]
        assert keys[len(keys) - (end - start) :].tolist() == list(range(start, end))
    owners = np.repeat(np.arange(len(packing.starts) - 1), np.diff(packing.starts))
    for token, (owner, uses) in enumerate(zip(owners, packing.uses)):
        places = packing.key_starts[owner : owner + uses] + packing.positions[token]
        assert (packing.keys[places] == token).all()
        assert (packing.keys == token).sum() == uses


def test_rows_that_share_nothing_are_stored_whole() -> None:
    packing = pack([np.array([3, 1]), np.array([2, 1, 1])])
    assert packing.tokens.tolist() == [2, 1, 1, 3, 1]
    assert packing.keys.tolist() == [0, 1, 2, 3, 4]
    assert packing.segments.tolist() == [1, 0]


@pytest.mark.parametrize("budget", [1, 7, 30, 1000])
def test_passes_hold_all_rows_within_the_budget(budget: int) -> None:
    rows = some(1, 60, 3, longest=12)
    numbers = np.random.default_rng(2).permutation(60)[:50]
    parts = list(packs(Ragged.of(rows, np.int64), numbers, budget))
    assert sorted(np.concatenate([part for part, _ in parts]).tolist()) == sorted(numbers.tolist())
    for part, tokens in parts:
        assert len(pack([rows[number] for number in part]).tokens) == tokens
        assert tokens <= budget or len({rows[number].tobytes() for number in part}) == 1
    if budget == 1000:
        assert len(parts) == 1


def test_no_rows_make_no_pass() -> None:
    assert list(packs(Ragged.of([[1]], np.int64), np.arange(0), 5)) == []


def test_few_sizes_occur() -> None:
    sizes = {rounded(count) for count in range(16384, 32769)}
    assert len(sizes) == 17
    assert all(count <= rounded(count) <= count * 17 / 16 for count in range(1, 5000))


@pytest.mark.parametrize("more", [0, 1, 127, 128, 300])
def test_what_fills_up_stands_apart(more: int) -> None:
    rows = some(3, 20, 3)
    packing = pack(rows)
    full = filled(packing, len(packing.tokens) + more)
    assert len(full.tokens) == len(packing.tokens) + more
    assert [row(full, number, len(ids)) for number, ids in enumerate(rows)] == [ids.tolist() for ids in rows]
    assert full.key_starts[-1] == len(full.keys)
    assert full.starts[-1] == len(full.tokens)
    apart = full.keys[full.key_starts[len(packing.starts) - 1] :]
    assert apart.tolist() == list(range(len(packing.tokens), len(full.tokens)))
    assert np.diff(full.starts).max() <= max(128, np.diff(packing.starts).max())
