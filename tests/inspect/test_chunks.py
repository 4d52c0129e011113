"""The packed steps of a page hold exactly what `estimate` says, whatever the rollouts are."""

from __future__ import annotations

import base64
import gzip
import json
import random
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings

from hgpo import StepBatch, estimate
from hgpo.inspect import Report, inspect
from hgpo.inspect.analysis import choose_estimators
from hgpo.inspect.page import chunks, render
from hgpo.inspect.rollouts import Iteration, Rollouts
from hgpo.inspect.terminal import terminal
from tests.inspect.rollouts import HOSTILE, Rows, hostile, house
from tests.strategies import HGPO_SETTINGS, step_rows


class Recorded(Rollouts):
    """Rollouts that are in memory already."""

    def __init__(self, *batches: StepBatch) -> None:
        super().__init__(Path("made"), [Path("made")], {})
        self.batches = batches

    def __iter__(self) -> Any:
        return iter([Iteration(number, batch) for number, batch in enumerate(self.batches)])


def report_of(rows: Rows, names: str = "hgpo,gigpo,grpo", **chosen: Any) -> Report:
    return inspect(Recorded(StepBatch.from_rows(rows)), choose_estimators(names.split(","), chosen))


def unpacked(packed: chunks.Packed) -> list[dict[str, Any]]:
    return [json.loads(gzip.decompress(chunk)) for chunk in packed.chunks]


def text(chunk: dict[str, Any], code: int) -> str:
    stored = chunk["texts"][code]
    return "\n".join(chunk["lines"][line] for line in stored)


@settings(max_examples=40, deadline=None)
@given(rows=step_rows(), chosen=HGPO_SETTINGS)
def test_packed_numbers_are_those_of_estimate(rows: Rows, chosen: dict[str, Any]) -> None:
    report = report_of(rows, "hgpo", **chosen)
    (chunk,) = unpacked(chunks.pack(report.shown))
    expected = estimate(StepBatch.from_rows(rows), "hgpo", **chosen)
    order = sorted(range(len(rows)), key=lambda n: (rows[n]["task"], rows[n]["trajectory"], rows[n]["step"]))
    numbers = chunk["numbers"]
    assert [numbers[code] for code in chunk["advantages"]["hgpo"]] == [expected.advantages[n] for n in order]
    assert [numbers[code] for code in chunk["return"]] == [expected.returns[n] for n in order]
    assert [text(chunk, code) for code in chunk["observation"]] == [rows[n]["observation"] for n in order]
    for level, labels in enumerate(chunk["levels"]):
        mine = [int(expected.levels[level][n]) for n in order]
        assert len(set(zip(labels, mine))) == len(set(labels)) == len(set(mine))
        assert [label < 0 for label in labels] == [label < 0 for label in mine]
    json.dumps(report.content, allow_nan=False)
    terminal(report.content)


def test_pieces_hold_whole_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "PIECE", 40)
    rows = house(tasks=9)
    report = report_of(rows)
    packed = chunks.pack(report.shown)
    pieces = unpacked(packed)
    assert len(pieces) > 2
    table = packed.index["iterations"][0]["tasks"]
    assert len(table["chunk"]) == 9
    for task, number, start, stop in zip(
        report.content["tasks"], table["chunk"], table["start"], table["stop"]
    ):
        own = sorted(
            (r for r in rows if r["task"] == task["task"]), key=lambda r: (r["trajectory"], r["step"])
        )
        assert stop - start == task["steps"] == len(own)
        codes = pieces[number]["action"][start:stop]
        assert [text(pieces[number], code) for code in codes] == [row["action"] for row in own]


def test_too_many_steps_are_left_out_by_whole_tasks_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "STEPS", 60)
    report = report_of(house(tasks=9))
    packed = chunks.pack(report.shown)
    (iteration,) = packed.index["iterations"]
    kept = len(iteration["tasks"]["chunk"])
    assert 0 < kept < 9
    assert iteration["left_out"] == 9 - kept
    assert len(unpacked(packed)[0]["reward"]) == sum(t["steps"] for t in report.content["tasks"][:kept])


def test_long_text_is_cut_in_the_middle_until_the_page_fits() -> None:
    rows = house(tasks=2)
    draw = random.Random(0)
    for row in rows:
        row["prompt"] = "".join(draw.choices("abcdefghijklmnopqrstuvwxyz", k=30_000))
    report = report_of(rows)
    wide, tight = chunks.pack(report.shown), chunks.pack(report.shown, budget=40_000)
    assert wide.index["text_limit"] == 20_000
    assert tight.index["text_limit"] < 20_000
    assert sum(map(len, tight.chunks)) <= 40_000
    (chunk,) = unpacked(wide)
    stored = chunk["texts"][chunk["prompt"][0]]
    assert stored["cut"] == 10_000
    lengths = [len("\n".join(chunk["lines"][line] for line in stored[part])) for part in ("head", "tail")]
    assert lengths == [15_000, 5_000]


@pytest.mark.parametrize("kind", sorted(HOSTILE))
def test_hostile_text_cannot_leave_its_element(kind: str) -> None:
    html = "".join(render(report_of(hostile(HOSTILE[kind]))))
    elements = re.findall(r"<script[^>]*>(.*?)</script", html, re.DOTALL)
    json.loads(elements[0])
    for chunk in elements[1:-1]:
        json.loads(gzip.decompress(base64.b64decode(chunk)))
    assert html.count("<script") == html.count("</script") == len(elements)
    assert html.isascii() or not set(html) & set("\u2028\u2029\u202e\x00")
    # Nothing of the rollouts is in the page outside the data elements.
    outside = re.sub(r"<script[^>]*>.*?</script", "", html, flags=re.DOTALL)
    assert "broken" not in outside
    assert "{{" not in outside


def test_numbers_that_overflow_become_null() -> None:
    rows = [
        {"task": "t", "trajectory": i, "step": 0, "observation": "o", "reward": (-1.0) ** i * 1e160}
        for i in range(4)
    ]
    report = report_of(rows, mode="mean_norm")
    assert report.content["levels"][0]["variance_within"] is None
    "".join(render(report))


def test_same_rollouts_same_page() -> None:
    rows = house(iterations=1)
    one, two = ("".join(render(report_of(order))) for order in (rows, rows[::-1]))
    assert one.partition('id="report"')[0] == two.partition('id="report"')[0]
    assert report_of(rows).content["summary"] == report_of(rows[::-1]).content["summary"]
    assert report_of(rows).content["findings"] == report_of(rows[::-1]).content["findings"]


@pytest.mark.parametrize("depth", [0, 1, 30])
def test_only_the_required_columns(depth: int) -> None:
    rows = [{k: row[k] for k in ("task", "trajectory", "step", "observation", "reward")} for row in house()]
    report = report_of(rows, depth=depth)
    "".join(render(report))
    assert len(report.content["levels"]) == depth + 1
    assert "success" not in report.content["summary"]


def test_padding_rows_do_not_count() -> None:
    rows = house()
    padded = [*rows, {**rows[0], "padding": True}]
    assert report_of(padded).content["summary"] == report_of(rows).content["summary"]
