"""Workers that die, hang or raise in the middle of training: the run goes on and every count is right."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from hgpo.errors import EnvironmentFailed
from hgpo.runs import load, train

from ..conftest import ROOT
from ..worlds import FETCH

SETTINGS = [
    "env=tests.worlds:Flaky",
    "env.execution=process",
    "env.workers=2",
    "env.step_timeout=1.0",
    "eval.every=0",
    "env.tasks=4",
    "rollout.tasks=4",
    "rollout.group_size=2",
    "iterations=1",
]


@pytest.fixture(autouse=True)
def workers_find_this_package(monkeypatch: pytest.MonkeyPatch) -> None:
    path = [str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path))


def warm(tmp_path: Path) -> str:
    """A starting model made in the healthy world."""
    train(load(FETCH, ["iterations=0", "eval.every=0"]), tmp_path / "warm", quiet=True)
    return str(tmp_path / "warm" / "model")


def run(tmp_path: Path, mode: str, times: int) -> list[dict[str, float]]:
    marks = tmp_path / "marks"
    marks.mkdir()
    settings = [
        f"env.marks={marks}",
        f"env.mode={mode}",
        f"env.times={times}",
        f"model={warm(tmp_path)}",
        "warm.episodes=0",
    ]
    train(load(FETCH, [*SETTINGS, *settings]), tmp_path / "run", quiet=True)
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines][1:]


@pytest.mark.parametrize("mode", ["kill", "hang", "raise"])
def test_a_broken_worker_costs_a_retry_and_nothing_else(tmp_path: Path, mode: str) -> None:
    (row,) = run(tmp_path, mode, times=1)
    # Tasks 0 and 3 of the four strike once each.
    assert row["environment_failures"] == 2
    assert row["episode_retries"] == 2
    assert row["dropped_groups"] == 0
    assert row["episodes"] == 8


def test_a_worker_that_keeps_breaking_loses_its_group(tmp_path: Path) -> None:
    (row,) = run(tmp_path, "raise", times=100)
    assert row["dropped_groups"] == 2
    assert row["groups"] == 2
    assert row["episodes"] == 4, "the other groups are whole"


def test_no_group_left_is_an_error_that_names_the_cause(tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    marks.mkdir()
    with pytest.raises(EnvironmentFailed, match="fell over"):
        train(
            load(
                FETCH,
                [*SETTINGS, "env.tasks=1", "rollout.tasks=1", f"env.marks={marks}", "env.mode=raise", "env.times=100",
                 f"model={warm(tmp_path)}", "warm.episodes=0"],
            ),
            tmp_path / "run",
            quiet=True,
        )  # fmt: skip
