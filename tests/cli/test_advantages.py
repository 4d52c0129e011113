"""The command line of `hgpo advantages`, as a person would type it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from hgpo import StepBatch, estimate
from tests.steps.test_batch import rows_of


def hgpo(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "hgpo", *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.fixture
def steps(tmp_path: Path) -> Path:
    file = tmp_path / "steps.jsonl"
    StepBatch.from_rows(rows_of(80)).write(file)
    return file


@pytest.mark.parametrize("name", ["out.jsonl", "out.parquet"])
def test_rows_come_back_with_their_advantages(steps: Path, name: str) -> None:
    out = steps.with_name(name)
    done = hgpo("advantages", steps, "--estimator", "hgpo", "--depth", "1", "--mode", "mean_norm", "-o", out)
    assert done.returncode == 0, done.stderr
    expected = estimate(StepBatch.read(steps), "hgpo", depth=1, mode="mean_norm")
    again = StepBatch.read(out)
    assert again["advantage"].tolist() == expected.advantages.tolist()
    assert again["return"].tolist() == expected.returns.tolist()
    assert again["level_1"].tolist() == expected.levels[1].tolist()
    assert again["tokens"].tolist() == StepBatch.read(steps)["tokens"].tolist()
    assert "level 1:" in done.stdout


def test_metrics_as_json(steps: Path) -> None:
    expected = estimate(StepBatch.read(steps), "gigpo").metrics
    assert json.loads(hgpo("advantages", steps, "--estimator", "gigpo", "--json").stdout) == expected
    assert json.loads(hgpo("advantages", "--json", steps, "--estimator", "gigpo").stdout) == expected
    file = steps.with_name("metrics.json")
    assert hgpo("advantages", steps, "--estimator", "gigpo", "--json", file).returncode == 0
    assert json.loads(file.read_text()) == expected


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--estimator", "hgop"], "Did you mean 'hgpo'"),
        (["--depth", "-1"], "depth=-1"),
        (["--depth", "two"], "depth='two'"),
        (["--dpeth", "2"], "Did you mean --depth"),
        (["--estimator", "grpo", "--depth", "2"], "Unknown setting"),
        (["--columns", "task"], "expected pairs"),
        (["--columns", "task=uid"], "'task'"),
        (["-o", "out.csv"], "unknown ending"),
    ],
)
def test_mistakes_get_one_sentence_and_leave_nothing(steps: Path, words: list[str], expected: str) -> None:
    out = [] if "-o" in words else ["-o", steps.with_name("out.jsonl")]
    done = hgpo("advantages", steps, *words, *out)
    assert done.returncode == 2
    assert expected in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert [path.name for path in steps.parent.iterdir()] == [steps.name]


def test_a_truncated_file_leaves_no_output(steps: Path) -> None:
    steps.write_bytes(steps.read_bytes()[:-20])
    done = hgpo("advantages", steps, "-o", steps.with_name("out.parquet"))
    assert done.returncode == 2
    assert "truncated" in done.stderr
    assert not steps.with_name("out.parquet").exists()


def test_help_and_version() -> None:
    assert "advantages" in hgpo("--help").stdout
    assert hgpo("--version").stdout.startswith("hgpo 0.")
    assert hgpo().returncode == 0
    assert "--length-weight-alpha" in hgpo("advantages", "--help").stdout
