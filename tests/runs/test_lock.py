"""One process at a time trains into a folder, and a start that fails leaves nothing in the way of the next."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hgpo.cli import main
from hgpo.errors import FolderBusy
from hgpo.runs import load, train
from hgpo.runs.folder import RunFolder
from hgpo.runs.lock import LOCK, hold

from ..conftest import ROOT
from ..worlds import FETCH, WORLD

HOLD = """
import pathlib, sys, time
from hgpo.runs.lock import hold
with hold(pathlib.Path(sys.argv[1])):
    time.sleep(600)
"""


def holder(folder: Path) -> subprocess.Popen[bytes]:
    """Another process that holds the lock."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(folder)], env=environment)
    deadline = time.monotonic() + 60
    while not ((folder / LOCK).is_file() and (folder / LOCK).stat().st_size):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return process


@pytest.mark.parametrize("words", [[FETCH, "--run"], ["--resume"], [FETCH, "--resume", "--run"]])
def test_a_second_process_is_told_who_trains_here(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    if words[-1] == "--resume":
        train(load(FETCH, ["iterations=1"]), run, quiet=True)
    other = holder(run)
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    try:
        assert main(["train", *words, str(run), "--allow-env", WORLD]) == 2
    finally:
        other.kill()
        other.wait()
    said = capsys.readouterr().err
    assert f"Another process trains into {run}: process {other.pid} on " in said
    assert ", since 2" in said
    assert before == {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}


def test_the_lock_ends_with_its_process(tmp_path: Path) -> None:
    other = holder(tmp_path / "run")
    with pytest.raises(FolderBusy), hold(tmp_path / "run"):
        pass
    other.send_signal(signal.SIGKILL)
    other.wait()
    with hold(tmp_path / "run"):
        with pytest.raises(FolderBusy, match=f"process {os.getpid()} "), hold(tmp_path / "run"):
            pass
        assert (tmp_path / "run" / LOCK).exists(), "who was refused leaves the lock alone"
    assert not (tmp_path / "run" / LOCK).exists()


def test_readers_are_not_kept_out(tmp_path: Path) -> None:
    from hgpo.runs import evaluate
    from hgpo.runs.compare import compare

    train(load(FETCH, ["iterations=1"]), tmp_path / "run", quiet=True)
    with hold(tmp_path / "run"):
        assert (
            evaluate(
                str(tmp_path / "run"), seeds=(1,), tasks=2, logs=str(tmp_path / "logs"), allow_env=WORLD
            )["episodes"]
            == 2
        )
        assert compare([str(tmp_path / "run")])["groups"]


@pytest.mark.parametrize("wrong", ["warm.episodes=0", "env.split=no-such", "env.settings.tasks=0"])
def test_a_failed_start_leaves_nothing(wrong: str, tmp_path: Path) -> None:
    run = tmp_path / "deep" / "run"
    assert main(["train", FETCH, wrong, "--run", str(run), "--quiet"]) == 2
    assert list(tmp_path.iterdir()) == []
    assert main(["train", FETCH, "iterations=1", "--run", str(run), "--quiet"]) == 0


def test_a_failed_start_removes_only_what_it_made(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    assert main(["train", FETCH, "warm.episodes=0", "--run", str(tmp_path), "--quiet"]) == 2
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_a_failure_after_the_start_keeps_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("broken")

    with monkeypatch.context() as patch:
        patch.setattr("hgpo.runs.training.roll_out", fail)
        with pytest.raises(RuntimeError, match="broken"):
            train(load(FETCH, ["iterations=1"]), tmp_path, quiet=True)
    assert RunFolder(tmp_path).checkpoints()[-1].iteration == 0
    assert train(None, tmp_path, resume=True, quiet=True, allow_env=WORLD)["ended"] == "finished"
