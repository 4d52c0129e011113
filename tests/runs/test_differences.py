"""Differences between settings, and what `hgpo compare` says about them."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hgpo.errors import BadFile, BadSetting
from hgpo.runs.compare import compare, table_text
from hgpo.runs.curves import write_html
from hgpo.runs.differences import differences
from hgpo.runs.folder import RunFolder, RunPolicies
from hgpo.runs.statistics import over_runs


def write_run(folder: Path, name: str, seed: Any, success: list[Any]) -> str:
    """What `compare` reads of a run."""
    folder.mkdir(parents=True)
    stored = {
        "name": name,
        "config": {"seed": seed, "estimator": name},
        "panels": {"in-domain": {"digest": "0123456789abcdef"}},
    }
    (folder / "config.json").write_text(json.dumps(stored))
    rows = [{"iteration": number, "eval/in-domain/success": value} for number, value in enumerate(success)]
    (folder / "metrics.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return str(folder)


def test_pairs_are_compared_over_the_seeds_they_share() -> None:
    found = differences({"a": {1: 0.1, 2: 0.2}, "b": {2: 0.5, 3: 0.9}, "c": {}, "d": {4: 0.3}})
    (only,) = found
    assert (only.one, only.other, only.seeds) == ("a", "b", 1)
    assert only.mean == pytest.approx(0.3)
    assert math.isnan(only.own)
    assert not only.clear
    assert only.points() == "+30.0"
    assert differences({}) == []


def test_a_lucky_pair_is_not_enough() -> None:
    """Two settings may happen to differ by the same in all seeds while the others scatter."""
    readings = {
        "a": {1: 0.50, 2: 0.40, 3: 0.60},
        "b": {1: 0.53, 2: 0.43, 3: 0.63},
        "c": {1: 0.7, 2: 0.3, 3: 0.4},
    }
    pair = differences(readings)[0]
    assert pair.own == pytest.approx(0.0, abs=1e-12)
    assert pair.common > pair.mean
    assert not pair.clear
    assert differences({name: readings[name] for name in "ab"})[0].clear


def test_own_interval_is_that_of_paired_seeds() -> None:
    random = np.random.default_rng(2)
    readings = {name: dict(enumerate(random.random(5).tolist())) for name in "abc"}
    for pair in differences(readings):
        gaps = [readings[pair.other][seed] - readings[pair.one][seed] for seed in range(5)]
        expected = over_runs(gaps)
        assert (pair.mean, pair.mean + pair.own) == pytest.approx((expected["mean"], expected["high"]))


def test_compare_says_which_differences_are_beyond_the_noise(tmp_path: Path) -> None:
    runs = [
        write_run(tmp_path / f"{name}{seed}", name, seed, [0.2, base + 0.01 * seed])
        for name, base in (("grpo", 0.3), ("<b>hgpo", 0.5))
        for seed in (1, 2, 3)
    ]
    found = compare(runs)
    (pair,) = found["differences"]
    assert pair["seeds"] == 3
    assert pair["mean"] == pytest.approx(0.2)
    assert pair["clear"]
    assert "<b>hgpo - grpo: +20.0" in table_text(found)
    assert "beyond the noise" in table_text(found)
    write_html(found, tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "&lt;b&gt;hgpo - grpo" in page
    assert "<b>" not in page
    single = compare([runs[0], runs[3]])
    assert json.loads(json.dumps(single, allow_nan=False))["differences"][0]["own"] is None
    assert table_text(single).endswith("one seed")


def test_a_run_given_twice_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = write_run(tmp_path / "runs" / "one", "hgpo", 1, [0.2, 0.4])
    write_run(tmp_path / "runs" / "copy", "hgpo", 1, [0.2, 0.4])
    (tmp_path / "link").symlink_to(first)
    monkeypatch.chdir(tmp_path)
    for again in (first, f"{first}/", "runs/one", "runs/../runs/one", "./link", str(tmp_path / "link")):
        with pytest.raises(BadSetting, match="are the same run; expected each once"):
            compare([first, again])
    with pytest.raises(BadSetting, match=r"the same settings and the same seed \(1\)"):
        compare([first, "runs/copy"])


def test_runs_that_ended_apart_are_read_at_the_same_iteration(tmp_path: Path) -> None:
    runs = [
        write_run(tmp_path / "a1", "grpo", 1, [0.1, 0.2, 0.3, 0.9]),
        write_run(tmp_path / "a2", "grpo", 2, [0.2, 0.3, 0.4]),
        write_run(tmp_path / "b1", "hgpo", 1, [0.1, 0.5, 0.6]),
    ]
    found = compare(runs)
    assert found["iteration"] == 2
    grpo, hgpo = found["groups"]
    assert grpo["last"]["mean"] == pytest.approx(0.35)  # not (0.9 + 0.4) / 2
    assert grpo["area"]["mean"] == pytest.approx(0.25)
    assert (grpo["ended"], hgpo["ended"]) == ([3, 2], [2])
    assert found["differences"][0]["mean"] == pytest.approx(0.3)
    said = f"last: iteration 2, the last at which all were evaluated; further went {runs[0]} to 3"
    assert table_text(found).startswith(said + "\n")
    write_html(found, tmp_path / "page.html")
    assert said in (tmp_path / "page.html").read_text()
    assert table_text(compare(runs[1:])).startswith("last: iteration 2\n")


def test_runs_without_a_common_iteration_are_refused(tmp_path: Path) -> None:
    runs = [write_run(tmp_path / name, name, 1, [0.1]) for name in ("a", "b")]
    lines = '{"iteration": 0}\n{"iteration": 1, "eval/in-domain/success": 0.2}\n'
    (tmp_path / "b" / "metrics.jsonl").write_text(lines)
    with pytest.raises(BadSetting, match="no evaluation of the same iteration: "):
        compare(runs)


@pytest.mark.parametrize("value", ["0.5", float("nan"), 5.0, -0.1, True, [0.5]])
def test_a_success_that_is_no_share_is_refused(tmp_path: Path, value: Any) -> None:
    run = write_run(tmp_path / "run", "hgpo", 1, [0.1, value])
    with pytest.raises(BadFile, match=r"eval/in-domain/success = .* after iteration 1; expected a share"):
        compare([run])
    with pytest.raises(BadFile, match="expected a share"):
        RunPolicies(RunFolder(tmp_path / "run")).best_iteration()


@pytest.mark.parametrize("seed", ["x", None, -1, 1.5])
def test_a_seed_that_is_none_is_refused(tmp_path: Path, seed: Any) -> None:
    run = write_run(tmp_path / "run", "hgpo", seed, [0.1, 0.2])
    with pytest.raises(BadSetting, match=r"config.json: seed="):
        compare([run])


@pytest.mark.parametrize("iteration", [1.5, "1", True, None])
def test_an_iteration_is_a_whole_number(tmp_path: Path, iteration: Any) -> None:
    run = write_run(tmp_path / "run", "hgpo", 1, [0.1, 0.2, 0.3])
    lines = [{"iteration": number, "eval/in-domain/success": 0.1} for number in (0, iteration, 2)]
    (tmp_path / "run" / "metrics.jsonl").write_text("\n".join(map(json.dumps, lines)))
    with pytest.raises(BadFile, match="line 2 is not the metrics of an iteration"):
        compare([run])


def test_seeds_of_one_setting_stay_together_when_one_went_on(tmp_path: Path) -> None:
    runs = [write_run(tmp_path / name, "hgpo", seed, [0.1, 0.2]) for name, seed in (("a", 1), ("b", 2))]
    stored = json.loads((tmp_path / "b" / "config.json").read_text())
    stored["config"] |= {"iterations": 500, "keep": 3}
    (tmp_path / "b" / "config.json").write_text(json.dumps(stored))
    (group,) = compare(runs)["groups"]
    assert group["runs"] == runs
    for name in "ab":
        stored = json.loads((tmp_path / name / "config.json").read_text())
        stored["config"]["update"] = {"schedule": "linear"}
        (tmp_path / name / "config.json").write_text(json.dumps(stored))
    assert len(compare(runs)["groups"]) == 2


def test_every_setting_of_a_large_comparison_is_in_its_page(tmp_path: Path) -> None:
    runs = [write_run(tmp_path / f"run{number}", f"setting{number}", 1, [0.1, 0.2]) for number in range(80)]
    write_html(compare(runs), tmp_path / "page.html")
    assert all(f">setting{number}<" in (tmp_path / "page.html").read_text() for number in range(80))
