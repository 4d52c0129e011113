"""Large batches are worked on piece by piece; nothing but time and memory may show it."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hgpo import StepBatch, estimate
from hgpo.estimators.estimate import Estimate, task_pieces
from hgpo.estimators.table import ESTIMATORS
from hgpo.settings import build
from tests.strategies import HGPO_SETTINGS, Rows, step_rows

module = sys.modules["hgpo.estimators.estimate"]  # the package has a function of that name
common = settings(max_examples=100, deadline=None, derandomize=True)


@contextmanager
def pieces_of(steps: int) -> Iterator[None]:
    before, module.PIECE = module.PIECE, steps
    try:
        yield
    finally:
        module.PIECE = before


def same_groups(one: np.ndarray[Any, Any], other: np.ndarray[Any, Any]) -> bool:
    """Whether two labellings [n] put the same steps together."""
    pairs = len(set(zip(one.tolist(), other.tolist())))
    return pairs == len(set(one.tolist())) == len(set(other.tolist())) and bool(
        ((one < 0) == (other < 0)).all()
    )


def check(found: Estimate, plain: Estimate) -> None:
    assert found.advantages.tolist() == plain.advantages.tolist()
    assert found.returns.tolist() == plain.returns.tolist()
    assert found.levels.shape == plain.levels.shape
    for one, other in zip(found.levels, plain.levels):
        assert same_groups(one, other)
        assert set(one.tolist()) - {-1} == set(range(one.max(initial=-1) + 1))
    assert found.metrics.keys() == plain.metrics.keys()
    for name, value in plain.metrics.items():
        assert found.metrics[name] == pytest.approx(value, rel=1e-9, abs=1e-9), name


def mixed(rows: Rows, seed: int) -> StepBatch:
    """The rows in another order, some with a padding row before them."""
    rng, found = random.Random(seed), []
    for row in rng.sample(rows, len(rows)):
        if rng.random() < 0.2:
            found.append({**row, "padding": True, "reward": 999.0})
        found.append({**row, "padding": False})
    return StepBatch.from_rows(found)


@common
@given(step_rows(max_tasks=6), st.sampled_from(sorted(ESTIMATORS)), st.integers(1, 12), st.integers(0, 2**32))
def test_pieces_give_the_same_bits(rows: Rows, name: str, size: int, seed: int) -> None:
    batch = mixed(rows, seed)
    plain = estimate(batch, name)
    with pieces_of(size):
        check(estimate(batch, name), plain)


@common
@given(step_rows(max_tasks=6), HGPO_SETTINGS, st.integers(1, 12), st.integers(0, 2**32))
def test_pieces_of_hgpo_with_all_its_settings(
    rows: Rows, chosen: dict[str, Any], size: int, seed: int
) -> None:
    batch = mixed(rows, seed)
    plain = estimate(batch, "hgpo", **chosen)
    with pieces_of(size):
        check(estimate(batch, "hgpo", **chosen), plain)


def test_what_looks_at_the_whole_batch_is_not_cut() -> None:
    def by_task(name: str, **chosen: Any) -> bool:
        return ESTIMATORS[name].by_task(build(ESTIMATORS[name].settings, chosen, name))

    assert by_task("hgpo")
    assert not by_task("hgpo", weight_type="shrinkage")
    assert not by_task("hgpo_lambda")
    assert not by_task("reinforce_plus_plus")


def test_pieces_hold_whole_tasks() -> None:
    rows = [
        {"task": task, "trajectory": 0, "step": step, "observation": "x", "reward": 0.0}
        for task, length in enumerate([3, 5, 1, 1, 9, 2])
        for step in range(length)
    ]
    batch = StepBatch.from_rows(rows)
    with pieces_of(4):
        assert [len(piece) for piece in task_pieces(batch.trajectories)] == [8, 11, 2]
    with pieces_of(100):
        assert [len(piece) for piece in task_pieces(batch.trajectories)] == [21]
