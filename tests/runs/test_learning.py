"""Training must make the agent better, and must stop doing so when the signal is turned round or mixed up."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hgpo.runs.training as trainer
from hgpo.estimators.estimate import arrange
from hgpo.runs import load, train

from ..worlds import FETCH

SETTINGS = [
    "env.tasks=8",
    "rollout.tasks=8",
    "rollout.group_size=8",
    "rollout.keep_every=0",
    "lr=1e-3",
    "update.updates=4",
    "update.warmup=4",
    "eval.every=0",
    "iterations=10",
    "save_every=1000",
]


def gain(run: Path, *settings: str) -> float:
    """Success of the last three iterations minus that of the first."""
    train(load(FETCH, [*SETTINGS, *settings]), run, quiet=True)
    lines = (run / "metrics.jsonl").read_text().splitlines()
    success = [json.loads(line)["success"] for line in lines[1:]]
    return float(np.mean(success[-3:]) - success[0])


@pytest.mark.parametrize("estimator", ["hgpo", "gigpo", "grpo"])
def test_success_rises(estimator: str, tmp_path: Path) -> None:
    assert gain(tmp_path / "run", f"estimator={estimator}") > 0.25


def test_a_flipped_sign_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def flipped(*args: Any) -> Any:
        found = arrange(*args)
        return dataclasses.replace(found, advantages=-found.advantages)

    monkeypatch.setattr(trainer, "arrange", flipped)
    assert gain(tmp_path / "run") < 0.0


def test_shuffled_advantages_are_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(0)

    def shuffled(*args: Any) -> Any:
        found = arrange(*args)
        return dataclasses.replace(found, advantages=random.permutation(found.advantages))

    monkeypatch.setattr(trainer, "arrange", shuffled)
    assert gain(tmp_path / "run") < 0.15
