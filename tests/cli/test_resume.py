"""`--resume` does what was asked, or refuses and leaves everything as it is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hgpo.cli import main
from hgpo.runs import load, train

from ..worlds import FETCH, WORLD


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "first"
    train(load(FETCH, ["iterations=1"]), folder, quiet=True)
    return folder


def files(run: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--resume", "RUN/../frist"], "Did you mean 'RUN/../first'"),
        (["--run", "RUN/../frist", "--resume"], "Unknown run"),
        (["iterations=2", "--run", "RUN/../frist", "--resume"], "Unknown run"),
        (["quickstart", "--resume", "RUN/../frist"], "Unknown run"),
        (["--resume", "RUN", "--run", "RUN/../second"], "name two folders"),
        (["--run", "RUN", "--resume", "quickstart"], "name two folders"),
        (["--run", "RUN", "--resume", "update.lr=0.5"], "'update.lr=0.5' cannot be changed"),
        (["--resume"], "needs the folder of the run"),
        (["quickstart", "--resume", "RUN"], "is not the run in RUN"),
        ([FETCH, "update.lr=0.5", "--resume", "RUN"], "'update.lr=0.5' cannot be changed"),
        (["update.lr=0.5", "--resume", "RUN"], "'update.lr=0.5' cannot be changed"),
    ],
)
def test_what_cannot_be_done_is_refused(
    words: list[str], expected: str, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = files(run)
    assert (
        main(["train", *(word.replace("RUN", str(run)) for word in words), "--quiet", "--allow-env", WORLD])
        == 2
    )
    assert expected.replace("RUN", str(run)) in capsys.readouterr().err
    assert files(run) == before
    assert [path.name for path in run.parent.iterdir()] == ["first"], "nothing was begun"


def test_settings_that_the_run_has_and_the_preset_has_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    train(load(FETCH, ["iterations=1", "seed=3"]), run, quiet=True)
    assert main(["train", FETCH, "iterations=2", "--run", str(run), "--resume", "--quiet"]) == 2
    assert "seed is 0, and 3 there" in capsys.readouterr().err
    assert main(["train", FETCH, "seed=3", "iterations=2", "--run", str(run), "--resume", "--quiet"]) == 0
    assert json.loads((run / "results.json").read_text())["iterations"] == 2


def test_one_command_begins_and_goes_on(tmp_path: Path) -> None:
    command = ["train", FETCH, "iterations=1", "--run", str(tmp_path / "run"), "--resume", "--quiet"]
    assert main(command) == 0
    before = (tmp_path / "run" / "metrics.jsonl").read_text()
    assert main(command) == 0
    assert (tmp_path / "run" / "metrics.jsonl").read_text() == before
    assert (
        main(["train", "--run", str(tmp_path / "run"), "--quiet", "--resume", "iterations=2", f"env={WORLD}"])
        == 0
    )
    assert json.loads((tmp_path / "run" / "results.json").read_text())["iterations"] == 2


def test_a_lost_configuration_is_named(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "run" / "checkpoints").mkdir(parents=True)
    assert main(["train", "--resume", str(tmp_path / "run"), "--quiet"]) == 2
    assert "config.json is missing" in capsys.readouterr().err
