"""The small model learns in environments that bring no expert, with the settings that a user gets."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hgpo.config import load
from hgpo.runs.training import train

from ..envs import own_worlds


@pytest.mark.slow
@pytest.mark.parametrize(
    ("env", "split", "iterations", "least"),
    [
        (f"{own_worlds.__name__}:Switches", "test", 30, 0.25),
        ("hgpo.envs.template:Cave", "in-domain", 20, 0.1),
    ],
)
def test_success_rises_beyond_the_noise(
    tmp_path: Path, env: str, split: str, iterations: int, least: float
) -> None:
    """`least`: two standard errors of a difference over the held-out tasks, or more."""
    train(load(env, [f"iterations={iterations}", f"eval.every={iterations}"]), tmp_path / "run", quiet=True)
    rows = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    first, last = rows[0][f"eval/{split}/success"], rows[-1][f"eval/{split}/success"]
    assert last > first + least, (first, last)
