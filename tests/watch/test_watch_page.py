"""The page of `hgpo watch` in a real Chromium: it follows, it survives what happens to runs, and text stays text."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from hgpo.runs.lock import hold
from hgpo.watch import board as boards
from hgpo.watch.server import Server
from tests.inspect.chromium import Chromium
from tests.inspect.rollouts import HOSTILE, hostile, house

from .runs import Written, line

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def chromium() -> Iterator[Chromium]:
    with Chromium() as browser:
        yield browser


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boards, "LOOK", 0.0)
    monkeypatch.setattr(boards, "SEARCH", 0.0)


@contextmanager
def served(*places: Path, port: int = 0) -> Iterator[Server]:
    with Server(places, port) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def visit(chromium: Chromium, server: Server) -> None:
    chromium.visit(server.address)
    chromium.console()


def again(chromium: Chromium) -> None:
    """Ask for news now instead of in three seconds."""
    chromium.run("poll()")


def legend(chromium: Chromium, chart: str) -> str:
    return chromium.text(f"[data-chart={chart}] .legend")


def whole(chromium: Chromium) -> str:
    return str(chromium.run("return document.body.innerText"))


def test_a_run_is_followed_from_before_it_begins(chromium: Chromium, tmp_path: Path) -> None:
    place = tmp_path / "run"
    with served(place) as server:
        visit(chromium, server)
        assert chromium.text(".pill") == "waiting"
        assert chromium.run("return document.getElementById('curves').hidden")
        with hold(place):
            written = Written(place).begin()
            written.lines(0, 0)
            chromium.wait("return document.querySelector('.pill').textContent === 'training'")
            written.lines(1, 20)
            chromium.wait("return document.querySelector('#card-iteration b').textContent === '20 / 60'")
            assert "training rollouts 40.0%" in legend(chromium, "success")
            assert "in-domain (held out) 30.0%" in legend(chromium, "success")
            assert "mean return of the rollouts 4" in legend(chromium, "return")
            assert chromium.text("#card-held b") == "30.0%"
            assert chromium.run("return document.title").startswith("20/60 · ")
            with open(written.folder.metrics_file, "a") as out:
                out.write(line(21)[:40])  # half a line
            again(chromium)
            assert chromium.text("#card-iteration b") == "20 / 60"
            with open(written.folder.metrics_file, "a") as out:
                out.write(line(21)[40:])
            chromium.wait("return document.querySelector('#card-iteration b').textContent === '21 / 60'")
        written.folder.write_results({"ended": "finished", "iterations": 21, "seconds": 50.0})
        chromium.wait("return document.querySelector('.pill').textContent === 'ended'")
        assert "Finished after 21 iterations" in chromium.text("#sentence")
        assert chromium.run("return document.getElementById('failure').hidden")
        assert chromium.console() == []


def test_only_new_lines_travel(chromium: Chromium, tmp_path: Path) -> None:
    written = Written(tmp_path).begin()
    written.lines(0, 400)
    with served(tmp_path) as server:
        visit(chromium, server)
        chromium.run("performance.clearResourceTimings()")
        written.lines(401, 401)
        again(chromium)
        chromium.wait("return document.querySelector('#card-iteration b').textContent.startsWith('401')")
        sizes = chromium.run(
            "return performance.getEntriesByType('resource').filter(e => e.name.includes('/news'))"
            ".map(e => e.decodedBodySize)"
        )
        assert max(sizes) < 3000
        drawn = chromium.wait("return Number(document.body.dataset.drawn) > 1 && document.body.dataset.drawn")
        again(chromium)
        time.sleep(0.3)
        assert chromium.run("return document.body.dataset.drawn") == drawn  # nothing new: nothing is drawn


def test_questions_that_cross_do_not_double_anything(chromium: Chromium, tmp_path: Path) -> None:
    written = Written(tmp_path).begin()
    written.lines(0, 5)
    with served(tmp_path) as server:
        visit(chromium, server)
        written.lines(6, 9)
        chromium.run("poll(); poll(); poll()")
        chromium.wait("return document.querySelector('#card-iteration b').textContent === '9 / 60'")
        time.sleep(0.5)
        assert chromium.run("return runs.get(0).iterations") == list(range(10))
        assert chromium.run("return runs.get(0).columns.success.length") == 10
        assert chromium.console() == []


def test_what_happens_to_a_run_is_said(chromium: Chromium, tmp_path: Path) -> None:
    place = tmp_path / "run"
    written = Written(place).begin()
    written.lines(0, 34)
    with served(place) as server:
        visit(chromium, server)
        written.folder.rewind_metrics(30)
        again(chromium)
        chromium.wait("return document.body.innerText.includes('went back from iteration 34 to 30')")
        assert chromium.text("#card-iteration b") == "30 / 60"
        shutil.rmtree(place)
        again(chromium)
        chromium.wait("return document.querySelector('.pill').textContent === 'deleted'")
        assert "training rollouts 50.0%" in legend(chromium, "success")
        Written(place, update={"lr": 1.0}).begin().lines(0, 2, success=0.77)
        again(chromium)
        chromium.wait("return document.body.innerText.includes('Another run has begun')")
        assert "training rollouts 77.0%" in legend(chromium, "success")
        assert chromium.run("return document.getElementById('failure').hidden")
        port = server.server_address[1]
    # The server ends: the page says so and keeps what it has.
    again(chromium)
    chromium.wait("return document.getElementById('live').textContent.includes('no answer')")
    again(chromium)
    chromium.wait("return document.getElementById('live').textContent.includes('does not answer any more')")
    assert "training rollouts 77.0%" in legend(chromium, "success")
    chromium.console()
    # Another server at the same address has other runs.
    Written(tmp_path / "other").begin().lines(0, 7, success=0.5)
    with served(tmp_path / "other", port=port):
        again(chromium)
        chromium.wait("return document.getElementById('title').textContent === 'other'")
        assert "training rollouts 50.0%" in legend(chromium, "success")
    assert chromium.run("return document.getElementById('failure').hidden")
    chromium.console()


def test_alarms_stand_at_the_top_and_in_their_charts(chromium: Chromium, tmp_path: Path) -> None:
    written = Written(tmp_path).begin()
    written.lines(0, 9)
    with served(tmp_path) as server:
        visit(chromium, server)
        assert chromium.run("return document.getElementById('alarms').hidden")
        written.lines(10, 12, entropy=0.01, kl_old=0.4)
        again(chromium)
        chromium.wait("return !document.getElementById('alarms').hidden")
        assert "The entropy of the policy is 0.010, it began at 0.500" in chromium.text(
            "#alarms [data-metric=entropy]"
        )
        assert "kl_old" in chromium.text("#alarms [data-metric=kl_old]")
        for chart in ("entropy", "kl"):
            assert (
                chromium.run(f"return document.querySelectorAll('[data-chart={chart}] line.alarm').length")
                == 1
            )
            assert "Iteration 10:" in chromium.text(f"[data-chart={chart}] .warnings")
        assert chromium.run("return document.querySelectorAll('[data-chart=success] line.alarm').length") == 0


def test_values_can_be_read_with_pointer_and_keys(chromium: Chromium, tmp_path: Path) -> None:
    written = Written(tmp_path).begin()
    written.lines(0, 40)
    with served(tmp_path) as server:
        visit(chromium, server)
        box = chromium.run(
            "return document.querySelector('[data-chart=success] svg').getBoundingClientRect().toJSON()"
        )
        left = chromium.run("return document.querySelector('[data-chart=success] .grid').x1.baseVal.value")
        chromium.move_to(box["x"] + left + (box["width"] - left - 12) / 2, box["y"] + 80)
        tip = "[data-chart=success] .tip"
        chromium.wait("return !document.querySelector(arguments[0]).hidden", tip)
        assert "iteration 20" in chromium.text(tip)
        assert "40.0%" in chromium.text(tip)
        assert "30.0%" in chromium.text(tip)
        chromium.move_to(2, 2)
        chromium.wait("return document.querySelector(arguments[0]).hidden", tip)
        chromium.run("document.querySelector('[data-chart=entropy] svg').focus()")
        chromium.press("\ue011")  # Home
        tip = "[data-chart=entropy] .tip"
        assert "iteration 0" in chromium.text(tip)
        chromium.press("\ue014")  # right
        assert "iteration 1" in chromium.text(tip)
        chromium.press("\ue010")  # End
        assert "iteration 40" in chromium.text(tip)
        written.lines(41, 42)  # news do not take the place away
        again(chromium)
        chromium.wait("return document.querySelector('#card-iteration b').textContent === '42 / 60'")
        assert "iteration 40" in chromium.text(tip)
        assert (
            chromium.run("return document.querySelectorAll('[data-chart=return] .cursor line').length") == 1
        )
        chromium.press("\ue00c")  # Escape
        assert chromium.run("return document.querySelector(arguments[0]).hidden", tip)
        assert chromium.console() == []


def test_any_metric_smoothing_and_minutes(chromium: Chromium, tmp_path: Path) -> None:
    written = Written(tmp_path).begin()
    for number in range(30):
        written.lines(number, number, odd_metric=float(number % 2))
    with served(tmp_path) as server:
        visit(chromium, server)
        pick = (
            "const e = document.getElementById(arguments[0]); e.value = arguments[1]; "
            "e.dispatchEvent(new Event('change'))"
        )
        chromium.run(pick, "metric", "odd_metric")
        chromium.wait(
            "return document.querySelector('[data-chart=own] .legend').textContent.includes('odd_metric 1')"
        )
        assert chromium.text("[data-chart=own] .meaning") == ""
        chromium.run(pick, "metric", "kl_old")
        chromium.wait("return document.querySelector('.meaning').textContent.startsWith('What it is: ')")
        chromium.run(pick, "smooth", "15")
        chromium.wait("return document.querySelectorAll('[data-chart=entropy] .line.faint').length === 1")
        chromium.run(pick, "along", "minutes")
        labels = chromium.run(
            "return [...document.querySelectorAll('[data-chart=success] svg text')].map(e => e.textContent)"
        )
        assert "1" in labels  # 30 iterations of two seconds are one minute
        assert "20" not in labels
        assert chromium.console() == []


def test_several_runs_side_by_side(chromium: Chromium, tmp_path: Path) -> None:
    for name, seed in (("gigpo", 1), ("hgpo", 1), ("hgpo", 2)):
        estimator = {"name": name, "settings": {}}
        Written(tmp_path / f"{name}{seed}", seed=seed, estimator=estimator).begin().lines(0, 10 * seed)
    with served(tmp_path) as server:
        visit(chromium, server)
        titles = "return [...document.querySelectorAll('#side tbody th label')].map(e => e.textContent)"
        assert chromium.run(titles) == ["gigpo, seed=1", "hgpo, seed=1", "hgpo, seed=2"]
        assert chromium.text("#title") == "3 runs"
        assert "hgpo, seed=2, rollouts 40.0%" in legend(chromium, "success")
        assert "gigpo, seed=1, held out 25.0%" in legend(chromium, "success")
        settings = chromium.run(
            "return [...document.querySelectorAll('#settings > .scroll tbody th')].map(e => e.textContent)"
        )
        assert sorted(settings) == ["estimator", "seed"]
        chromium.click("#show-0")
        chromium.wait(
            "return !document.querySelector('[data-chart=success] .legend').textContent.includes('gigpo')"
        )
        Written(tmp_path / "late", seed=3).begin().lines(0, 3)
        again(chromium)
        chromium.wait("return document.querySelectorAll('#side tbody tr').length === 4")
        assert "hgpo, seed=3, rollouts 23.0%" in legend(chromium, "success")
        assert chromium.console() == []


def test_groups_and_episodes_can_be_read(chromium: Chromium, tmp_path: Path) -> None:
    written = Written(tmp_path).begin()
    written.lines(0, 12)
    written.rollouts(10, house(tasks=2, rollouts=3))
    with served(tmp_path) as server:
        visit(chromium, server)
        chromium.wait("return document.body.dataset.kept === '0/000010'")
        assert chromium.run("return document.querySelectorAll('#levels tbody tr').length") == 3
        assert chromium.run("return document.querySelectorAll('.lane').length") == 6
        rows = [row for row in house(tasks=2, rollouts=3) if row["trajectory"] == "1/task-0/1"]
        chromium.click(".lane[data-episode='1']")
        chromium.wait("return document.getElementById('episode').open")
        shown = chromium.run(
            "return [...document.querySelectorAll('.steps .observation')].map(e => e.textContent)"
        )
        assert shown == [row["observation"] for row in rows]
        acted = chromium.run(
            "return [...document.querySelectorAll('.steps .action')].map(e => e.textContent)"
        )
        assert acted == [row["action"] for row in rows]
        chromium.press("\ue014")
        chromium.wait("return document.querySelector('#episode .note').textContent.includes('1/task-0/2')")
        chromium.press("\ue00c")
        assert not chromium.run("return document.getElementById('episode').open")
        written.rollouts(12, house(tasks=1, rollouts=2))  # the latest is followed
        again(chromium)
        chromium.wait("return document.body.dataset.kept === '0/000012'")
        assert chromium.run("return document.querySelectorAll('.lane').length") == 2
        inspector = chromium.run("return document.getElementById('inspector').href")
        assert chromium.console() == []
        chromium.visit(inspector)
        assert "HGPO rollout report" in chromium.run("return document.title")
        assert chromium.console() == []


@pytest.mark.parametrize("kind", sorted(HOSTILE))
def test_hostile_text_stays_text(chromium: Chromium, tmp_path: Path, kind: str) -> None:
    text = HOSTILE[kind]
    name = text[:150] if kind != "surrogate" else "x"
    written = Written(tmp_path, seed=0, note=name).begin()
    other = Written(tmp_path / "second" / "run", seed=1, note=name + "!").begin()
    stored = json.loads(written.folder.config_file.read_text())
    (tmp_path / "rollouts").mkdir()
    lines = "".join(json.dumps(row) + "\n" for row in hostile(text))
    (tmp_path / "rollouts" / "000001.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
    odd: dict[str, Any] = {name: 1.0, f"eval/{name}/success": 0.5, f"seconds/{name}": 1.0}
    written.lines(0, 3, **odd)
    other.lines(0, 3, **odd)
    with open(written.folder.metrics_file, "a") as out:
        out.write(json.dumps({"iteration": name}) + "\n")
    (tmp_path / "results.json").write_text(json.dumps({"ended": name, "iterations": 3}))
    assert stored["config"]["note"] == name
    with served(tmp_path, other.folder.path) as server:
        visit(chromium, server)
        chromium.wait("return document.body.dataset.kept")
        chromium.click(".lane")
        chromium.wait("return document.getElementById('episode').open")
        chromium.run("document.querySelectorAll('details').forEach(e => { e.open = true; })")
        assert chromium.run("return window.broken === undefined")
        assert (
            chromium.run("return document.querySelectorAll('main img, iframe, object, main script').length")
            == 0
        )
        assert not chromium.run(
            "return /[\\u0000-\\u0008\\u001b\\u007f-\\u009f\\u2028-\\u202e\\u2066-\\u2069\\u200b-\\u200f\\ufeff]/"
            ".test(document.body.textContent + document.title)"
        )
        said = chromium.text(".steps li:nth-of-type(2) .observation")
        if kind in ("script", "end", "image", "quotes", "template"):
            assert said == text
            assert name in whole(chromium)
        elif kind == "long":
            assert "988,000 characters left out" in said
        elif kind == "direction":
            assert "U+202E" in said
        assert chromium.run("return document.getElementById('failure').hidden")
        assert chromium.console() == []


WIDTHS = [1280, 390]


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("many", [False, True])
def test_nothing_is_wider_than_the_window(chromium: Chromium, tmp_path: Path, width: int, many: bool) -> None:
    long = "a_setting_with_a_rather_long_name_and_" + "x" * 60
    for seed in range(3 if many else 1):
        written = Written(tmp_path / f"run{seed}", seed=seed, **{long: seed}).begin()
        written.lines(0, 12, entropy=0.01 if seed == 1 else 0.5, **{f"metric/{long}": 1.0})
        written.rollouts(10, house(tasks=6))
    with served(tmp_path) as server:
        chromium.resize(width, 900)
        try:
            visit(chromium, server)
            chromium.wait("return document.body.dataset.kept")
            room = chromium.run("return document.documentElement.clientWidth")
            assert width - 20 <= room <= width  # less a bar to scroll with
            assert chromium.run("return document.documentElement.scrollWidth") <= room
            wide = (
                "return [...document.querySelectorAll('main *')].filter(e => !e.closest('.scroll')"
                " && e.getBoundingClientRect().right > arguments[0] + 1).map(e => e.outerHTML.slice(0, 80))"
            )
            assert chromium.run(wide, room) == []
            levels = (
                "const e = document.querySelector('#levels .scroll'); return e.scrollWidth <= e.clientWidth"
            )
            assert chromium.run(levels)
            chromium.click(".lane")
            chromium.wait("return document.getElementById('episode').open")
            assert chromium.run(
                "const d = document.getElementById('episode'); return d.scrollWidth <= d.clientWidth"
            )
            assert chromium.console() == []
        finally:
            chromium.resize(None, None)


def test_thousands_of_iterations_are_drawn_quickly(chromium: Chromium, tmp_path: Path) -> None:
    written = Written(tmp_path).begin()
    with open(written.folder.metrics_file, "w") as out:
        out.writelines(line(number) for number in range(6000))
    with served(tmp_path) as server:
        visit(chromium, server)
        spent = chromium.run(
            "const began = performance.now(); drawRuns(); charts.forEach(chart => { chart.draw(); chart.paint(); }); "
            "document.body.offsetHeight; return performance.now() - began"
        )
        assert spent < 1500 * (1 + os.getloadavg()[0])
        points = (
            "return document.querySelector('[data-chart=return] .line').getAttribute('d').split('L').length"
        )
        assert chromium.run(points) < 2500
