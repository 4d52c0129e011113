"""Workers that die, hang or raise in the middle of training: the run goes on and every count is right."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch

from hgpo.cli import main
from hgpo.errors import EnvironmentFailed
from hgpo.runs import load, train
from hgpo.runs.folder import RunFolder

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


def trained(folder: Path, *settings: str) -> tuple[dict[str, Any], list[dict[str, float]]]:
    """The weights after one iteration and the lines about it."""
    from safetensors.torch import load_file

    train(load(FETCH, ["iterations=1", "eval.every=1", *settings]), folder, quiet=True)
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    return load_file(RunFolder(folder).checkpoints()[-1].weights), [json.loads(line) for line in lines]


@pytest.mark.parametrize("workers", ["3", "20"])
def test_processes_give_the_same_weights_as_this_one(tmp_path: Path, workers: str) -> None:
    """Bit for bit, warm start and evaluations included, with as many live environments."""
    inline, rows = trained(tmp_path / "inline", f"env.workers={workers}")
    apart, others = trained(tmp_path / "process", "env.execution=process", f"env.workers={workers}")
    assert inline.keys() == apart.keys()
    for name, weights in inline.items():
        assert torch.equal(weights, apart[name]), name
    for key in ("success", "return", "steps", "loss/policy", "grad_norm", "eval/in-domain/success"):
        assert [row.get(key) for row in rows] == [row.get(key) for row in others]


WRONG = [
    "env=tests.envs.wrong_env:Wrong",
    "eval.every=0",
    "rollout.tasks=4",
    "rollout.group_size=2",
    "iterations=1",
    "warm.episodes=0",
]


def wrong(tmp_path: Path, *settings: str) -> dict[str, float]:
    marks = tmp_path / "marks"
    marks.mkdir()
    words = [*WRONG, f"env.marks={marks}", f"model={warm(tmp_path)}", *settings]
    train(load(FETCH, words), tmp_path / "run", quiet=True)
    row: dict[str, float] = json.loads((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()[-1])
    return row


@pytest.mark.parametrize(
    ("settings", "failures", "retries", "dropped"),
    [
        (["env.fault=reward-nan", "env.times=2"], 2, 2, 0),
        (["env.fault=text-none", "env.where=reset", "env.times=1"], 1, 1, 0),
        (["env.fault=raises-setting", "env.times=1"], 1, 1, 0),
        # Copies that list the tasks: their failures are no episode's.
        (["env.fault=exit", "env.where=made", "env.times=2"], 2, 0, 0),
        (["env.fault=numbers", "env.where=tasks", "env.times=1"], 1, 0, 0),
        (["env.fault=reward-text", "env.on=fetch-2", "env.attempts=1", "rollout.group_size=1"], 1, 0, 1),
    ],
)
def test_what_goes_wrong_is_counted(
    tmp_path: Path, settings: list[str], failures: int, retries: int, dropped: int
) -> None:
    row = wrong(tmp_path, *settings)
    assert row["environment_failures"] == failures
    assert row["episode_retries"] == retries
    assert row["dropped_groups"] == dropped


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (["env.fault=reward-none"], "tests.envs.wrong_env:Wrong failed on task 'fetch-"),
        (
            ["env.fault=raises", "env.where=made"],
            "tests.envs.wrong_env:Wrong did not list the tasks of 'train'",
        ),
        (
            [
                "env.fault=hang",
                "env.where=tasks",
                "env.execution=process",
                "env.step_timeout=1",
                "env.attempts=1",
            ],
            "no answer within 30 s",
        ),
        (["env.fault=dict", "env.where=tasks"], "expected a list of texts"),
    ],
)
def test_a_run_ends_in_a_sentence_when_nothing_can_be_played(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], settings: list[str], said: str
) -> None:
    words = [*WRONG, f"model={warm(tmp_path)}", "env.attempts=2", *settings]
    assert main(["train", FETCH, *words, "--run", str(tmp_path / "run"), "--quiet"]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert "Traceback" not in error


def test_an_expert_that_is_lost_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [*WRONG, "warm.episodes=4", "env.fault=score-nan"]
    assert main(["train", FETCH, *words, "--run", str(tmp_path / "run"), "--quiet"]) == 2
    assert "All 4 episodes of the expert were lost" in capsys.readouterr().err
