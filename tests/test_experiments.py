"""The recorded studies still make the tables that the documentation shows."""

from __future__ import annotations

import argparse
import json
import os
import re
import runpy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("matplotlib")

from hgpo.config import as_dict, load, resolved_estimator
from hgpo.config.schema import Config
from hgpo.estimators.table import ESTIMATORS
from hgpo.runs import train
from hgpo.runs.statistics import over_runs
from hgpo.settings import build

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


def recorded_estimator(config: dict[str, Any]) -> Any:
    """The estimator's settings of a recorded run, whose penalty stood in the section `update` (it is taken out)."""
    estimator = config["estimator"]
    given = {
        "depth": config["agent"]["history_length"],
        "gamma": estimator["gamma"],
        "invalid_penalty": config["update"].pop("invalid_penalty"),
        **estimator["settings"],
    }
    return build(ESTIMATORS[estimator["name"]].settings, given, "the recorded estimator")


def joined(page: str) -> str:
    """A page whose commands stand on one line each."""
    return re.sub(r" \\\n +", " ", (ROOT / page).read_text(encoding="utf-8"))


def percent(evaluation: dict[str, Any]) -> str:
    return f"{100 * evaluation['success']:.1f}"


def late(run: dict[str, Any]) -> str:
    """Success on the training games over the last five iterations."""
    last = [row["success"] for row in run["curve"][-5:]]
    return f"{100 * sum(last) / len(last):.1f}"


def untimed(row: dict[str, Any]) -> dict[str, Any]:
    """What a seed decides: everything but times, and what depends on the size of the panel."""
    return {key: value for key, value in row.items() if "second" not in key and not key.startswith("eval/")}


def test_a_run_made_again_is_the_same_but_for_its_times() -> None:
    """A study's run and one by hand of an earlier version; a run of the present one and its beginning elsewhere."""
    again = record("alfworld/readme.json")
    once = next(run for run in record("alfworld/k4.json")["runs"] if run["run"] == "k4-hgpo_lambda-seed1")
    assert len(once["curve"]) == 21
    assert once["evaluations"] == again["evaluations"]
    for one, other in zip(once["curve"], again["curve"], strict=True):
        assert untimed(one) == untimed(other)
    packed = record("alfworld/packed.json")
    assert packed["again"]["warm_sha256"] == packed["sha256"]["models/warm/model.safetensors"]
    assert len(packed["curve"]) == 21
    beginning = packed["again"]["curve"][1:]
    assert len(beginning) == 6
    for one, other in zip(packed["curve"][1:7], beginning, strict=True):
        assert untimed(one) == untimed(other)
        assert len(untimed(one)) > 10


def test_the_gpu_page_shows_the_run_that_its_commands_made() -> None:
    packed, page = record("alfworld/packed.json"), joined("docs/gpu.md")
    for command in packed["commands"]:
        # The games have a place of their own since, where every command finds them.
        assert command.replace(" env.data=games_compact.jsonl.xz", "") in page
    for digest in packed["sha256"].values():
        assert digest[:16] in page
    for panel, found in packed["evaluations"].items():
        split, warmth = panel.split(", temperature ")
        name = f"{found['panel']['tasks']} {split} games, temperature {float(warmth):g}"
        low, high = (100 * bound for bound in found["success_interval_95"])
        assert f"| {name} | {percent(found)}% | {low:.1f} to {high:.1f} |" in page
    seen = [row["eval/in-domain/success"] for row in packed["curve"] if "eval/in-domain/success" in row]
    start, middle, end = (f"{100 * value:.1f}%" for value in seen)
    assert f"{start} before, {middle} after ten iterations, {end} after twenty" in " ".join(page.split())


def test_the_gpu_page_shows_what_vllm_and_whole_iterations_took() -> None:
    page = " ".join(joined("docs/gpu.md").split())
    ours, theirs = record("alfworld/packed.json")["curve"][1:18], record("alfworld/vllm.json")["curve"][1:]
    means = [100 * sum(row["success"] for row in rows) / len(rows) for rows in (theirs, ours)]
    assert "{:.1f}% on average with vLLM and {:.1f}% with the decoder".format(*means) in page
    gaps = [
        [row["engine/logprob_gap"] for row in rows]
        for rows in (theirs, record("alfworld/packed.json")["curve"][1:])
    ]
    low, high, least, most = (round(value, 3) for found in gaps for value in (min(found), max(found)))
    assert f"was {low} to {high} a token (the decoder's: {least} to {most})" in page
    lines = (ROOT / "experiments" / "gpu" / "iteration.jsonl").read_text().splitlines()
    for shape, label in (("smollm2-135m", "SmolLM2-135M"), ("qwen2.5-1.5b", "Qwen2.5-1.5B")):
        rows = [row for row in map(json.loads, lines) if row["shape"] == shape and not row["warm_up"]]
        cells = [
            f"{min(values):.1f} to {max(values):.1f}"
            for values in ([row[key] for row in rows] for key in ("seconds", "play", "generating", "update"))
        ]
        assert f"| {' | '.join(cells)} |" in page, label


def test_the_gpu_page_shows_what_real_iterations_took() -> None:
    """After the first iteration, which records the decoder's steps."""
    page = " ".join((ROOT / "docs" / "gpu.md").read_text().split())
    runs = record("gpu/runs.json")["runs"]
    for run in runs:
        cells = [
            f"{min(found):,.0f} to {max(found):,.0f}"
            for found in [[row["steps"] for row in run["curve"][1:]]]
        ]
        for key in ("", "/rollout", "/generate", "/update"):
            found = [row[f"seconds{key}"] for row in run["curve"][1:]]
            cells.append(f"{min(found):.1f} to {max(found):.1f}")
        assert f"| {' | '.join(cells)} |" in page, run["name"]
    compact, first = (
        round(100 * sum(row["success"] for row in run["curve"]) / len(run["curve"])) for run in runs[:2]
    )
    assert f"({first}% on average with it, {compact}% without)" in page
    alone, shared = runs[1]["curve"][1:4], runs[1]["curve"][4:]
    low, high = (pick(row["seconds"] for row in alone) for pick in (min, max))
    late = " and ".join(f"{row['seconds']:.1f}" for row in shared)
    assert f"({late} s; {low:.1f} to {high:.1f} before)" in page


def test_the_verl_page_shows_the_iterations_on_a_gpu() -> None:
    whole = (ROOT / "docs" / "verl.md").read_text()
    page = whole.partition("### Six iterations on an H200")[2].partition("\n## ")[0]
    study = record("alfworld/verl.json")
    rows, local = study["curve"], {row["iteration"]: row for row in study["local_curve"]}
    assert [row["iteration"] for row in rows] == [*range(7)]
    for row in rows[1:]:
        beside = local[row["iteration"]]
        phases = ("", "/rollout", "/logprobs", "/estimate", "/update", "/weights")
        cells = [
            f"{row['iteration']}",
            *(f"{100 * one['success']:.1f}%" for one in (row, beside)),
            f"{row['engine/logprob_gap']:.3f}",
            *(f"{row[f'seconds{phase}']:.1f}" for phase in phases),
            f"{beside['seconds'] - beside.get('seconds/eval', 0.0):.1f}",
        ]
        assert f"| {' | '.join(cells)} |" in page
    pasted = re.sub(r" \\\n +", " ", page)
    assert all(f"\n{command}\n" in pasted for command in study["commands"])
    text = " ".join(page.split())
    for package, said in (("verl", "verl"), ("vllm", "vLLM"), ("ray", "Ray"), ("torch", "torch")):
        assert f"{said} {study['versions'][package]}" in text
    # What the page says of the first update: it changed nothing.
    assert [row["iteration"] for row in rows[1:] if row["ppo_kl"] == 0] == [1]


def test_the_verl_page_shows_start_checks_and_evaluations_as_recorded() -> None:
    text = " ".join((ROOT / "docs" / "verl.md").read_text().partition("### Six iterations")[2].split())
    study = record("alfworld/verl.json")
    launch, resume = study["seconds_until"]["launch"], study["seconds_until"]["resume"]
    for phase in ("Ray and verl are up", "workers, model and rollout servers are up"):
        assert f"| {phase} | {launch[phase]} | {resume[phase]} |" in text
    assert f"| 32 games are evaluated | {launch['32 games are evaluated']} | |" in text
    first = launch["iteration 1 is over"], resume["iteration 6 is over"]
    assert "| the first iteration is over | {} | {} |".format(*first) in text
    over = launch["the command is over"], resume["the command is over"]
    assert "| the command is over | {} (five iterations) | {} (one) |".format(*over) in text
    steps, largest = study["advantages"]["steps"], study["advantages"]["largest_difference"]
    assert steps == sum(row.get("steps", 0) for row in study["curve"])
    assert f"all {steps:,} trained steps" in text
    assert f"at most {largest:.1e}".replace("e-0", "e-") in text
    memory = study["memory_gb"]
    assert f"estimated at {memory['estimated']} GB; torch held {memory['reserved']} GB" in text
    assert study["processes_left"] == 0
    by = {row["iteration"]: row for row in study["curve"]}
    assert f"after iteration 5 took {by[5]['seconds/save']:.1f} s" in text
    assert f"Its {by[6]['seconds']:.1f} s are those of fresh processes" in text
    for name, said in (("verl", "verl"), ("hgpo train", "`hgpo train`")):
        found = study["evaluations"][name]
        low, high = (f"{100 * end:.1f}%" for end in found["success_interval_95"])
        assert f"| {said}, iteration 6 | {100 * found['success']:.1f}% | {low} to {high} |" in text
        assert (found["tasks"], found["episodes"], found["temperature"]) == (140, 420, 1.0)
    small = [
        [f"{100 * row[key]:.1f}%" for row in study[curve] if (key := "eval/in-domain/success") in row]
        for curve in ("curve", "local_curve")
    ]
    assert "{}, {} and {} before training and after iterations 5 and 6 under verl".format(*small[0]) in text
    assert "{} and {} before and after under `hgpo train`".format(*small[1]) in text
    lasts = [group["last"] for group in study["comparison"]["groups"].values()]
    assert (
        f"at iteration {study['comparison']['iteration']}: {100 * (lasts[1] - lasts[0]):+.1f} points" in text
    )


def test_the_runs_with_k_4_are_shown_as_recorded() -> None:
    page = (ROOT / "docs" / "alfworld.md").read_text()
    study = record("alfworld/k4.json")
    panels = ("in-domain, temperature 1.0", "out-of-domain, temperature 1.0", "in-domain, temperature 0.4")
    start = study["warm"]["warm-k4"]["evaluations"]
    assert f"| warm start | {' | '.join(percent(start[panel]) for panel in panels)} | |" in page
    named = {
        "grpo": "GRPO, seeds 1, 2",
        "gigpo": "GiGPO, seeds 1, 2",
        "hgpo": "HGPO, published settings, seed 1",
        "hgpo_lambda": "HGPO-lambda, seed 1",
    }
    for name, shown in named.items():
        runs = sorted((run for run in study["runs"] if run["estimator"] == name), key=lambda run: run["seed"])
        assert [run["seed"] for run in runs] == ([1, 2] if "seeds" in shown else [1])
        cells = [percent(runs[0]["evaluations"][panel]) for panel in panels if runs[0]["evaluations"]]
        start_of_line = f"| {shown} | {' | '.join(cells)} |" if cells else f"| {shown} | | | |"
        assert f"{start_of_line} {', '.join(map(late, runs))} |" in page


def test_the_larger_model_is_shown_as_recorded_and_has_a_preset() -> None:
    page = (ROOT / "docs" / "alfworld.md").read_text()
    study = record("alfworld/qwen.json")
    run = study["runs"][0]
    for source, words in ((study["warm"]["warm-k2"], "after cloning"), (run, "after 13 iterations")):
        found = source["evaluations"]["in-domain, temperature 1.0"]
        low, high = (100 * bound for bound in found["success_interval_95"])
        assert f"| {words} | {percent(found)} | {low:.1f} to {high:.1f} | {found['steps']:.1f} |" in page
    words = ["model=warm", "env.data=games_compact.jsonl.xz", "warm.episodes=0", "eval.every=0"]
    config = load("alfworld-qwen2.5-coder-1.5b-lora", words)
    ours = as_dict(config)
    assert config.estimator.name == run["config"]["estimator"]["name"] == "hgpo_lambda"
    assert resolved_estimator(config) == recorded_estimator(run["config"])
    # Settings that did not exist when the run was recorded have their defaults. It ran with checkpointing, which takes
    # less memory and gives the same.
    assert run["config"]["model"].pop("gradient_checkpointing")
    defaults = as_dict(Config())
    for section in ("agent", "env", "model", "update"):
        before = {**defaults[section], **run["config"][section]}
        before.pop("invalid_penalty", None)
        assert ours[section] == {
            **before,
            **({"gradient_checkpointing": False} if section == "model" else {}),
        }
    for key in ("tasks", "group_size", "temperature", "batch_tokens"):
        assert ours["rollout"][key] == run["config"]["rollout"][key]
    assert ours["seed"] == run["config"]["seed"]
    assert ours["eval"]["max_steps"] == run["config"]["eval"]["max_steps"] == 50
    assert ours["deterministic"] == run["config"]["deterministic"]
    words = ["model=qwen", "env.data=games_compact.jsonl.xz", "agent.max_steps=50"]
    ours, cloned = (
        as_dict(load("alfworld-qwen2.5-coder-1.5b-lora", words)),
        study["warm"]["warm-k2"]["config"],
    )
    for section in ("agent", "env", "warm"):
        assert ours[section] == {**defaults[section], **cloned[section]}
    assert ours["update"]["micro_tokens"] == cloned["update"]["micro_tokens"]
    page = " ".join((ROOT / "docs" / "gpu.md").read_text().split())
    panel = "in-domain, temperature 1.0"
    start, end = (percent(one["evaluations"][panel]) for one in (study["warm"]["warm-k2"], run))
    assert f"a 1.5B model from {start}% to {end}%" in page


@pytest.mark.parametrize(
    ("name", "starts", "last"),
    [
        ("fair.json", (8, 20, 50), (20, 15)),
        ("punished.json", (30,), (30, 111)),
        ("cloned.json", (200,), (200, 30)),
    ],
)
def test_the_cloned_starts_on_the_page_are_those_of_the_record(
    name: str, starts: tuple[int, ...], last: tuple[int, int]
) -> None:
    study, page = record(f"alfworld/{name}"), (ROOT / "docs" / "alfworld.md").read_text()
    run, (episodes, iterations) = study["runs"][0], last
    measured = {f"{n} episodes": study["warm"][f"warm-k4-{n}"]["evaluations"] for n in starts}
    measured[f"{episodes} episodes, then {iterations} iterations"] = run["evaluations"]
    assert run["curve"][-1]["iteration"] == iterations
    for row, evaluations in measured.items():
        cells = []
        for split in ("in-domain", "out-of-domain"):
            result = evaluations.get(f"{split}, temperature 0.4")
            if result is None:
                cells += ["", ""]
                continue
            low, high = result["success_interval_95"]
            cells += [f"{100 * result['success']:.1f}", f"{100 * low:.1f} to {100 * high:.1f}"]
        line = f"| {row} | " + " | ".join(cells) + " |"
        assert line.replace("|  |", "| |").replace("|  |", "| |") in page, line
    if name == "cloned.json":
        readme = " ".join((ROOT / "README.md").read_text().split())
        for split, games in (
            ("in-domain", "ALFWorld's in-domain games"),
            ("out-of-domain", "the unseen ones"),
        ):
            start, end = (percent(measured[row][f"{split}, temperature 0.4"]) for row in measured)
            assert f"from {start}% to {end}% of {games}" in readme


def test_the_page_says_what_stopped_the_punished_run() -> None:
    study = record("alfworld/punished.json")
    run, page = study["runs"][0], " ".join((ROOT / "docs" / "alfworld.md").read_text().split())
    rows = {row["iteration"]: row for row in run["curve"]}
    assert "from {:.2f} to {:.2f} within nine".format(*(rows[n]["entropy"] for n in (1, 9))) in page
    assert "from {:.2f} to {:.2f}.".format(*(rows[n]["action_disagreement"] for n in (1, 9))) in page
    shares = (rows[n]["estimator/advantage/penalty_share"] for n in (1, 2))
    assert "`estimator/advantage/penalty_share` {:.2f} and {:.2f}".format(*shares) in page
    held = [f"{100 * rows[n]['eval/validation/success']:.1f}%" for n in (0, 50, 100)]
    assert "from {} to {} (iteration 50) and {} (iteration 100)".format(*held) in page
    start, end = study["warm"]["warm-k4-30"]["evaluations"], run["evaluations"]
    panel = "in-domain, temperature 0.4"
    (before, after) = (one[panel]["unsolved"] for one in (start, end))
    assert (
        f"Of the {sum(after.values())} in-domain episodes that failed in the end, {after['circles']}" in page
    )
    assert f"these were {before['circles']} of {sum(before.values())}" in page
    for split, games in (("in-domain", 16), ("out-of-domain", 23)):
        for one in (start, end):
            kind = one[f"{split}, temperature 0.4"]["success_by_type"]["pick_heat_then_place_in_recep"]
            assert (kind["success"], kind["tasks"]) == (0, games)
    lamp = end["out-of-domain, temperature 0.4"]["success_by_type"]["look_at_obj_in_light"]["success"]
    assert f"under a lamp {100 * lamp:.1f}%" in page
    minutes = sum(row["seconds"] for row in run["curve"]) / 60
    assert f"iterations in {minutes:.0f} minutes" in page


def test_the_webshop_page_shows_what_the_records_say() -> None:
    page = (ROOT / "docs" / "webshop.md").read_text()
    study = record("webshop/results.json")
    names = ("warm start", "GRPO", "HGPO, published settings", "HGPO-lambda")
    for name, source in zip(names, (study["warm"]["warm-k2"], *study["runs"]), strict=True):
        found = source["evaluations"]["in-domain, temperature 1.0"]
        low, high = (100 * bound for bound in found["success_interval_95"])
        cells = f"{percent(found)} | {low:.1f} to {high:.1f} | {found['score']:.3f} | {found['steps']:.1f}"
        last = f" {late(source)} " if "curve" in source else " "
        assert f"| {name} | {cells} |{last}|" in page


def lines(path: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (ROOT / "experiments" / path).read_text().splitlines()]


def test_the_speed_on_a_gpu_is_shown_as_recorded() -> None:
    """Every measured line stands in a table of the page."""
    page = joined("docs/gpu.md").replace("**", "")
    for one in lines("gpu/train.jsonl"):
        rates = (round(one[name], -3) for name in ("tokens_per_second", "computed_tokens_per_second"))
        cells = " | ".join(f"{rate:,.0f}" for rate in rates)
        memory = f"{one['peak_memory_gib']:.0f} GiB"
        assert f"| {cells} | {one['share_of_limit']:.0%} | {memory} |" in page, one
    for one in lines("gpu/rollout.jsonl"):
        name = {"qwen2.5-1.5b": "Qwen2.5-1.5B", "smollm2-135m": "SmolLM2-135M"}[one["shape"]]
        mean, _, most = one["replies"].partition(":")
        size = f"{mean} on average, {most} at most" if most else mean
        engine = one["engine"] + (", no seeds" if one["seeds"] == "none" else "")
        shown = f"| {name} shape, {size} | {engine} | {one['seconds_a_batch']:.2f} | "
        assert f"{shown}{one['new_tokens_per_second']:,.0f} | {one['seconds_over_limit']:.1f} |" in page, one
    seconds = [row["seconds"] for row in record("alfworld/speed.json")["curve"]]
    assert f"took {min(seconds):.1f} to {max(seconds):.1f} s before all this" in " ".join(page.split())


def at_the_end(run: dict[str, Any]) -> float:
    return float(run["evaluated"][-1][1])


def halfway(run: dict[str, Any]) -> float:
    assert [number for number, _ in run["evaluated"]] == [0, 20, 40]
    return float(run["evaluated"][1][1])


def curve_mean(run: dict[str, Any]) -> float:
    start, middle, end = (value for _, value in run["evaluated"])
    return float(start + 2 * middle + end) / 4


def while_training(run: dict[str, Any]) -> float:
    return float(sum(run["played"]) / len(run["played"]) if "played" in run else run["played_mean"])


def late_in_training(run: dict[str, Any]) -> float:
    return float(sum(run["played"][-10:]) / 10 if "played" in run else run["played_last"])


def test_the_pages_say_what_other_roots_the_cut_and_the_values_did_in_learning() -> None:
    runs = record("quickstart/values.json")["runs"]
    study = {(run["arm"], run["seed"]): run for run in runs}
    assert len(study) == len(runs) == 25
    whole = {run["name"]: run for run in record("quickstart/results.json")["runs"]}
    assert all(whole[run["name"]] == run for run in runs if run["arm"] == "hgpo_lambda")

    def values(arm: str, measure: Callable[[dict[str, Any]], float]) -> list[float]:
        return [100 * measure(study[arm, seed]) for seed in range(11, 16)]

    def ahead(arm: str, measure: Callable[[dict[str, Any]], float] = at_the_end) -> list[str]:
        found = over_runs(
            [one - other for one, other in zip(values(arm, measure), values("hgpo_lambda", measure))]
        )
        return [f"{found[name]:.1f}" for name in ("mean", "low", "high")]

    page = " ".join((ROOT / "docs" / "hgpo-lambda.md").read_text().split())
    for arm, words in (
        ("value head as root", "the head ends {} points below `hgpo_lambda` ({} to {})"),
        ("task mean as root", "the task's mean {} below ({} to {})"),
    ):
        mean, low, high = (number.lstrip("-") for number in ahead(arm))
        assert words.format(mean, high, low) in page
    mean, low, high = ahead("time_limit=cut")
    said = " ".join((ROOT / "docs" / "results.md").read_text().split())
    assert f"+{mean} points ({low} to +{high})" in said
    arm = "value_lam=0.9, prior=0.5"
    mean, low, high = ahead(arm)
    ours, theirs = (sum(values(name, at_the_end)) / 5 for name in (arm, "hgpo_lambda"))
    end = f"+{mean} points ({low} to +{high}), within the noise"
    assert f"{ours:.1f}% of the held-out tasks against {theirs:.1f}%: {end}" in page
    assert f"ends at {ours:.1f}%: {end}" in said
    assert float(low) < 0 < float(high)
    for measure, words in (
        (halfway, "+{} at iteration 20 (+{} to +{})"),
        (curve_mean, "+{} in the mean of the held-out curve (+{} to +{})"),
        (while_training, "+{} in success while training (+{} to +{})"),
        (late_in_training, "+{} over its last ten iterations (+{} to +{})"),
    ):
        found = ahead(arm, measure)
        assert float(found[1]) > 0
        assert words.format(*found) in page
    assert "held-out curve it is ahead by {} ({} to {})".format(*ahead(arm, curve_mean)) in said
    assert "last ten iterations of training by {} ({} to {})".format(*ahead(arm, late_in_training)) in said
    for seed in range(11, 16):
        settings = " ".join(study[arm, seed]["settings"][1:])
        assert f"hgpo train quickstart {settings}\n" in (ROOT / "docs" / "hgpo-lambda.md").read_text()
        assert f"HGPO-lambda with `{settings}`" in said


def test_the_pages_say_what_the_values_did_when_both_arms_were_made_again() -> None:
    study = {(run["arm"], run["seed"]): run for run in record("quickstart/values-again.json")["runs"]}
    once = {(run["arm"], run["seed"]): run for run in record("quickstart/values.json")["runs"]}
    seeds = range(11, 16)
    assert set(study) == {
        (arm, seed) for arm in ("hgpo_lambda", "value_lam=0.9, prior=0.5") for seed in seeds
    }
    for key, run in study.items():
        assert run["settings"] == once[key]["settings"]
        assert run["evaluated"][0] == once[key]["evaluated"][0], "the same warm start"

    def ahead(measure: Callable[[dict[str, Any]], float], sign: str) -> list[str]:
        arms = ("value_lam=0.9, prior=0.5", "hgpo_lambda")
        ours, theirs = ([100 * measure(study[arm, seed]) for seed in seeds] for arm in arms)
        found = over_runs([one - other for one, other in zip(ours, theirs)])
        return [f"{found[name]:{sign}.1f}" for name in ("mean", "low", "high")]

    page = " ".join((ROOT / "docs" / "hgpo-lambda.md").read_text().split())
    again = page.partition("Both arms made again")[2]
    for measure, words in (
        (at_the_end, "{} at the end ({} to {})"),
        (halfway, "{} at iteration 20 ({} to {})"),
        (curve_mean, "{} in the mean of the held-out curve ({} to {})"),
        (while_training, "{} in success while training ({} to {})"),
        (late_in_training, "{} over its last ten iterations ({} to {})"),
    ):
        assert words.format(*ahead(measure, "+")) in again
    said = " ".join((ROOT / "docs" / "results.md").read_text().split()).partition("Both arms made again")[2]
    for measure, words in (
        (at_the_end, "at the end {} ({} to {})"),
        (curve_mean, "over the curve {} ({} to {})"),
        (late_in_training, "over the last ten iterations {} ({} to {})"),
    ):
        assert words.format(*ahead(measure, "")) in said
    alike = [
        [one == other for one, other in zip(study[key]["played"], once[key]["played"])].index(False)
        for key in (("hgpo_lambda", seed) for seed in seeds)
    ]
    assert f"part from the recorded ones after {min(alike)} to {max(alike)} iterations" in said


def test_the_results_page_says_what_it_did_to_be_told_the_state(tmp_path: Path) -> None:
    file = ROOT / "experiments" / "quickstart" / "states.json"
    printed = run("quickstart/plot.py", file, "--picture", tmp_path / "states.png")
    page = (ROOT / "docs" / "results.md").read_text()
    section = page[page.index("**Told which state it is.**") : page.index("**The penalty for invalid")]
    told = [line for line in section.splitlines() if line.startswith("| ") and "---" not in line]
    assert len(told) == 14
    assert not set(told) - set(printed.splitlines())

    study = {(run["arm"], run["seed"]): run for run in record("quickstart/states.json")["runs"]}
    seeds = range(11, 16)

    def ahead(one: str, other: str, measure: Callable[[dict[str, Any]], float]) -> list[str]:
        gaps = [100 * (measure(study[one, seed]) - measure(study[other, seed])) for seed in seeds]
        found = over_runs(gaps)
        return [f"{found[name]:.1f}" for name in ("mean", "low", "high")]

    words, ours, theirs = " ".join(section.split()), "hgpo_lambda_states", "g2po_states"
    for sentence, found in (
        ("it ends {} points higher ({} to {})", ahead(ours, "hgpo_lambda", at_the_end)),
        ("and {} ({} to {}) with the `prior=1", ahead(f"{ours}_prior", "hgpo_lambda", at_the_end)),
        ("is better by {} ({} to {}) in the last ten", ahead(theirs, "g2po", late_in_training)),
        ("ahead of G2PO over the curve by {} ({} to {})", ahead(ours, theirs, curve_mean)),
    ):
        assert float(found[1]) > 0  # beyond the noise
        assert sentence.format(*found) in words
    derived = " ".join((ROOT / "docs" / "hgpo-lambda.md").read_text().split())
    assert (
        "ends {} points higher for being told ({} to {})".format(*ahead(ours, "hgpo_lambda", at_the_end))
        in derived
    )
    both = ahead(f"{ours}_prior", "hgpo_lambda", at_the_end)
    assert "{} with the two settings ({} to {})".format(*both) in derived
    for one, other in ((theirs, "g2po"), (ours, theirs), (f"{ours}_prior", theirs)):  # within it
        assert float(ahead(one, other, at_the_end)[1]) < 0
    for measure in (curve_mean, late_in_training):  # "in every column"
        assert float(ahead(ours, "hgpo_lambda", measure)[1]) > 0


def test_a_study_is_printed_though_the_curves_of_training_were_not_kept(tmp_path: Path) -> None:
    picture = tmp_path / "values.png"
    printed = run(
        "quickstart/plot.py", ROOT / "experiments" / "quickstart" / "values.json", "--picture", picture
    )
    name, cells = "value_lam=0.9, prior=0.5", " 0.0003 | 5 | 27.3 | 69.7 | 81.0 ± 4.2 |"
    assert f"| {name} |{cells}" in printed
    assert f"| HGPO-lambda - {name} | -4.7 ± 5.0 | -4.5 ± 2.7 | -3.2 ± 2.9 |" in printed
    assert picture.stat().st_size > 10_000


def test_the_results_page_shows_what_the_records_say(tmp_path: Path) -> None:
    printed = run("quickstart/plot.py", "--picture", tmp_path / "quickstart.png")
    shown = (ROOT / "docs" / "results.md").read_text()
    assert rows(printed)
    for line in rows(printed):
        assert line in shown


def sweep_run(arm: str, rate: float, seed: int, played: list[float]) -> dict[str, Any]:
    curve = [[0, 0.2], [2, played[-1]]]
    return {
        "name": f"sweep-{arm}-lr{rate:g}-seed{seed}",
        "phase": "sweep",
        "arm": arm,
        "seed": seed,
        "rate": rate,
        "played": played,
        "evaluated": curve,
    }


def test_a_rate_is_chosen_by_the_end_of_training_and_shown(tmp_path: Path) -> None:
    """Over both sweep seeds, the smaller of two that are equal; what the final runs or other arms did has no say."""
    study = runpy.run_path(str(ROOT / "experiments" / "quickstart" / "run.py"))
    ends = {
        ("grpo", 1e-4): [0.3, 0.5], ("grpo", 3e-4): [0.4, 0.4], ("grpo", 1e-3): [0.9, 0.0],
        ("hgpo", 1e-4): [0.2, 0.2], ("hgpo", 3e-4): [0.2, 0.2], ("hgpo", 1e-3): [0.1, 0.1],
    }  # fmt: skip
    runs = [
        sweep_run(arm, rate, 20 + seed, [0.9] * 5 + [value] * 10)
        for (arm, rate), values in ends.items()
        for seed, value in enumerate(values)
    ]
    finals = [
        {**run, "phase": "final", "name": f"final-{i}", "rate": 3e-4, "played": [1.0] * 15}
        for i, run in enumerate(runs)
        if run["rate"] == 3e-4
    ]
    known = {run["name"]: run for run in runs + finals}
    chosen = study["choose"](known, {"grpo": (), "hgpo": ()}, [1e-3, 1e-4, 3e-4])
    assert chosen == {"grpo": 1e-3, "hgpo": 1e-4}
    record = {"rates": chosen, "runs": [*runs, *finals]}
    (tmp_path / "study.json").write_text(json.dumps(record))
    printed = run("quickstart/plot.py", tmp_path / "study.json", "--picture", tmp_path / "study.png")
    assert "| GRPO | 40.0% | 40.0% | **45.0%** |" in printed
    assert "| HGPO, published settings | **20.0%** | 20.0% | 10.0% |" in printed
    assert "| HGPO, published settings - GRPO | -20.0 ± 0.0 |" in printed


def test_a_study_keeps_and_shows_other_panels_and_how_open_the_policy_is(tmp_path: Path) -> None:
    script = runpy.run_path(str(ROOT / "experiments" / "quickstart" / "run.py"))
    panels = ["eval.splits=in-domain,out-of-domain", "eval.every=1", "eval.tasks=2"]
    short = ["warm.episodes=20", "rollout.tasks=2", "iterations=2"]
    train(load("quickstart", [*panels, *short]), tmp_path / "run", quiet=True)
    job = script["Job"]("final", "some", 11, None, ())
    found = script["reading"](job, tmp_path / "run", "in-domain")
    rows = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert found["others"] == {
        "out-of-domain": [[row["iteration"], row["eval/out-of-domain/success"]] for row in rows]
    }
    assert found["entropy"] == [round(row["entropy"], 4) for row in rows[1:]]

    ends = {"some": (0.5, 0.7), "other": (0.2, 0.4)}
    runs = [
        {
            **found,
            "arm": arm,
            "seed": seed,
            "others": {"out-of-domain": [[0, 0.1], [2, end]]},
            "entropy": [0.8, 0.2],
        }
        for arm, pair in ends.items()
        for seed, end in zip((11, 12), pair)
    ]
    study = {"preset": "quickstart", "settings": [], "rule": "", "rates": {}, "runs": runs}
    (tmp_path / "study.json").write_text(json.dumps(study))
    printed = run("quickstart/plot.py", tmp_path / "study.json", "--picture", tmp_path / "curves.png")
    assert "| some | 60.0 ± 127.1 | 0.80 | 0.50 |" in printed
    assert "| other | 30.0 ± 127.1 | 0.80 | 0.50 |" in printed


def test_arms_of_a_study_differ_by_their_settings_and_share_its_warm_start(tmp_path: Path) -> None:
    """What is said of the warm start does not warm the runs up again."""
    script = runpy.run_path(str(ROOT / "experiments" / "alfworld" / "run.py"))
    asked = argparse.Namespace(
        preset="alfworld-1.5b", settings=["warm.episodes=12", "iterations=3"],
        data="games.jsonl.xz", out=tmp_path, estimators="hgpo", arm=["free:update.kl_coef=0,update.clip_high=0.3"],
        seeds="5", histories="4", minutes=1.0,
    )  # fmt: skip
    made = script["Study"](asked).runs()
    assert list(made) == ["k4-hgpo-seed5", "k4-free-seed5"]
    held, free = (load(words[0], words[1:]) for words in made.values())
    assert (held.estimator.name, held.update.kl_coef, held.update.clip_high) == ("hgpo", 0.01, 0.2)
    assert (free.estimator.name, free.update.kl_coef, free.update.clip_high) == ("hgpo_lambda", 0.0, 0.3)
    assert (held.estimator.settings, free.estimator.settings["key"]) == ({}, "state_key")
    for one in (held, free):
        assert (one.warm.episodes, one.iterations, one.seed, one.agent.history_length) == (0, 3, 5, 4)
        assert one.model.path == str(tmp_path / "warm-k4")
    asked.any = True
    assert script["Study"](asked).evaluate("k4-hgpo-seed5") == 0  # nothing is there to be played
    assert not list(tmp_path.iterdir())
    asked.arm = ["hgpo:seed=1"]
    with pytest.raises(SystemExit, match="name of letters of its own"):
        script["Study"](asked).runs()


def test_a_fair_start_is_the_best_clone_under_the_bound(tmp_path: Path) -> None:
    words = ["--preset", "quickstart", "--model", "tiny", "--history", "2", "--tasks", "2", "--out", tmp_path]
    words += ["device=cpu", "threads=1"]
    printed = run("alfworld/start.py", *words, "--episodes", "4,2", "--most", "100")
    found = json.loads((tmp_path / "starts.json").read_text())
    cloned = {one["episodes_cloned"]: one["success"] for one in found["starts"]}
    assert set(cloned) == {2, 4}
    assert found["chosen"] == max(cloned, key=lambda episodes: (cloned[episodes], -episodes))
    made = json.loads((tmp_path / "warm-k2" / "hgpo.json").read_text())
    assert made["config"]["warm"]["episodes"] == found["chosen"]
    assert f"{found['chosen']:5d} episodes: {cloned[found['chosen']]:6.1%}" in printed
    assert "is there already" in run("alfworld/start.py", *words)


def test_a_study_evaluates_the_policy_that_the_validation_panel_chose(tmp_path: Path) -> None:
    study = "all --preset quickstart --model tiny --histories 2 --seeds 1 --arm high:update.lr=3e-2 --checkpoint best"
    panels = "--tasks 2 eval.every=1 eval.tasks=12 save_every=1"
    short = "device=cpu threads=1 warm.episodes=40 rollout.tasks=2 iterations=3 agent.max_steps=8"
    words = [*f"{study} {panels} {short}".split(), "--estimators", "", "--out", tmp_path]
    run("alfworld/run.py", *words)
    (made,) = json.loads((tmp_path / "results.json").read_text())["runs"]
    held = [row["eval/in-domain/success"] for row in made["curve"]]
    assert held.index(max(held)) != len(held) - 1  # or the last policy is the best, and nothing is shown
    found = made["evaluations"]["in-domain, temperature 1.0"]
    assert found["iteration"] == held.index(max(held))
    assert found["panel"]["tasks"] == 2
    warm = json.loads((tmp_path / "results.json").read_text())["warm"]["warm-k2"]
    for policy in (made, warm):
        assert set(policy["evaluations"]) == {
            f"{split}, temperature {temperature}"
            for split in ("in-domain", "out-of-domain")
            for temperature in (1.0, 0.4)
        }
    # Given again, the command has nothing to do.
    logs = {path: path.read_bytes() for path in (tmp_path / "logs").glob("eval-*.txt")}
    run("alfworld/run.py", *words)
    assert len(logs) == 2
    assert all(path.read_bytes() == content for path, content in logs.items())


def test_a_start_that_solves_more_than_the_bound_is_none() -> None:
    best = runpy.run_path(str(ROOT / "experiments" / "alfworld" / "start.py"))["best"]
    starts = [
        {"episodes_cloned": n, "success": s} for n, s in ((10, 0.1), (30, 0.24), (20, 0.24), (40, 0.26))
    ]
    assert best(starts, 25)["episodes_cloned"] == 20
    assert best(starts, 5) is None
    assert best([], 25) is None


@pytest.mark.parametrize("world", ["alfworld", "webshop"])
def test_recipes_choose_by_tasks_that_are_neither_trained_on_nor_tested(world: str) -> None:
    recipe = load(f"{world}-1.5b", [])
    assert recipe.env.name == world
    assert recipe.eval.splits == ("validation",)
    assert any(name.startswith("validation_") and count > 0 for name, count in recipe.env.settings.items())
    assert 0 < recipe.warm.episodes <= 50
    assert recipe.update.kl_coef > 0


def test_the_time_to_a_level_is_that_of_the_mean_over_iterations(tmp_path: Path) -> None:
    """One lucky iteration reaches nothing; evaluations between iterations count as time."""
    whole = record("alfworld/cloned.json")["runs"][0]
    success = [0.72, 1.0, 0.72, 0.72, 0.72, 0.91, 0.91, 0.91, 0.91, 0.91, 0.95]
    curve = [{"iteration": 0, "seconds": 60.0}]
    curve += [
        {"iteration": at, "success": value, "seconds": 30.0} for at, value in enumerate(success, start=1)
    ]
    runs = [{**whole, "arm": arm, "curve": curve if arm == "free" else curve[:4]} for arm in ("free", "held")]
    (tmp_path / "study.json").write_text(json.dumps({"warm": {}, "runs": runs}))
    printed = run("alfworld/plot.py", tmp_path / "study.json", "--by-minute")
    assert "| free, seed 1 | iteration 6, 4.0 min | iteration 10, 6.0 min | |" in printed
    assert "| held, seed 1 | iteration" not in printed
    assert (tmp_path / "study.png").stat().st_size > 10_000


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


def test_a_picture_of_other_records_leaves_the_documentation_alone(tmp_path: Path) -> None:
    before = (ROOT / "docs" / "images" / "alfworld-study.png").read_bytes()
    (tmp_path / "k4.json").write_text(json.dumps(record("alfworld/k4.json")))
    run("alfworld/plot.py", tmp_path / "k4.json")
    assert (tmp_path / "k4.png").stat().st_size > 10_000
    assert (ROOT / "docs" / "images" / "alfworld-study.png").read_bytes() == before
