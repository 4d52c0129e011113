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


def test_columns_of_an_earlier_estimate_are_kept(steps: Path) -> None:
    first, second = steps.with_name("first.jsonl"), steps.with_name("second.parquet")
    assert hgpo("advantages", steps, "--depth", "2", "-o", first).returncode == 0
    assert hgpo("advantages", first, "--depth", "1", "--gamma", "0.5", "-o", second).returncode == 0
    before, after = StepBatch.read(first), StepBatch.read(second)
    for name in ("advantage", "return", "level_0", "level_1", "level_2"):
        assert after[f"original_{name}"].tolist() == before[name].tolist()
    assert "level_2" not in after
    again = hgpo("advantages", second, "-o", steps.with_name("third.jsonl"))
    assert again.returncode == 2
    assert "'original_advantage', which the steps have already" in again.stderr


def test_iterations_of_one_file_are_estimated_apart(steps: Path) -> None:
    rows = [json.loads(line) for line in steps.read_text().splitlines()]
    for row in rows:
        row.pop("hgpo_schema_version", None)
    both = steps.with_name("both.jsonl")
    both.write_text("".join(json.dumps({**row, "iteration": i}) + "\n" for i in (1, 2) for row in rows))
    out = steps.with_name("out.jsonl")
    done = hgpo("advantages", both, "-o", out)
    assert done.returncode == 0, done.stderr
    assert "of 2 iterations, each by itself" in done.stdout
    alone = estimate(StepBatch.read(steps), "hgpo").advantages.tolist()
    assert StepBatch.read(out)["advantage"].tolist() == alone * 2
