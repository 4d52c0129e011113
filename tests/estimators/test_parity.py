"""The released code's numbers, recorded by running it on invented rollouts (`tests/data/released.jsonl.gz`)."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np

from hgpo import StepBatch, estimate

RECORDED = Path(__file__).parents[1] / "data" / "released.jsonl.gz"


def test_released_variants_reproduce_the_recorded_numbers() -> None:
    with gzip.open(RECORDED, "rt") as lines:
        cases = [json.loads(line) for line in lines]
    assert len(cases) >= 60
    for case in cases:
        batch = StepBatch.from_rows(case["rows"])
        common = {key: case[key] for key in ("mode", "gamma", "invalid_penalty")}
        hgpo = estimate(
            batch,
            "hgpo",
            depth=case["depth"],
            length_weight_alpha=case["alpha"],
            base_group=case["base_group"],
            variant="released",
            **common,
        )
        gigpo = estimate(batch, "gigpo", variant="released", **common)
        np.testing.assert_allclose(hgpo.returns, case["step_returns"], atol=1e-5, err_msg=case["name"])
        np.testing.assert_allclose(hgpo.advantages, case["hgpo_released"], atol=1e-5, err_msg=case["name"])
        np.testing.assert_allclose(gigpo.advantages, case["gigpo_released"], atol=1e-5, err_msg=case["name"])
