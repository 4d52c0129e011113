"""The recorded studies still make the tables that the documentation shows."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("matplotlib")

ROOT = Path(__file__).resolve().parents[1]


def run(script: str, *words: str | Path) -> str:
    path = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, str(ROOT / "experiments" / script), *map(str, words)],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return done.stdout


def rows(text: str) -> list[str]:
    """The lines of tables that name an estimator or the warm start."""
    return [line for line in text.splitlines() if line.startswith(("| HGPO", "| GRPO", "| GiGPO", "| warm"))]


def test_the_alfworld_page_shows_what_the_records_say(tmp_path: Path) -> None:
    printed = run("alfworld/plot.py", "--picture", tmp_path / "study.png")
    shown = (ROOT / "docs" / "alfworld.md").read_text()
    tables = [line for line in rows(printed) if "1:" not in line]  # seed by seed: in the picture
    assert len(tables) == 11
    for line in tables:
        assert line in shown
    assert (tmp_path / "study.png").stat().st_size > 10_000


def test_the_results_page_shows_what_the_records_say(tmp_path: Path) -> None:
    printed = run("quickstart/plot.py", "--picture", tmp_path / "quickstart.png")
    shown = (ROOT / "docs" / "results.md").read_text()
    assert rows(printed)
    for line in rows(printed):
        assert line in shown


def test_runs_that_never_began_are_left_out(tmp_path: Path) -> None:
    """A run that failed before its first iteration leaves settings and no curve."""
    study = json.loads((ROOT / "experiments" / "alfworld" / "results.json").read_text())
    whole = rows(run("alfworld/plot.py", "--picture", tmp_path / "a.png"))
    study["runs"].append({**study["runs"][0], "history_length": 4, "curve": [], "evaluations": {}})
    (tmp_path / "more.json").write_text(json.dumps(study))
    assert rows(run("alfworld/plot.py", tmp_path / "more.json", "--picture", tmp_path / "b.png")) == whole


def test_a_failed_command_has_a_second_attempt(tmp_path: Path) -> None:
    """The study trains on a card it shares; a run that failed goes on from its checkpoint."""
    log = tmp_path / "log.txt"
    words = [
        "-c",
        f"import commands, pathlib; print(commands.hgpo(['no-such-verb'], pathlib.Path({str(log)!r}), 2))",
    ]
    done = subprocess.run(
        [sys.executable, *words],
        cwd=ROOT / "experiments",
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert done.stdout.splitlines()[-1] == "2"
    assert log.read_text().count("$ hgpo no-such-verb") == 2
