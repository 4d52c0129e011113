"""What the penalty for invalid actions makes of an estimate."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hgpo import StepBatch, estimate
from hgpo.estimators.estimate import compute
from hgpo.estimators.penalty import penalty_share as share_of
from hgpo.estimators.table import ESTIMATORS


def penalty_share(batch: StepBatch, name: str, **settings: Any) -> float:
    return share_of(compute(batch, name, settings))


def rollouts(won: bool, invalid: bool = True) -> list[dict[str, Any]]:
    """Eight rollouts of one task through the same three states; some steps invalid, all lost or half won."""
    return [
        {
            "task": "t", "trajectory": i, "step": s, "observation": f"room {s}", "action": f"go {i % 2}",
            "reward": 10.0 * (won and i % 2 and s == 2), "valid": not (invalid and i > 2 and (i + s) % 3 == 0),
        }
        for i in range(8) for s in range(3)
    ]  # fmt: skip


@pytest.mark.parametrize("name", sorted(ESTIMATORS))
def test_failures_that_differ_in_validity_alone_are_all_penalty(name: str) -> None:
    batch = StepBatch.from_rows(rollouts(won=False))
    share = penalty_share(batch, name, invalid_penalty=0.1)
    assert share == pytest.approx(
        1.0 if np.any(estimate(batch, name, invalid_penalty=0.1).advantages) else 0.0
    )


@pytest.mark.parametrize("name", ["hgpo", "gigpo", "grpo"])
def test_no_part_without_a_penalty_or_without_anything_to_punish(name: str) -> None:
    assert penalty_share(StepBatch.from_rows(rollouts(won=True)), name) == 0.0
    spotless = StepBatch.from_rows(rollouts(won=True, invalid=False))
    assert penalty_share(spotless, name, invalid_penalty=0.1) == 0.0


@pytest.mark.parametrize("name", ["hgpo", "gigpo", "grpo"])
def test_it_is_the_distance_to_the_estimate_without(name: str) -> None:
    rows = rollouts(won=True)
    padding = {**rows[0], "padding": True}
    np.random.default_rng(0).shuffle(rows)
    batch = StepBatch.from_rows([*rows, padding])
    own, without = (estimate(batch, name, invalid_penalty=p).advantages for p in (0.1, 0.0))
    expected = np.abs(own - without).sum() / np.abs(own).sum()
    assert penalty_share(batch, name, invalid_penalty=0.1) == pytest.approx(expected)
    assert 0 < expected < 0.3, "a tenth against ten is little where success differs"


def test_a_floor_keeps_it_small() -> None:
    lost = StepBatch.from_rows([*rollouts(won=True), *({**r, "task": "u"} for r in rollouts(won=False))])
    loud = penalty_share(lost, "hgpo", invalid_penalty=0.1)
    quiet = penalty_share(lost, "hgpo", invalid_penalty=0.1, std_floor=1.0)
    assert quiet < 0.2 < loud
