"""The terms of an explanation add up to the advantage, and each is what it says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hgpo import StepBatch, estimate
from hgpo.estimators.explain import Explanation, explain
from hgpo.estimators.table import ESTIMATORS
from tests.strategies import HGPO_SETTINGS, Rows, step_rows


def check(rows: Rows, name: str, **chosen: Any) -> Explanation:
    batch = StepBatch.from_rows(rows)
    found, expected = explain(batch, name, **chosen), estimate(batch, name, **chosen)
    total = np.zeros(len(rows))
    for term in found.terms:
        assert np.allclose((term.score - term.baseline) / term.divisor, term.values, rtol=1e-6, atol=1e-7)
        total[term.rows] += term.contributions
    given_order = np.empty(len(rows))
    given_order[found.computed.rows] = total
    scale = 1 + np.abs(expected.advantages).max()
    assert np.allclose(given_order, expected.advantages, rtol=0, atol=1e-9 * scale)
    assert found.advantages.tolist() == expected.advantages[found.computed.rows].tolist()
    return found


@settings(max_examples=60, deadline=None)
@given(step_rows(), HGPO_SETTINGS)
def test_hgpo_terms_add_up(rows: Rows, chosen: dict[str, Any]) -> None:
    check(rows, "hgpo", **chosen)


@settings(max_examples=15, deadline=None)
@given(step_rows(), st.sampled_from(["released", "paper"]), st.sampled_from(["mean_std_norm", "mean_norm"]))
def test_gigpo_terms_add_up(rows: Rows, variant: str, mode: str) -> None:
    found = check(rows, "gigpo", variant=variant, mode=mode, step_advantage_w=0.5, invalid_penalty=0.1)
    assert [term.name for term in found.terms] == ["episode", "level 0"]


@pytest.mark.parametrize("name", sorted(ESTIMATORS))
@settings(max_examples=10, deadline=None)
@given(rows=step_rows())
def test_every_estimator_is_explained(name: str, rows: Rows) -> None:
    check(rows, name)


def test_reinforce_plus_plus_with_a_group_baseline() -> None:
    rows = [
        {"task": "t", "trajectory": i, "step": s, "observation": "o", "reward": float(i * s)}
        for i in range(3)
        for s in range(2)
    ]
    check(rows, "reinforce_plus_plus", baseline="group")


def test_a_worked_step() -> None:
    """Two rollouts meet in the kitchen, one through the hall: level 0 has two members, level 1 one."""
    rows = [
        {"task": "t", "trajectory": "a", "step": 0, "observation": "hall", "reward": 0.0},
        {"task": "t", "trajectory": "a", "step": 1, "observation": "kitchen", "reward": 10.0},
        {"task": "t", "trajectory": "b", "step": 0, "observation": "attic", "reward": 0.0},
        {"task": "t", "trajectory": "b", "step": 1, "observation": "kitchen", "reward": 0.0},
    ]
    found = explain(StepBatch.from_rows(rows), "hgpo", depth=1, variant="paper", gamma=1.0)
    shallow, deep = found.terms
    assert shallow.sizes.tolist() == [1, 2, 1, 2]
    assert shallow.baseline.tolist() == [10.0, 5.0, 0.0, 5.0]
    assert shallow.divisor[1] == 5.0
    assert shallow.weights.tolist() == [0.0, 1.0, 0.0, 1.0]  # level 1 has no peer, so level 0 takes all
    assert deep.rows.tolist() == [1, 3]
    assert deep.weights.tolist() == [0.0, 0.0]
