"""The page in a real Chromium: no errors, steps can be found and opened, numbers are `estimate`'s, text stays text."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hgpo import StepBatch, estimate
from hgpo.inspect import inspect, open_rollouts
from hgpo.inspect.analysis import choose_estimators
from hgpo.inspect.page import write_page
from hgpo.inspect.side_by_side import compare_runs
from hgpo.runs.compare import compare
from hgpo.runs.curves import write_html
from tests.inspect.chromium import Chromium
from tests.inspect.rollouts import HOSTILE, Rows, hostile, house

pytestmark = pytest.mark.browser
NAMES = ["hgpo", "gigpo", "grpo"]


@pytest.fixture(scope="module")
def chromium() -> Iterator[Chromium]:
    with Chromium() as browser:
        yield browser


def page_of(folder: Path, rows: Rows, **settings: Any) -> Path:
    file = folder / "rollouts.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    page = folder / "page.html"
    write_page(inspect(open_rollouts(file), choose_estimators(NAMES, settings)), page)
    return page


def opened(chromium: Chromium, page: Path, iteration: int, task: int, row: int) -> None:
    chromium.open(page, f"#task={iteration}/{task}/{row}")
    chromium.wait("return document.querySelector('#step-title')")


def expected_rows(rows: Rows, iteration: int, task: str) -> Rows:
    """The rows of a task in the page's order."""
    own = [row for row in rows if row["iteration"] == iteration and row["task"] == task]
    return sorted(own, key=lambda row: (row["trajectory"], row["step"]))


def test_the_report_is_drawn_without_errors(chromium: Chromium, tmp_path: Path) -> None:
    page = page_of(tmp_path, house(iterations=3), depth=2)
    chromium.open(page)
    assert chromium.run("return document.querySelectorAll('#charts figure').length") >= 12
    assert chromium.run("return document.querySelectorAll('#findings li').length") >= 10
    assert "NaN" not in chromium.text("#view-report")
    assert chromium.run(
        "return [...document.querySelectorAll('svg *')]"
        ".every(e => ![...e.attributes].some(a => /NaN|Infinity/.test(a.value)))"
    )
    for view in ("graph", "list", "lanes"):
        chromium.click("#tab-browse")
        chromium.wait("return document.querySelector('#tasks .row')")
        chromium.click(f"[data-view={view}]")
        chromium.wait("return document.querySelector('#drawing').childNodes.length > 0")
    assert chromium.run("return document.getElementById('failure').hidden")
    assert chromium.console() == []


def test_numbers_on_the_page_are_those_of_estimate(chromium: Chromium, tmp_path: Path) -> None:
    rows = house(iterations=2, tasks=3, seed=4)
    page = page_of(tmp_path, rows, depth=2)
    own = expected_rows(rows, 2, "task-1")
    whole = [row for row in rows if row["iteration"] == 2]
    batch = StepBatch.from_rows(whole)
    places = [next(n for n, row in enumerate(whole) if row is mine) for mine in own]
    settings = {"hgpo": {"depth": 2}, "gigpo": {}, "grpo": {}}
    estimates = {name: estimate(batch, name, **settings[name]) for name in NAMES}
    for row in range(0, len(own), 2):
        opened(chromium, page, 1, 1, row)
        assert chromium.text("#reward") == f"{own[row]['reward']:.4f}"
        assert chromium.text("#return") == f"{estimates['hgpo'].returns[places[row]]:.4f}".replace(
            "-0.0000", "0.0000"
        )
        assert chromium.text("#observation") == own[row]["observation"]
        assert chromium.text("#action") == own[row]["action"]
        for name in NAMES:
            advantage = float(estimates[name].advantages[places[row]])
            shown = f"{advantage:.4f}".replace("-0.0000", "0.0000")
            assert chromium.text(f".advantage[data-estimator={name}]") == shown
            exact = "return Number(document.querySelector(arguments[0]).dataset.value)"
            assert chromium.run(exact, f".advantage[data-estimator={name}] .number") == advantage
            adds = chromium.run(
                "return [...document.querySelectorAll(arguments[0])].map(e => Number(e.dataset.value))",
                f"table[data-estimator={name}][data-sum=advantage] tbody td:last-child .number",
            )
            assert sum(adds) == pytest.approx(advantage, abs=1e-9)
        members = chromium.run(
            "return [...document.querySelectorAll('#level-buttons button')].map(b => b.textContent)"
        )
        for level, label in enumerate(members):
            labels = estimates["hgpo"].levels[level]
            mine = labels[places[row]]
            size = int((labels == mine).sum()) if mine >= 0 else 0
            assert label == (
                f"level {level}: {size} step{'s' if size > 1 else ''}"
                if size
                else f"level {level}: too early"
            )
    assert chromium.console() == []


def test_the_arithmetic_of_hgpo_lambda_is_shown(chromium: Chromium, tmp_path: Path) -> None:
    """Its lambda-return, its own advantage by level and the mean over equal actions: each table adds up."""
    rows = house(tasks=2, rollouts=6, seed=4)
    for row in rows:
        row["done"] = row["done"] and row["reward"] > 0  # failures are cut
    file = tmp_path / "rollouts.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    page = tmp_path / "page.html"
    write_page(inspect(open_rollouts(file), choose_estimators(["hgpo_lambda", "g2po"], {"depth": 1})), page)
    own = expected_rows(rows, 1, "task-1")
    batch = StepBatch.from_rows(rows)
    places = [next(n for n, row in enumerate(rows) if row is mine) for mine in own]
    advantages = estimate(batch, "hgpo_lambda", depth=1).advantages
    values = "return [...document.querySelectorAll(arguments[0])].map(e => Number(e.dataset.value))"
    for row in range(0, len(own), 3):
        opened(chromium, page, 0, 1, row)
        for table in ("[data-score=lambda-return]", "[data-sum='own advantage']", "[data-sum=advantage]"):
            chosen = f"table[data-estimator=hgpo_lambda]{table}"
            adds = chromium.run(values, f"{chosen} tbody td:last-child .number")
            (total,) = chromium.run(values, f"{chosen} tfoot .sum .number")
            assert sum(adds) == pytest.approx(total, abs=1e-9)
        assert total == float(advantages[places[row]])
        errors = chromium.run(
            "return document.querySelectorAll(\"[data-score='lambda-return'] tbody tr\").length"
        )
        length = sum(other["trajectory"] == own[row]["trajectory"] for other in own)
        assert errors == 1 + length - own[row]["step"]
        assert "V next" in chromium.text("table[data-score=lambda-return]")
        assert "same action, level 1" in chromium.text(
            "table[data-estimator=hgpo_lambda][data-sum=advantage]"
        )
        assert "V(next state)" in chromium.text("table[data-estimator=g2po][data-score=target]")
    assert chromium.console() == []


def test_numbers_are_rounded_as_python_does(chromium: Chromium, tmp_path: Path) -> None:
    chromium.open(page_of(tmp_path, house()))
    values = [
        0.0,
        0.03125,
        0.09375,
        1.00005,
        2.5,
        -0.03125,
        12345.67895,
        1e-5 * 7,
        -1.99995,
        0.5,
        123456.00005,
    ]
    shown = chromium.run("return arguments[0].map(v => window.shown(v))", values)
    assert shown == [f"{value:.4f}" for value in values]


def test_a_step_is_found_by_text_and_opened(chromium: Chromium, tmp_path: Path) -> None:
    rows = house(iterations=3, tasks=4)
    rows[len(rows) // 2]["observation"] = "a golden needle"
    wanted = rows[len(rows) // 2]
    chromium.open(page_of(tmp_path, rows))
    chromium.click("#tab-browse")
    chromium.write("#find", "golden NEEDLE")
    chromium.wait("return /^1 steps found/.test(document.getElementById('found-status').textContent)")
    chromium.click("#found .row")
    chromium.wait("return document.querySelector('#step-title')")
    assert chromium.text("#observation") == "a golden needle"
    assert (
        chromium.text("#step-title") == f"{wanted['task']} · {wanted['trajectory']} · step {wanted['step']}"
    )
    assert chromium.console() == []


def test_cells_states_and_lines_open_steps(chromium: Chromium, tmp_path: Path) -> None:
    rows = house(tasks=1, seed=2)
    page, own = page_of(tmp_path, rows), expected_rows(rows, 1, "task-0")
    chromium.open(page)
    chromium.click("#tab-browse")
    box = chromium.wait(
        "const c = document.querySelector('#drawing canvas'); return c && c.getBoundingClientRect().toJSON()"
    )
    chromium.click_at(box["x"] + 120 + 20 * 1 + 8, box["y"] + 18 + 8)  # first lane, second step
    chromium.wait("return document.querySelector('#step-title')")
    assert chromium.text("#step-title").endswith("/0 · step 1")
    chromium.click("#next") if own[2]["step"] == 2 else chromium.click("#previous")
    assert not chromium.text("#step-title").endswith("step 1")
    chromium.click("[data-view=list]")
    chromium.click("#drawing .row[data-row='0']")
    assert chromium.text("#observation") == own[0]["observation"]
    chromium.click("[data-view=graph]")
    count = len({row["observation"] for row in own})
    assert chromium.run("return document.querySelectorAll('#drawing .node').length") == count
    chromium.run(
        "document.querySelector('#drawing .node:nth-of-type(2)')"
        ".dispatchEvent(new MouseEvent('click', {bubbles: true}))"
    )
    assert chromium.text("#observation") in {row["observation"] for row in own}
    assert chromium.console() == []


def test_what_differs_in_a_history_is_highlighted(chromium: Chromium, tmp_path: Path) -> None:
    rows = [
        {
            "task": "t",
            "trajectory": name,
            "step": step,
            "observation": seen,
            "action": "go",
            "reward": float(name == "b"),
            "iteration": 1,
        }
        for name, first in (("a", "a small red box"), ("b", "a small blue box"))
        for step, seen in enumerate([first, "kitchen"])
    ]
    page = page_of(tmp_path, rows, depth=1)
    opened(chromium, page, 0, 0, 1)
    assert chromium.run(
        "return [...document.querySelectorAll('#members .differs')].map(e => e.textContent)"
    ) == ["blue"]
    assert chromium.console() == []


def test_trained_tokens_are_marked(chromium: Chromium, tmp_path: Path) -> None:
    rows = house(tasks=1)
    for row in rows[:1]:
        row |= {"response_tokens": ["go", " there", " <seen>"], "response_mask": [1, 1, 0]}
    page = page_of(tmp_path, rows)
    opened(chromium, page, 0, 0, 0)
    assert chromium.run(
        "return [...document.querySelectorAll('#prompt .trained')].map(e => e.textContent)"
    ) == ["go", " there"]
    opened(chromium, page, 0, 0, 1)
    row = expected_rows(rows, 1, "task-0")[1]
    assert chromium.run(
        "return [...document.querySelectorAll('#prompt .trained')].map(e => e.textContent)"
    ) == [row["response"]]
    assert chromium.text("#prompt .untrained") == row["prompt"]
    assert "5 tokens" in chromium.text("#step")
    assert '{"luck"' in chromium.text("#extras")


def test_compared_runs_are_drawn(chromium: Chromium, tmp_path: Path) -> None:
    reports = []
    for seed in (1, 2):
        file = tmp_path / f"run-{seed}.jsonl"
        file.write_text("".join(json.dumps(row) + "\n" for row in house(iterations=2, seed=seed)))
        reports.append(inspect(open_rollouts(file), choose_estimators(NAMES, {})))
    first, second = reports
    first.content["compare"] = compare_runs(first.content, second.content, ("one", "two"))
    write_page(first, tmp_path / "page.html")
    chromium.open(tmp_path / "page.html")
    assert "one" in chromium.text("#compare h2")
    assert chromium.run("return document.querySelectorAll('#compare figure').length") == 4
    assert chromium.console() == []


CLIPPED = (
    "const box = document.querySelector(arguments[0]).getBoundingClientRect();"
    "return [...document.querySelectorAll(arguments[0] + ' td, ' + arguments[0] + ' th')]"
    ".filter(e => e.offsetParent !== null && e.getBoundingClientRect().right > Math.min(box.right, innerWidth) + 1)"
    ".map(e => e.outerHTML.slice(0, 80))"
)


@pytest.mark.parametrize("width", [1280, 390])
def test_no_column_is_clipped(chromium: Chromium, tmp_path: Path, width: int) -> None:
    """The arithmetic of every estimator, the tables of report and comparison, in a wide and a narrow window."""
    rows = house(iterations=2, tasks=3, rollouts=6, seed=4)
    file, page = tmp_path / "rollouts.jsonl", tmp_path / "page.html"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    report = inspect(
        open_rollouts(file), choose_estimators(["hgpo_lambda", "hgpo", "gigpo", "g2po"], {"depth": 3})
    )
    configs = [{"seed": seed, "estimator": {"name": name}} for seed, name in ((1, "hgpo"), (2, "gigpo" * 9))]
    report.content["compare"] = compare_runs(report.content, report.content, ("one", "x" * 90), configs)
    write_page(report, page)
    chromium.resize(width, 900)
    try:
        for row in (0, 3, 5):
            opened(chromium, page, 1, 1, row)
            assert chromium.run("return document.querySelectorAll('#step .arithmetic').length") >= 6
            assert chromium.run(CLIPPED, "#step") == []
        chromium.click("#tab-report")
        chromium.run("document.querySelectorAll('details').forEach(e => { e.open = true; })")
        assert chromium.run(CLIPPED, "#view-report") == []
        assert chromium.run("return document.documentElement.scrollWidth") <= width
        settings = chromium.run(
            "return [...document.querySelector('#compare table').querySelectorAll('tbody td:first-child')]"
            ".map(e => e.textContent)"
        )
        assert settings == ["estimator", "seed"]
        assert chromium.console() == []
    finally:
        chromium.resize(None, None)


@pytest.mark.parametrize("width", [1280, 390])
def test_the_page_of_a_comparison_fits(chromium: Chromium, tmp_path: Path, width: int) -> None:
    runs = []
    for name in ("hgpo", "gigpo", "a_rather_long_name_of_an_estimator_that_somebody_wrote"):
        for seed in (1, 2, 3):
            config = {"seed": seed, "estimator": {"name": name}, "update": {"lr": 0.001 * len(name)}}
            folder = tmp_path / f"{name}{seed}"
            folder.mkdir()
            panels = {"in-domain": {"digest": "0123456789abcdef"}}
            (folder / "config.json").write_text(
                json.dumps({"name": name, "config": config, "panels": panels})
            )
            lines = [{"iteration": n, "eval/in-domain/success": 0.1 * n + 0.01 * seed} for n in range(5)]
            (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
            runs.append(str(folder))
    page = tmp_path / "page.html"
    write_html(compare(runs), page)
    chromium.resize(width, 900)
    try:
        chromium.load(page)
        assert chromium.run("return document.documentElement.scrollWidth") <= width
        assert chromium.run(CLIPPED, "body") == []
        assert "hgpo, lr=0.004" in chromium.text("table")
        assert chromium.run("return getComputedStyle(document.querySelector('i.c1')).backgroundColor") == (
            "rgb(214, 39, 40)"
        )
        assert chromium.console() == []
    finally:
        chromium.resize(None, None)


@pytest.mark.parametrize("kind", sorted(HOSTILE))
def test_hostile_text_stays_text(chromium: Chromium, tmp_path: Path, kind: str) -> None:
    text = HOSTILE[kind]
    page = page_of(tmp_path, hostile(text))
    assert page.stat().st_size < 5_000_000
    opened(chromium, page, 0, 0, 1)
    for view in ("lanes", "graph", "list"):
        chromium.click(f"[data-view={view}]")
    chromium.click("#tab-report")
    chromium.click("#tab-browse")
    assert chromium.run("return window.broken === undefined")
    assert chromium.run("return document.querySelectorAll('img, iframe, object, main script').length") == 0
    # Nowhere on the page is there a character that hides or reorders text.
    assert not chromium.run(
        "return /[\\u0000-\\u0008\\u001b\\u007f-\\u009f\\u2028-\\u202e\\u2066-\\u2069\\u200b-\\u200f\\ufeff]/"
        ".test(document.querySelector('main').textContent + document.title)"
    )
    said = chromium.text("#observation")
    if kind == "long":
        assert "980,000 characters left out" in said
        assert said.startswith("x<y>&x<y>&")
    elif kind in ("script", "end", "image", "quotes", "template"):
        assert said == text
    elif kind == "direction":
        assert "U+202E" in said
        assert "\u202e" not in said
        assert "שלום" in said
    elif kind == "control":
        assert all(mark in said for mark in ("U+0000", "U+001B", "U+007F", "U+0085"))
        assert "\x1b" not in said
    elif kind == "separators":
        assert "U+2028" in said
    elif kind == "surrogate":
        assert "U+D800" in said
        assert "U+DFFF" in said
    chromium.write("#find", text[:5].strip() or "x")
    chromium.wait("return /found$/.test(document.getElementById('found-status').textContent)")
    assert chromium.run("return document.getElementById('failure').hidden")
    assert chromium.console() == []


def test_one_task_of_many_steps_stays_smooth(chromium: Chromium, tmp_path: Path) -> None:
    """Ten thousand steps in a single task: opening a step and scrolling must not take long."""
    rows = []
    for number in range(200):
        for step in range(50):
            seen = f"room {(number * step) % 300}"
            rows.append(
                {
                    "task": "t",
                    "trajectory": number,
                    "step": step,
                    "observation": seen,
                    "action": f"go {step}",
                    "reward": float(step == 49 and number % 3 == 0),
                    "iteration": 1,
                }
            )
    page = page_of(tmp_path, rows)
    opened(chromium, page, 0, 0, 5000)
    assert "160 most visited of 300" in _graph(chromium)
    for view, seconds in (("lanes", 1.5), ("list", 1.5), ("graph", 3.0)):
        chromium.click(f"[data-view={view}]")
        start = time.monotonic()
        for _ in range(5):
            chromium.click("#next")
        assert time.monotonic() - start < 5 * seconds, view
    chromium.click("[data-view=list]")
    assert chromium.run("return document.querySelectorAll('#drawing .row').length") < 60
    chromium.run("document.getElementById('drawing').scrollTop = 200000")
    chromium.wait(
        "return [...document.querySelectorAll('#drawing .row')].some(r => r.dataset.row === '5002')"
    )
    assert chromium.console() == []


def _graph(chromium: Chromium) -> str:
    chromium.click("[data-view=graph]")
    return chromium.text("#hint")


@pytest.mark.slow
def test_a_hundred_thousand_steps(chromium: Chromium, tmp_path: Path) -> None:
    """Report within a minute, page under 30 MB, and opening things stays quick."""
    from benchmarks.reports import rollouts as made

    file, page = tmp_path / "rollouts.parquet", tmp_path / "page.html"
    rows = [{**row, "trajectory": f"{row['iteration']}/{row['trajectory']}"} for row in made(100_000)]
    StepBatch.from_rows(rows).write(file)
    start = time.monotonic()
    write_page(inspect(open_rollouts(file), choose_estimators(NAMES, {"depth": 2})), page)
    assert time.monotonic() - start < 60
    assert page.stat().st_size < 30_000_000
    start = time.monotonic()
    chromium.open(page)
    assert time.monotonic() - start < 10
    opened(chromium, page, 12, 7, 100)
    start = time.monotonic()
    for view in ("graph", "list", "lanes"):
        chromium.click(f"[data-view={view}]")
        chromium.click("#next")
        chromium.click("#previous")
    assert time.monotonic() - start < 9
    start = time.monotonic()
    chromium.write("#find", "house-15")
    chromium.wait("return /found$/.test(document.getElementById('found-status').textContent)", seconds=60)
    assert time.monotonic() - start < 20
    assert chromium.console() == []
