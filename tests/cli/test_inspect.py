"""The command line of `hgpo inspect`, as a person would type it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hgpo import StepBatch, estimate
from tests.cli.test_advantages import hgpo
from tests.inspect.rollouts import house


@pytest.fixture
def rollouts(tmp_path: Path) -> Path:
    file = tmp_path / "rollouts.parquet"
    StepBatch.from_rows(house()).write(file)
    return file


def test_summary_page_and_numbers(rollouts: Path) -> None:
    page, numbers = rollouts.with_name("out.html"), rollouts.with_name("out.json")
    done = hgpo(
        "inspect",
        rollouts,
        "--html",
        page,
        "--json",
        numbers,
        "--estimator",
        "hgpo,gigpo,grpo",
        "--depth",
        "1",
    )
    assert done.returncode == 0, done.stderr
    assert "mixed_histories" in done.stdout
    assert "  level    groups" in done.stdout
    content = json.loads(numbers.read_text())
    assert {"summary", "levels", "estimators", "findings"} <= content.keys()
    assert list(content["estimators"]) == ["hgpo", "gigpo", "grpo"]
    assert len(content["levels"]) == 2
    for found in content["findings"]:
        assert {"name", "number", "sentence", "suggestion"} <= found.keys()
        assert found["sentence"].endswith(".")
        assert found["suggestion"]
        assert isinstance(found["number"], float)
    expected = estimate(StepBatch.read(rollouts), "hgpo", depth=1).advantages
    assert sorted(content["steps"]["advantages"]["hgpo"]) == sorted(expected.tolist())
    html = page.read_text()
    assert html.startswith("<!doctype html>")
    assert "http-equiv" in html
    assert "src=" not in html
    assert "//cdn" not in html
    assert sorted(p.name for p in rollouts.parent.iterdir()) == ["out.html", "out.json", "rollouts.parquet"]


def test_json_to_the_terminal(rollouts: Path) -> None:
    one = json.loads(hgpo("inspect", rollouts, "--json").stdout)
    assert json.loads(hgpo("inspect", "--json", rollouts).stdout) == one


def test_a_column_map(rollouts: Path) -> None:
    theirs = rollouts.with_name("theirs.jsonl")
    rows = [{("seen" if k == "observation" else k): v for k, v in row.items()} for row in house()]
    theirs.write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = hgpo("inspect", theirs, "--columns", "seen=observation", "--json")
    assert (
        json.loads(done.stdout)["summary"]
        == json.loads(hgpo("inspect", rollouts, "--json").stdout)["summary"]
    )


@pytest.mark.parametrize(
    "words",
    [["--compare", "gigpo"], ["--compare", "hgpo", "gigpo"], ["--estimator", "grpo", "--compare", "rloo"]],
)
def test_two_estimators(rollouts: Path, words: list[str]) -> None:
    done = hgpo("inspect", rollouts, *words, "--json")
    compare = json.loads(done.stdout)["compare"]
    assert compare["kind"] == "estimators"
    assert (compare["first"], compare["second"]) == (
        ("grpo", "rloo") if "rloo" in words else ("hgpo", "gigpo")
    )
    assert "disagree on the sign" in hgpo("inspect", rollouts, *words).stdout


def test_two_runs_in_either_form(rollouts: Path) -> None:
    other = rollouts.with_name("other.jsonl")
    StepBatch.from_rows(house(seed=5)).write(other)
    one = json.loads(hgpo("inspect", rollouts, "--compare", other, "--json").stdout)["compare"]
    two = json.loads(hgpo("inspect", "--json", "-", "--compare", rollouts, other).stdout)["compare"]
    assert one == two
    assert (one["first"], one["second"]) == ("rollouts.parquet", "other.jsonl")
    same = json.loads(hgpo("inspect", rollouts, "--compare", rollouts, "--json").stdout)["compare"]
    assert all(row["difference"] == 0 for row in same["numbers"])


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--estimator", "hgop"], "Did you mean 'hgpo'"),
        (["--estimator", ","], "No estimator was given"),
        (["--depth", "-1"], "depth=-1"),
        (["--columns", "task"], "expected pairs"),
        (["--columns", "obs=observation"], "maps 'obs'"),
        (["--columns", "task=uid"], "'task'"),
        (["--compare", "nowhere"], "There is no file or folder nowhere"),
        (["--compare", "a", "b", "c"], "--compare was given"),
        (["--html", "nowhere/out.html"], "Cannot write"),
        (["--estimator", "grpo", "--depht", "2"], "Did you mean --depth"),
    ],
)
def test_mistakes_get_one_sentence_and_leave_nothing(rollouts: Path, words: list[str], expected: str) -> None:
    done = hgpo("inspect", rollouts, *words)
    assert done.returncode == 2
    assert expected in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert [path.name for path in rollouts.parent.iterdir()] == [rollouts.name]


@pytest.mark.parametrize("form", ["jsonl", "jsonl.gz", "parquet"])
def test_a_truncated_file(tmp_path: Path, form: str) -> None:
    file = tmp_path / f"cut.{form}"
    StepBatch.from_rows(house()).write(file)
    file.write_bytes(file.read_bytes()[:-30])
    done = hgpo("inspect", file, "--html", tmp_path / "out.html")
    assert done.returncode == 2
    assert len(done.stderr.strip().splitlines()) == 1
    assert any(word in done.stderr for word in ("truncated", "cut short"))
    assert not (tmp_path / "out.html").exists()


def test_empty_runs(tmp_path: Path) -> None:
    (tmp_path / "run" / "rollouts").mkdir(parents=True)
    (tmp_path / "empty.jsonl").touch()
    (tmp_path / "blank.jsonl").write_text("\n\n")
    for path in (tmp_path / "run", tmp_path / "empty.jsonl", tmp_path / "blank.jsonl"):
        done = hgpo("inspect", path)
        assert done.returncode == 2
        assert len(done.stderr.strip().splitlines()) == 1
        assert "holds no rollouts" in done.stderr or "empty" in done.stderr
    assert "No rollouts were given" in hgpo("inspect").stderr


def test_a_message_that_quotes_a_hostile_file_stays_one_plain_line(tmp_path: Path) -> None:
    file = tmp_path / "bad.jsonl"
    file.write_text(json.dumps({"\x1b[2J\u202e\n" + "x" * 100_000: 1}) + "\n")
    done = hgpo("inspect", file)
    assert done.returncode == 2
    assert done.stderr.rstrip("\n").isprintable()
    assert len(done.stderr) < 3000
    assert "'task'" in done.stderr
    assert (
        done.stderr.endswith("(the command line takes --columns theirs=ours).\n")
        or "add what is missing" in done.stderr
    )
