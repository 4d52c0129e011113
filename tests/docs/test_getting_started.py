"""Getting started, followed word for word in an empty folder; only the trainings are shortened."""

from __future__ import annotations

from pathlib import Path

import pytest

from hgpo.cli import main

from .commands import commands
from .pages import ROOT

SHORT = [
    "iterations=2",
    "warm.episodes=20",
    "warm.epochs=1",
    "eval.tasks=4",
    "eval.every=1",
    "rollout.tasks=2",
]


@pytest.mark.slow
def test_every_command_works_after_those_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "docs").symlink_to(ROOT / "docs")
    monkeypatch.chdir(tmp_path)
    done = []
    for command in commands(ROOT / "docs" / "getting-started.md"):
        words = list(command.words[1:])
        if not command.whole or command.program != "hgpo":
            continue
        if words[0] == "train" and "--resume" not in words:
            words += SHORT
        assert main(words) == 0, f"{command.place}: {command}\n{capsys.readouterr().err}"
        done.append(words[0])
    assert done == ["train", "train", "eval", "inspect", "train", "compare", "env", "env", "train"]
    assert (tmp_path / "report.html").stat().st_size > 100_000
    assert (tmp_path / "runs" / "quickstart" / "model").is_dir()
    assert list((tmp_path / "comparison").glob("*.html"))
