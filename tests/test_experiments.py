"""The recorded studies still make the tables that the documentation shows."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("matplotlib")

from hgpo.training import load
from hgpo.training.settings import as_dict

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


def record(path: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((ROOT / "experiments" / path).read_text())
    return found


def percent(evaluation: dict[str, Any]) -> str:
    return f"{100 * evaluation['success']:.1f}"


def late(run: dict[str, Any]) -> str:
    """Success on the training games over the last five iterations."""
    last = [row["success"] for row in run["curve"][-5:]]
    return f"{100 * sum(last) / len(last):.1f}"


def test_the_commands_of_the_readme_made_the_recorded_run_again() -> None:
    """Two machines: every measure of every iteration is the same but those of time."""
    again = record("alfworld/readme.json")
    once = next(run for run in record("alfworld/k4.json")["runs"] if run["run"] == "k4-hgpo_lambda-seed1")
    assert len(once["curve"]) == 21
    for one, other in zip(once["curve"], again["curve"], strict=True):
        keys = {key for key in {*one, *other} if "second" not in key}
        assert "iteration" in keys
        assert {key: one.get(key) for key in keys} == {key: other.get(key) for key in keys}
    readme, page = (ROOT / "README.md").read_text(), (ROOT / "docs" / "gpu.md").read_text()
    for command in again["commands"][:3]:
        assert command in readme
    for command in again["commands"]:
        assert command in page.replace("hgpo sft  ", "hgpo sft ")
    for digest in again["sha256"].values():
        assert digest[:16] in page
    start = record("alfworld/k4.json")["warm"]["warm-k4"]["evaluations"]
    for panel, found in again["evaluations"].items():
        low, high = (100 * bound for bound in found["success_interval_95"])
        assert f"| {percent(found)}% | {low:.1f} to {high:.1f} | {percent(start[panel])}% |" in page
    assert f"gives {percent(again['evaluations']['in-domain, temperature 1.0'])}%" in readme


def test_the_runs_with_k_4_are_shown_as_recorded() -> None:
    page = (ROOT / "docs" / "alfworld.md").read_text()
    study = record("alfworld/k4.json")
    panels = ("in-domain, temperature 1.0", "out-of-domain, temperature 1.0", "in-domain, temperature 0.4")
    start = study["warm"]["warm-k4"]["evaluations"]
    assert f"| warm start | {' | '.join(percent(start[panel]) for panel in panels)} | |" in page
    by_name: dict[str, list[dict[str, Any]]] = {}
    for run in study["runs"]:
        by_name.setdefault(run["estimator"], []).append(run)
    for name, runs in by_name.items():
        ends = ", ".join(late(run) for run in sorted(runs, key=lambda run: run["seed"]))
        cells = " | ".join(
            percent(runs[0]["evaluations"][panel]) for panel in panels if runs[0]["evaluations"]
        )
        assert (f"| {cells} | {ends} |" if name == "hgpo_lambda" else f"| | | | {ends} |") in page


def test_the_larger_model_is_shown_as_recorded_and_has_a_preset() -> None:
    page = (ROOT / "docs" / "alfworld.md").read_text()
    study = record("alfworld/qwen.json")
    run = study["runs"][0]
    for source, words in ((study["warm"]["warm-k2"], "after cloning"), (run, "after 13 iterations")):
        found = source["evaluations"]["in-domain, temperature 1.0"]
        low, high = (100 * bound for bound in found["success_interval_95"])
        assert f"| {words} | {percent(found)} | {low:.1f} to {high:.1f} | {found['steps']:.1f} |" in page
    words = ["model=warm", "env.data=games_compact.jsonl.xz", "warm.episodes=0", "eval.every=0"]
    ours = as_dict(load("alfworld-qwen2.5-coder-1.5b-lora", words))
    for section in ("agent", "env", "estimator", "model", "update"):
        assert ours[section] == run["config"][section]
    for key in ("tasks", "group_size", "temperature", "batch_tokens"):
        assert ours["rollout"][key] == run["config"]["rollout"][key]
    assert (ours["seed"], ours["eval"]["max_steps"]) == (run["config"]["seed"], 50)


def test_the_webshop_page_shows_what_the_records_say() -> None:
    page = (ROOT / "docs" / "webshop.md").read_text()
    study = record("webshop/results.json")
    for source in (study["warm"]["warm-k2"], *study["runs"]):
        found = source["evaluations"]["in-domain, temperature 1.0"]
        low, high = (100 * bound for bound in found["success_interval_95"])
        cells = (
            f"| {percent(found)} | {low:.1f} to {high:.1f} | {found['score']:.3f} | {found['steps']:.1f} |"
        )
        assert (f"{cells} {late(source)} |" if "curve" in source else f"{cells} |") in page


def test_the_speed_of_an_iteration_is_shown_as_recorded() -> None:
    page = (ROOT / "docs" / "gpu.md").read_text()
    for row in record("alfworld/speed.json")["curve"]:
        play, generating, update = (row[f"seconds/{name}"] for name in ("rollout", "generate", "update"))
        times = f"{play:.1f} | {generating:.1f} | {play / generating:.2f} | {update:.1f}"
        assert f"| {row['steps']:,.0f} | {times} | {round(row['train/tokens_per_second'], -3):,.0f} |" in page


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
