"""The numbers of released code, recorded by running it on invented rollouts (`tests/data`)."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np

from hgpo import StepBatch, estimate, explain

DATA = Path(__file__).parents[1] / "data"


def recorded(name: str) -> list[dict[str, Any]]:
    with gzip.open(DATA / name, "rt") as lines:
        return [json.loads(line) for line in lines]


def test_released_variants_reproduce_the_recorded_numbers() -> None:
    cases = recorded("released.jsonl.gz")
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


def test_g2po_and_graphgpo_reproduce_the_recorded_numbers() -> None:
    cases = recorded("successors.jsonl.gz")
    assert len(cases) >= 40
    for case in cases:
        batch = StepBatch.from_rows(case["rows"])
        given = {key: case[key] for key in ("mode", "invalid_penalty")}
        for name in ("g2po", "graphgpo"):
            found = estimate(batch, name, **given).advantages
            np.testing.assert_allclose(found, case[f"{name}_released"], atol=1e-5, err_msg=case["name"])
        graph = estimate(batch, "graphgpo", mode=case["mode"]).returns
        np.testing.assert_allclose(graph, case["graphgpo_target"], atol=1e-5, err_msg=case["name"])


def test_the_parts_of_g2po_are_the_recorded_ones() -> None:
    for case in recorded("successors.jsonl.gz"):
        found = explain(
            StepBatch.from_rows(case["rows"]),
            "g2po",
            mode=case["mode"],
            invalid_penalty=case["invalid_penalty"],
        )
        episode, state, gain = found.terms
        there = state.score + case["invalid_penalty"] * found.computed.record.invalid
        for mine, theirs in (
            (there - gain.score, "g2po_state_values"),
            (episode.values, "g2po_episode"),
            (state.values + gain.values, "g2po_step"),
        ):
            expected = np.array(case[theirs])[found.rows]
            np.testing.assert_allclose(mine, expected, atol=1e-5, err_msg=f"{case['name']} {theirs}")
