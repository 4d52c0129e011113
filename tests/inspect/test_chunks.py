"""The packed steps of a page hold exactly what `estimate` says, whatever the rollouts are."""

from __future__ import annotations

import base64
import gzip
import json
import math
import random
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hgpo import HgpoError, StepBatch, estimate
from hgpo.estimators.table import ESTIMATORS
from hgpo.inspect import Report, inspect
from hgpo.inspect.analysis import choose_estimators
from hgpo.inspect.page import chunks, render
from hgpo.inspect.report import finite
from hgpo.inspect.rollouts import Iteration, Rollouts
from hgpo.inspect.step_columns import step_columns
from hgpo.inspect.terminal import terminal
from tests.inspect.rollouts import HOSTILE, Rows, hostile, house
from tests.strategies import HGPO_SETTINGS, estimator_settings, step_rows, with_ends


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


class Page:
    """Reads a packed piece as the page's script does."""

    def __init__(self, chunk: dict[str, Any]) -> None:
        self.chunk, self.numbers = chunk, chunk["numbers"]

    def number(self, term: dict[str, Any], name: str, row: int, place: int) -> float:
        if name in term and name not in ("score", "value"):
            return float(self.numbers[term[name][term["group"][row]]])
        return float(self.numbers[term[f"step_{name}" if name not in ("score", "value") else name][place]])

    def added(self, one: dict[str, Any], row: int) -> tuple[float, float]:
        """Sum of the contributions of a step's terms, and the largest of them."""
        added = []
        for term in one["terms"]:
            if "rows" in term and row not in term["rows"]:
                continue
            place = term["rows"].index(row) if "rows" in term else row
            value = self.number(term, "value", row, place)
            score = (
                self.number(term, "score", row, place)
                if "score" in term
                else self.numbers[self.chunk["return"][row]]
            )
            baseline, divisor = (self.number(term, name, row, place) for name in ("baseline", "divisor"))
            size = 1.0 + abs(score) + abs(baseline)
            assert (score - baseline) / divisor == pytest.approx(value, abs=1e-9 * size / min(1.0, divisor))
            added.append(self.number(term, "weight", row, place) * value)
        return sum(added), max(map(abs, added), default=0.0)

    def score(self, score: dict[str, Any], row: int) -> float:
        total = sum(part["weight"] * self.numbers[part["value"][row]] for part in score["parts"])
        if "following" in score:
            starts = [*self.chunk["starts"], len(self.chunk["reward"])]
            end = next(start for start in starts if start > row)
            codes = score["following"]["value"][row:end]
            total += sum(score["following"]["factor"] ** j * self.numbers[c] for j, c in enumerate(codes))
        return total


@pytest.mark.parametrize("name", sorted(ESTIMATORS))
@settings(max_examples=40, deadline=None, derandomize=True)
@given(data=st.data())
def test_the_arithmetic_on_the_page_adds_up(name: str, data: st.DataObject) -> None:
    """For every estimator and its settings: sums equal their totals, and the last total is the advantage."""
    rows = data.draw(with_ends(step_rows()))
    chosen = data.draw(estimator_settings(name))
    report = report_of(rows, name, **chosen)
    (chunk,) = unpacked(chunks.pack(report.shown))
    page = Page(chunk)
    columns = step_columns(report.shown)
    expected = estimate(StepBatch.from_rows(rows), name, **chosen)
    order = sorted(range(len(rows)), key=lambda n: (rows[n]["task"], rows[n]["trajectory"], rows[n]["step"]))
    for row, number in enumerate(order):
        advantage = float(expected.advantages[number])
        for one in chunk["sums"][name]:
            total = page.numbers[one["total"][row]]
            added, largest = page.added(one, row)
            assert added == pytest.approx(total, abs=1e-9 * (1.0 + largest)), one["name"]
        assert total == advantage == page.numbers[chunk["advantages"][name][row]]
        in_json = sum(
            (term["value"][row] or 0.0) * (term["weight"][row] or 0.0) for term in columns["terms"][name]
        )
        assert in_json == pytest.approx(advantage, abs=1e-9 * (1.0 + largest))
        if name in chunk["scores"]:
            score = chunk["scores"][name]
            total = page.numbers[score["total"][row]]
            assert page.score(score, row) == pytest.approx(total, rel=1e-9, abs=1e-9)
            assert columns["scores"][name]["total"][row] == total


def test_iterations_with_and_without_actions_are_columns_of_one_length() -> None:
    """Only rollouts with actions are pooled over equal actions; their terms have other names."""
    rows = house(tasks=1)
    bare = [{key: value for key, value in row.items() if key != "action"} for row in rows]
    batches = StepBatch.from_rows(bare), StepBatch.from_rows(rows)
    report = inspect(Recorded(*batches), choose_estimators(["hgpo_lambda"], {"depth": 1}))
    columns = step_columns(report.shown)
    total = [0.0] * (2 * len(rows))
    for term in columns["terms"]["hgpo_lambda"]:
        padded = [None] * (2 * len(rows) - len(term["value"]))
        values, weights = term["value"] + padded, term["weight"] + padded
        total = [t + (v or 0.0) * (w or 0.0) for t, v, w in zip(total, values, weights)]
    assert total == pytest.approx(columns["advantages"]["hgpo_lambda"], abs=1e-9)


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


def test_numbers_at_the_edge_of_the_arithmetic() -> None:
    def rows(size: float) -> list[dict[str, Any]]:
        return [
            {"task": "t", "trajectory": i, "step": 0, "observation": "o", "reward": (-1.0) ** i * size}
            for i in range(4)
        ]

    report = report_of(rows(1e100), mode="mean_norm")
    assert report.content["levels"][0]["variance_within"] == pytest.approx(1e200)
    json.dumps(report.content, allow_nan=False)
    "".join(render(report))
    with pytest.raises(HgpoError, match="too large"):
        report_of(rows(1e160), mode="mean_norm")
    assert finite({"a": [math.inf, 1.0], "b": math.nan}) == {"a": [None, 1.0], "b": None}


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
