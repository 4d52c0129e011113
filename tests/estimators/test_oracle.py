"""The fast estimators against the literal ones of tests/oracle.py, on random batches and settings."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from hgpo import StepBatch, estimate
from tests import oracle
from tests.strategies import HGPO_SETTINGS, Rows, step_rows


@settings(max_examples=300, deadline=None, derandomize=True)
@given(step_rows(), HGPO_SETTINGS)
def test_hgpo_equals_the_literal_version(rows: Rows, chosen: dict[str, Any]) -> None:
    found = estimate(StepBatch.from_rows(rows), "hgpo", **chosen)
    advantages, returns = oracle.hgpo(rows, **chosen)
    scale = max(1.0, float(np.abs(returns).max()))
    np.testing.assert_allclose(found.returns, returns, atol=1e-9 * scale)
    np.testing.assert_allclose(found.advantages, advantages, rtol=1e-7, atol=1e-9 * scale)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(step_rows(), st.sampled_from(["mean_std_norm", "mean_norm"]), st.sampled_from([0.0, 0.1]))
def test_gigpo_equals_the_literal_version(rows: Rows, mode: str, penalty: float) -> None:
    found = estimate(
        StepBatch.from_rows(rows), "gigpo", mode=mode, invalid_penalty=penalty, step_advantage_w=0.7
    )
    expected = oracle.gigpo(rows, mode=mode, invalid_penalty=penalty, step_advantage_w=0.7)
    np.testing.assert_allclose(
        found.advantages, expected, rtol=1e-7, atol=1e-9 * max(1.0, float(np.abs(found.returns).max()))
    )
