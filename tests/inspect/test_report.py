"""The numbers of a report: equal to `estimate`'s, right by hand, and additive over iterations."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hgpo import StepBatch, estimate
from hgpo.errors import BadSetting, UnknownName
from hgpo.inspect import Report, inspect, open_rollouts
from hgpo.inspect.analysis import choose_estimators
from hgpo.inspect.side_by_side import compare_estimators, compare_runs
from hgpo.inspect.step_columns import step_columns
from hgpo.inspect.terminal import terminal
from tests.inspect.rollouts import HOSTILE, Rows, hostile, house


def report_of(folder: Path, rows: Rows, names: str = "hgpo,gigpo,grpo", **settings: Any) -> Report:
    file = folder / "rollouts.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return inspect(open_rollouts(file), choose_estimators(names.split(","), settings))


def finding(report: Report, name: str) -> dict[str, Any]:
    return next(found for found in report.content["findings"] if found["name"] == name)


def test_the_numbers_are_those_of_estimate(tmp_path: Path) -> None:
    rows = house(tasks=5)
    content = report_of(tmp_path, rows, depth=2).content
    metrics = estimate(StepBatch.from_rows(rows), "hgpo", depth=2).metrics
    assert content["summary"]["inconsistency"] == pytest.approx(metrics["context/inconsistency"], abs=1e-15)
    assert content["summary"]["coverage"] == pytest.approx(metrics["context/coverage"])
    for number, level in enumerate(content["levels"]):
        own = {k.split("/", 2)[2]: v for k, v in metrics.items() if k.startswith(f"level/{number}/")}
        for name in ("groups", "steps", "singleton_share", "constant_share", "signal_share", "abs_advantage"):
            assert level[name] == pytest.approx(own[name]), (number, name)
        assert level["groups_by_size"] == {k[5:]: v for k, v in own.items() if k.startswith("size/")}
        if number:
            assert level["sign_agreement"] == pytest.approx(own["sign_agreement"])
    for name in ("hgpo", "gigpo", "grpo"):
        own = estimate(StepBatch.from_rows(rows), name, **({"depth": 2} if name == "hgpo" else {})).metrics
        entry = content["estimators"][name]
        assert entry["mean"] == pytest.approx(own["advantage/mean"])
        assert entry["std"] == pytest.approx(own["advantage/std"])
        assert entry["zero_share"] == pytest.approx(own["advantage/zero_share"])
        assert sum(entry["histogram"]["steps"]) == len(rows)
        assert sum(term["advantage_share"] for term in entry["terms"].values()) == pytest.approx(1.0)


def test_a_penalty_that_drowns_success_is_named(tmp_path: Path) -> None:
    rows = [{**row, "reward": 0.0, "valid": place % 3 > 0} for place, row in enumerate(house(tasks=3))]
    loud = finding(report_of(tmp_path, rows, "hgpo,grpo", invalid_penalty=0.1), "penalty")
    assert loud["number"] == pytest.approx(1.0)
    assert loud["status"] == "look"
    assert "agent.inadmissible_is_invalid=false" in loud["suggestion"]
    silent = report_of(tmp_path, rows, "hgpo").content["findings"]
    assert "penalty" not in {one["name"] for one in silent}


def test_steps_of_the_json_are_those_of_estimate_and_add_up(tmp_path: Path) -> None:
    rows = house(iterations=2, tasks=2)
    columns = step_columns(report_of(tmp_path, rows, depth=1).shown)
    assert len(columns["step"]) == len(rows)
    place = {
        (i, t, s): n
        for n, (i, t, s) in enumerate(zip(*(columns[k] for k in ("iteration", "trajectory", "step"))))
    }
    for iteration in (1, 2):
        own = [row for row in rows if row["iteration"] == iteration]
        batch = StepBatch.from_rows(own)
        for name, expected in {
            "hgpo": estimate(batch, "hgpo", depth=1),
            "gigpo": estimate(batch, "gigpo"),
            "grpo": estimate(batch, "grpo"),
        }.items():
            for row, advantage, value in zip(own, expected.advantages, expected.returns):
                at = place[iteration, row["trajectory"], row["step"]]
                assert columns["advantages"][name][at] == advantage
                assert columns["return"][at] == value
                total = sum(
                    (t["value"][at] or 0.0) * (t["weight"][at] or 0.0) for t in columns["terms"][name]
                )
                assert total == pytest.approx(advantage, abs=1e-9)


def meeting(same_history: bool) -> Rows:
    """Four rollouts meet in the kitchen; two of them came through the attic, and those win."""
    rows = []
    for number in range(4):
        first = "hall" if same_history or number < 2 else "attic"
        rows.append({"task": "t", "trajectory": number, "step": 0, "observation": first, "reward": 0.0})
        rows.append(
            {
                "task": "t",
                "trajectory": number,
                "step": 1,
                "observation": "kitchen",
                "reward": float(number >= 2),
            }
        )
    return rows


def test_history_that_decides_the_outcome_is_found(tmp_path: Path) -> None:
    report = report_of(tmp_path, meeting(same_history=False), depth=1, gamma=1.0)
    summary = report.content["summary"]
    # Same-state pairs: 6 in the kitchen, 1 in the hall, 1 in the attic; 4 of the kitchen's differ in history.
    assert summary["inconsistency"] == pytest.approx(4 / 8)
    assert summary["mixed_share"] == pytest.approx(4 / 8)
    assert summary["history_effect"] == 1.0
    assert summary["baseline_shift"] == pytest.approx((4 * 0.5 + 4 * 0.0) / 8)
    assert finding(report, "mixed_histories")["status"] == "look"
    assert finding(report, "history_effect")["number"] == 1.0
    rows = meeting(same_history=False)
    rows[1]["reward"] = 0.5  # now half of the attic's visitors do differently: hall 0.5 and 0, attic 1 and 1
    partly = report_of(tmp_path, rows, depth=1, gamma=1.0).content["summary"]
    # Mean squares: kitchen (0.6875 over 3 degrees), hall alone (0.125 over 1); by context 4 x 0.125 / 2 over 4.
    state, context = (0.6875 + 0.125) / (3 + 1 + 1), (0.125 + 0.125) / 4
    assert partly["history_effect"] == pytest.approx(1 - context / state)
    same = report_of(tmp_path, meeting(same_history=True), depth=1, gamma=1.0)
    assert same.content["summary"]["inconsistency"] == 0.0
    assert finding(same, "mixed_histories")["status"] == "fine"


def test_one_reply_for_many_states_is_found(tmp_path: Path) -> None:
    rows = []
    for number in range(4):
        for step, seen in enumerate(["hall", "Nothing happens.", "hall"]):
            rows.append(
                {
                    "task": "t",
                    "trajectory": number,
                    "step": step,
                    "observation": seen,
                    "action": "look",
                    "reward": 0.0,
                    "state_key": f"{seen} {number if step == 1 else ''}",
                }
            )
    report = report_of(tmp_path, rows)
    assert report.content["summary"]["aliased_share"] == pytest.approx(4 / 12)
    (alias,) = report.content["aliases"]
    assert (alias["text"], alias["states"], alias["steps"], alias["evidence"]) == (
        "Nothing happens.",
        4,
        4,
        "state keys",
    )
    assert "Nothing happens." in finding(report, "aliasing")["sentence"]
    for row in rows:
        del row["state_key"]
        row["admissible"] = ["a", "b"] if row["trajectory"] else ["b", "a"]  # order does not matter
    # Without the key: "look" in the hall leads to one reply, after which everybody is in the hall again.
    assert report_of(tmp_path, rows).content["aliases"] == []
    rows[4]["observation"] = "attic"  # the same action in the hall now leads to two places
    assert report_of(tmp_path, rows).content["aliases"][0]["evidence"] == "outcomes of the same action"


def test_a_loop_that_fills_a_group_is_found(tmp_path: Path) -> None:
    rows = [
        {"task": "t", "trajectory": "loop", "step": step, "observation": "hall", "reward": 0.0}
        for step in range(5)
    ]
    rows += [{"task": "t", "trajectory": "b", "step": 0, "observation": "hall", "reward": 1.0}]
    rows += [
        {"task": "t", "trajectory": "c", "step": s, "observation": "attic", "reward": 0.0} for s in range(2)
    ]
    summary = report_of(tmp_path, rows).content["summary"]
    assert summary["loop_dominated_share"] == pytest.approx(6 / 8)
    assert summary["loop_alone_share"] == pytest.approx(2 / 8)
    assert summary["revisit_share"] == pytest.approx(5 / 8)


def test_tasks_without_signal_are_named(tmp_path: Path) -> None:
    rows = house(tasks=2, seed=1)
    for row in rows:
        if row["task"] == "task-1":
            row["reward"], row["success"] = 0.0, False
    report = report_of(tmp_path, rows)
    found = finding(report, "no_signal_tasks")
    assert found["number"] == 0.5
    assert "task-1" in found["sentence"]
    assert report.content["summary"]["flat_lost_share"] == 0.5
    assert [task["flat"] for task in report.content["tasks"]] == [False, True]


def test_tiny_differences_blown_up_by_division_are_found(tmp_path: Path) -> None:
    rows = [
        {"task": task, "trajectory": i, "step": 0, "observation": "o", "reward": reward}
        for task, rewards in {"near": [5.0, 5.01], "far": [0.0, 10.0]}.items()
        for i, reward in enumerate(rewards)
    ]
    assert report_of(tmp_path, rows).content["levels"][0]["tiny_share"] == 0.5
    assert report_of(tmp_path, rows, mode="mean_norm").content["levels"][0]["tiny_share"] == 0.0


def test_counts_add_up_over_iterations(tmp_path: Path) -> None:
    content = report_of(tmp_path, house(iterations=3)).content
    assert [entry["iteration"] for entry in content["iterations"]] == [1, 2, 3]
    for name in ("steps", "trajectories", "tasks"):
        assert content["summary"][name] == sum(entry["summary"][name] for entry in content["iterations"])
    low, high = np.array([[e["summary"]["inconsistency"] for e in content["iterations"]]]).min(), 1.0
    assert low <= content["summary"]["inconsistency"] <= high
    assert {kind["type"] for kind in content["task_types"]} == {"look", "pick"}
    json.dumps(content, allow_nan=False)


def test_shown_iterations_keep_both_ends(tmp_path: Path) -> None:
    file = tmp_path / "r.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in house(iterations=9)))
    plan = choose_estimators(["hgpo"], {})
    whole = inspect(open_rollouts(file), plan)
    steps = [len(analysis.order) for analysis in whole.shown]
    assert len(steps) == 9
    few = inspect(open_rollouts(file), plan, shown_steps=sum(steps) // 3)
    assert few.content["shown_iterations"][0] == 1
    assert few.content["shown_iterations"][-1] == 9
    assert len(few.shown) < 9
    assert few.content["summary"] == whole.content["summary"]
    assert [a.number for a in inspect(open_rollouts(file), plan, shown_steps=0).shown] == [9]


def test_comparisons(tmp_path: Path) -> None:
    first, second = report_of(tmp_path, house(seed=1)).content, report_of(tmp_path, house(seed=2)).content
    found = compare_runs(first, second, ("a", "b"))
    by_name = {row["name"]: row for row in found["numbers"]}
    row = by_name["level 1: singleton_share"]
    assert row["difference"] == second["levels"][1]["singleton_share"] - first["levels"][1]["singleton_share"]
    assert found["iterations"] == second["iterations"]
    pair = compare_estimators(first, "gigpo", "hgpo")
    assert pair["pair"]["opposite_steps"] == first["pairs"][0]["opposite_steps"]
    assert by_name["success"]["first"] == first["summary"]["success"]


def test_pairs_by_hand(tmp_path: Path) -> None:
    rows = house(tasks=4, seed=3)
    content = report_of(tmp_path, rows, depth=2).content
    batch = StepBatch.from_rows(rows)
    a, b = estimate(batch, "hgpo", depth=2).advantages, estimate(batch, "grpo").advantages
    pair = next(p for p in content["pairs"] if (p["first"], p["second"]) == ("hgpo", "grpo"))
    both, against = (a != 0) & (b != 0), a * b < 0
    assert pair["sign_disagreement"] == pytest.approx(against.sum() / both.sum())
    assert pair["mean_opposite_difference"] == pytest.approx(np.abs(a - b)[against].mean())
    assert pair["correlation"] == pytest.approx(np.corrcoef(a, b)[0, 1])
    worst = max((min(abs(x), abs(y)), n) for n, (x, y) in enumerate(zip(a, b)) if x * y < 0)[0]
    listed = next(d for d in content["disagreements"] if (d["first"], d["second"]) == ("hgpo", "grpo"))
    assert min(abs(listed["first_advantage"]), abs(listed["second_advantage"])) == worst


def test_settings_go_to_the_estimators_that_have_them() -> None:
    plan = choose_estimators(
        ["grpo", "gigpo"], {"depth": 3, "gamma": 0.5}, {"invalid_penalty": 0.1, "depth": 1}
    )
    assert plan.estimators["grpo"] == {"gamma": 0.5, "invalid_penalty": 0.1}
    assert plan.depth == 3
    # A setting that two estimators share may have values that only one of them knows.
    shared = choose_estimators(["hgpo_lambda"], {}, {"normalise_over": "task", "baseline": "leave_one_out"})
    assert shared.estimators["hgpo_lambda"] == {"normalise_over": "task", "baseline": "leave_one_out"}
    assert shared.reference == {"baseline": "leave_one_out", "depth": 2}
    with pytest.raises(BadSetting, match="normalise_over='everything'"):
        choose_estimators(["hgpo_lambda"], {"normalise_over": "everything"})
    with pytest.raises(UnknownName, match="depht"):
        choose_estimators(["hgpo"], {"depht": 3})
    with pytest.raises(UnknownName, match="Did you mean 'gigpo'"):
        choose_estimators(["gigop"], {})


@pytest.mark.parametrize("kind", sorted(HOSTILE))
def test_hostile_text_is_safe_on_a_terminal(tmp_path: Path, kind: str) -> None:
    said = terminal(report_of(tmp_path, hostile(HOSTILE[kind])).content)
    assert all(character.isprintable() or character == "\n" for character in said)
    assert max(map(len, said.splitlines())) < 400


def test_the_example_of_the_documentation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A clumsy expert in generated houses: "Nothing happens." is the reply that stands for most states."""
    source = Path(__file__).parents[2] / "docs" / "examples" / "record_rollouts.py"
    example = runpy.run_path(str(source))
    monkeypatch.setitem(example["record"].__globals__, "ITERATIONS", 3)
    report = report_of(tmp_path, list(example["record"]()))
    assert report.content["aliases"][0]["text"] == "Nothing happens."
    assert report.content["aliases"][0]["states"] > 2
    assert finding(report, "mixed_histories")["status"] == "look"
    assert 0.3 < report.content["summary"]["success"] < 1.0
    assert len(report.content["task_types"]) > 2
