"""A run that is stopped anywhere and resumed ends with the very weights of one that never stopped."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from hgpo.cli import main
from hgpo.errors import BadFile, BadSetting
from hgpo.runs import load, train
from hgpo.runs.folder import RunFolder
from hgpo.runs.stopping import Stop

from ..conftest import ROOT
from ..worlds import FETCH, WORLD

SETTINGS = ["update.kl_coef=0.02", "lr=1e-3"]


def weights(run: Path, name: str = "000003") -> dict[str, torch.Tensor]:
    return load_file(run / "checkpoints" / name / "trainer.safetensors")


def assert_equal(one: dict[str, torch.Tensor], two: dict[str, torch.Tensor]) -> None:
    assert one.keys() == two.keys()
    for name in one:
        assert torch.equal(one[name], two[name]), name


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of three iterations without interruption."""
    run = tmp_path_factory.mktemp("whole") / "run"
    train(load(FETCH, SETTINGS), run, quiet=True)
    return run


def test_a_run_leaves_what_it_promises(whole: Path) -> None:
    names = {path.name for path in whole.iterdir()}
    expected = {
        "config.json",
        "metrics.jsonl",
        "rollouts",
        "checkpoints",
        "model",
        "results.json",
        "curves.png",
    }
    assert expected <= names
    rows = [json.loads(line) for line in (whole / "metrics.jsonl").read_text().splitlines()]
    assert [row["iteration"] for row in rows] == [0, 1, 2, 3]
    for row in rows[1:]:
        assert {
            "success",
            "return",
            "seconds",
            "seconds/rollout",
            "loss/policy",
            "grad_norm",
            "kl_old",
        } <= row.keys()
        assert row["dropped_groups"] == 0
    assert "eval/in-domain/success" in rows[0]
    assert "eval/in-domain/success" in rows[3]
    config = json.loads((whole / "config.json").read_text())
    assert config["panels"]["in-domain"]["digest"]
    assert config["versions"]["torch"]
    assert not list(whole.rglob("*.pt"))
    assert not list(whole.rglob("*.bin"))
    assert not list(whole.rglob("*.pkl"))


def test_the_model_folder_opens_with_transformers(whole: Path) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(whole / "model")
    tokenizer = AutoTokenizer.from_pretrained(whole / "model")
    assert tokenizer.decode(tokenizer.encode("take left")) == "take left"
    trained = weights(whole)
    for name, parameter in model.named_parameters():
        assert torch.equal(parameter, trained[f"weight/{name}"])


def test_rollouts_are_in_the_schema_of_the_estimators(whole: Path) -> None:
    from hgpo import StepBatch, estimate

    batch = StepBatch.read(whole / "rollouts" / "000001.parquet")
    assert np.ptp(batch["advantage"]) > 0, "there is something to compare"
    settings = json.loads((whole / "config.json").read_text())["estimator"]
    again = estimate(batch, settings.pop("name"), **settings).advantages
    assert again.tolist() == pytest.approx(batch["advantage"].tolist(), abs=1e-12)


def test_resuming_from_every_checkpoint_gives_the_same_weights(whole: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    train(load(FETCH, [*SETTINGS, "iterations=1"]), run, quiet=True)
    train(load(FETCH, [*SETTINGS, "iterations=2"]), run, quiet=True, resume=True)
    train(load(FETCH, SETTINGS), run, quiet=True, resume=True)
    assert_equal(weights(whole), weights(run))
    ours, theirs = (
        [json.loads(line) for line in (one / "metrics.jsonl").read_text().splitlines()]
        for one in (run, whole)
    )
    assert [row["success"] for row in ours] == [row["success"] for row in theirs]


def test_another_seed_gives_other_weights(whole: Path, tmp_path: Path) -> None:
    train(load(FETCH, [*SETTINGS, "seed=1"]), tmp_path / "run", quiet=True)
    one, two = weights(whole), weights(tmp_path / "run")
    shared = [name for name in one if name.startswith("weight/") and one[name].shape == two[name].shape]
    assert any(not torch.equal(one[name], two[name]) for name in shared)


def test_time_limit_stops_and_can_be_resumed(whole: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    result = train(load(FETCH, SETTINGS), run, quiet=True, max_minutes=0.0)
    assert result["ended"] == "out of time"
    assert result["iterations"] == 0
    assert train(None, run, quiet=True, resume=True, allow_env=WORLD)["ended"] == "finished"
    assert_equal(weights(whole), weights(run))


def test_the_same_command_again_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Slices of a run are started by one command; it may say what the run is, not make it another."""
    words = [
        "train",
        str(FETCH),
        *SETTINGS,
        "eval.every=0",
        "update.lr=1e-3",
        "--run",
        str(tmp_path / "run"),
        "--quiet",
    ]
    assert main([*words, "--max-minutes", "0"]) == 0
    assert main([*words, "--resume", "iterations=1"]) == 0
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    assert (results["ended"], results["iterations"]) == ("finished", 1)
    assert main([*words, "--resume", "iterations=2", "update.lr=1e-4"]) == 2
    assert "'update.lr=1e-4' cannot be changed on resuming" in capsys.readouterr().err


def test_an_existing_run_is_not_overwritten(whole: Path, tmp_path: Path) -> None:
    with pytest.raises(BadSetting, match="already holds a run"):
        train(load(FETCH, SETTINGS), whole, quiet=True)
    with pytest.raises(BadFile, match="no run to resume"):
        train(None, tmp_path / "nothing", quiet=True, resume=True)


def test_a_damaged_checkpoint_says_so(whole: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    train(load(FETCH, [*SETTINGS, "iterations=1"]), run, quiet=True)
    broken = RunFolder(run).checkpoints()[-1].weights
    broken.write_bytes(broken.read_bytes()[:-100])
    with pytest.raises(BadFile, match="damaged"):
        train(None, run, quiet=True, resume=True, allow_env=WORLD)


def command(run: Path, *words: str) -> list[str]:
    return [sys.executable, "-m", "hgpo", "train", *words, "--run", str(run)]


ENVIRONMENT = {
    **os.environ,
    "OMP_NUM_THREADS": "1",
    "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")]),
}


def test_interrupt_saves_and_stops(whole: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    process = subprocess.Popen(
        command(run, FETCH, *SETTINGS, "iterations=500", "save_every=1000"),
        env=ENVIRONMENT,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 120
    metrics = run / "metrics.jsonl"
    while not (metrics.is_file() and metrics.read_text().count("\n") >= 3):
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "continue with: hgpo train --resume" in said
    last = RunFolder(run).checkpoints()[-1].iteration
    assert last == json.loads(metrics.read_text().splitlines()[-1])["iteration"] >= 2


def test_second_interrupt_does_not_wait() -> None:
    with Stop() as stop:
        signal.raise_signal(signal.SIGINT)
        assert stop.requested
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def lines(run: Path) -> int:
    path = run / "metrics.jsonl"
    return path.read_text().count("\n") if path.is_file() else 0


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_killed_at_random_moments(tmp_path: Path) -> None:
    """kill -9 twenty times at random moments; the finished run equals one that was never touched."""
    settings = [*SETTINGS, "iterations=40", "save_every=1", "rollout.keep_every=3", "keep=2", "eval.every=7"]
    whole, run = tmp_path / "whole", tmp_path / "run"
    start = time.monotonic()
    process = subprocess.Popen(command(whole, FETCH, *settings, "--quiet"), env=ENVIRONMENT)
    while not lines(whole):
        time.sleep(0.02)
    start_up = time.monotonic() - start
    assert process.wait() == 0
    pace = (time.monotonic() - start - start_up) / 40
    draw = random.Random(20)
    for _ in range(20):
        words = ("--resume", "--allow-env", WORLD) if (run / "config.json").is_file() else (FETCH, *settings)
        before = lines(run)
        process = subprocess.Popen(command(run, *words, "--quiet"), env=ENVIRONMENT)
        new = draw.choice([0, 1, 1, 2])
        if new == 0:
            # Imports, warm start, first evaluation, loading a checkpoint; never so late that the run could end.
            moment = time.monotonic() + draw.uniform(0, start_up)
            while time.monotonic() < moment and lines(run) < before + 1:
                time.sleep(0.005)
        else:
            # Somewhere in or right after an iteration: play, update, evaluation, checkpoint, files.
            while lines(run) < before + new and process.poll() is None:
                time.sleep(0.005)
            time.sleep(draw.uniform(0, pace))
        assert process.poll() is None, "the run must not end before it is killed"
        process.kill()
        process.wait()
    done = lines(run)
    assert 0 < done < 40
    subprocess.run(command(run, "--resume", "--allow-env", WORLD, "--quiet"), env=ENVIRONMENT, check=True)
    assert_equal(weights(whole, "000040"), weights(run, "000040"))
    ours, theirs = (
        [json.loads(line) for line in (one / "metrics.jsonl").read_text().splitlines()]
        for one in (run, whole)
    )
    assert [row["success"] for row in ours] == [row["success"] for row in theirs]
    assert not list(run.rglob(".hgpo-partial-*"))


def test_without_pyarrow_and_matplotlib(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from hgpo import StepBatch

    for name in ("pyarrow", "pyarrow.parquet", "matplotlib", "matplotlib.figure"):
        monkeypatch.setitem(sys.modules, name, None)
    run = tmp_path / "run"
    train(load(FETCH, [*SETTINGS, "iterations=1"]), run, quiet=True)
    assert len(StepBatch.read(run / "rollouts" / "000001.jsonl.gz")) > 0
    assert (run / "results.json").is_file()
    assert not (run / "curves.png").exists()
