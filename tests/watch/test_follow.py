"""A run is followed through everything that can happen to it."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from hgpo import StepBatch
from hgpo.config import as_dict, load
from hgpo.errors import BadFile
from hgpo.runs.lock import LOCK, hold, holder_of
from hgpo.watch import board as boards
from hgpo.watch.board import Board, Cursor, check_place
from hgpo.watch.follow import Followed
from hgpo.watch.kept import Kept
from hgpo.watch.series import Series

from ..worlds import FETCH, WORLD
from .runs import Written, line


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boards, "LOOK", 0.0)
    monkeypatch.setattr(boards, "SEARCH", 0.0)


def followed(path: Path) -> Followed:
    run = Followed(path, str(path))
    run.refresh()
    return run


def said(run: Followed) -> list[str]:
    return [event["text"] for event in run.events]


def test_from_before_the_first_iteration_to_the_end(tmp_path: Path) -> None:
    run = followed(tmp_path / "run")
    assert run.about()["state"] == "waiting"
    with hold(tmp_path / "run"):
        run.refresh()
        assert run.about()["state"] == "starting"
        written = Written(tmp_path / "run").begin()
        run.refresh()
        assert run.about()["state"] == "starting"
        written.lines(0, 3)
        run.refresh()
        assert run.about()["state"] == "training"
        assert f"process {os.getpid()}" in run.about()["sentence"]
        assert run.about()["iterations"] == 60
        assert run.rows(0)["iterations"] == [0, 1, 2, 3]
        assert run.rows(3)["columns"]["success"] == [0.23]
    run.refresh()
    assert run.about()["state"] == "stopped"
    assert f"hgpo train --resume {tmp_path / 'run'}" in run.about()["sentence"]
    written.folder.write_results({"ended": "finished", "iterations": 3, "seconds": 12.3})
    run.refresh()
    assert (run.about()["state"], run.about()["sentence"]) == (
        "ended",
        "Finished after 3 iterations, 12 s of training.",
    )
    assert said(run) == []


def test_a_killed_run_is_not_taken_for_one_in_training(tmp_path: Path) -> None:
    Written(tmp_path).begin().lines(0, 2)
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    content = {"pid": dead.pid, "host": socket.gethostname(), "since": "now"}
    (tmp_path / LOCK).write_text(json.dumps(content))
    assert followed(tmp_path).about()["state"] == "stopped"
    (tmp_path / LOCK).write_text(json.dumps({**content, "host": "another-machine"}))
    assert followed(tmp_path).about()["state"] == "training"
    os.utime(tmp_path / "metrics.jsonl", (1.0, 1.0))
    assert followed(tmp_path).about()["state"] == "stopped"


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"pid": -1, "host": "", "since": ""}', '{"pid": 1e400}', "[" * 900]
)
def test_a_lock_that_says_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / LOCK).write_text(text)
    assert holder_of(tmp_path) is None
    (tmp_path / LOCK).unlink()
    os.mkfifo(tmp_path / LOCK)
    assert holder_of(tmp_path) is None


def test_looking_takes_no_lock(tmp_path: Path) -> None:
    written = Written(tmp_path).begin()
    written.lines(0, 1)
    run = followed(tmp_path)
    with hold(tmp_path):  # would raise FolderBusy
        run.refresh()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["config.json", "metrics.jsonl"]


def test_a_run_that_is_resumed_from_a_checkpoint(tmp_path: Path) -> None:
    written = Written(tmp_path).begin()
    written.lines(0, 34)
    run = followed(tmp_path)
    generation = run.generation
    written.folder.rewind_metrics(30)
    run.refresh()
    assert said(run) == ["The run went back from iteration 34 to 30: it was resumed from a checkpoint."]
    assert run.generation > generation
    assert run.rows(0)["iterations"] == list(range(31))
    written.lines(31, 33, success=0.9)
    run.refresh()
    assert run.rows(31)["columns"]["success"] == [0.9, 0.9, 0.9]
    written.folder.rewind_metrics(33)
    run.refresh()
    assert said(run)[1:] == ["The run was resumed after iteration 33."]


def test_a_rewind_that_was_only_seen_later(tmp_path: Path) -> None:
    written = Written(tmp_path).begin()
    written.lines(0, 34)
    run = followed(tmp_path)
    written.folder.rewind_metrics(30)
    written.lines(31, 40, success=0.9)
    run.refresh()
    assert said(run) == ["The run went back from iteration 34 to 30: it was resumed from a checkpoint."]
    assert len(run.series) == 41


def test_a_run_that_is_deleted_and_begun_again(tmp_path: Path) -> None:
    place = tmp_path / "run"
    Written(place).begin().lines(0, 5)
    run = followed(place)
    shutil.rmtree(place)
    run.refresh()
    assert run.about()["state"] == "gone"
    assert len(run.series) == 6
    assert said(run) == ["The run was deleted. What was read of it stays on this page."]
    written = Written(place, update={"lr": 0.1}).begin()
    run.refresh()
    assert len(run.series) == 0
    assert any("Another run has begun" in text for text in said(run))
    written.lines(0, 1, seconds=9.0)
    run.refresh()
    assert run.rows(0)["columns"]["seconds"] == [9.0, 9.0]


def test_numbers_of_another_run_are_not_mixed_in(tmp_path: Path) -> None:
    written = Written(tmp_path).begin()
    written.lines(0, 5)
    run = followed(tmp_path)
    written.folder.metrics_file.unlink()
    run.refresh()
    assert said(run) == ["metrics.jsonl is gone. What was read of it stays on this page."]
    written.lines(0, 8, success=0.01)
    run.refresh()
    assert said(run)[1:] == ["The numbers were replaced by others; all were read again."]
    assert run.rows(0)["columns"]["success"] == [0.01] * 9


def test_damaged_lines_are_left_out_and_said(tmp_path: Path) -> None:
    Written(tmp_path).begin()
    (tmp_path / "metrics.jsonl").write_text(line(0) + "{broken\n" + line(1) + line(2)[:30])
    run = followed(tmp_path)
    assert run.rows(0)["iterations"] == [0, 1]
    assert "line 2 is not the metrics of an iteration" in said(run)[0]
    (tmp_path / "config.json").write_text("{")
    run.refresh()
    assert run.about()["state"] == "broken"
    assert "config.json cannot be read" in run.about()["sentence"]


def test_alarms_are_those_of_the_run(tmp_path: Path) -> None:
    written = Written(tmp_path).begin()
    written.lines(0, 4)
    run = followed(tmp_path)
    assert run.about()["alarms"] == []
    written.lines(5, 5, entropy=0.01, kl_old=0.5)
    run.refresh()
    assert {alarm["metric"]: alarm["iteration"] for alarm in run.about()["alarms"]} == {
        "entropy": 5,
        "kl_old": 5,
    }
    assert "it began at 0.500" in next(
        a["sentence"] for a in run.about()["alarms"] if a["metric"] == "entropy"
    )
    written.folder.rewind_metrics(4)  # what was alarming is undone
    run.refresh()
    assert run.about()["alarms"] == []


def test_whatever_stands_in_a_line_only_numbers_are_taken(tmp_path: Path) -> None:
    Written(tmp_path).begin()
    odd: dict[str, Any] = {
        "entropy": "0.1",
        "kl_old": None,
        "success": float("nan"),
        "x": True,
        "return": 10**400,
    }
    (tmp_path / "metrics.jsonl").write_text(line(0) + json.dumps({"iteration": 1, **odd}) + "\n")
    run = followed(tmp_path)
    assert run.rows(1)["columns"] == {}
    json.dumps(run.rows(0), allow_nan=False)
    assert "x" not in run.series.columns


def test_rows_out_of_order() -> None:
    series = Series()
    assert [series.add({"iteration": number, "a": number}) for number in (0, 2, 3, 1, 2)] == [
        True,
        True,
        True,
        False,
        False,
    ]
    series.add({"iteration": 3, "b": 1.0})
    assert series.iterations == [0, 1, 2, 3]
    assert series.part(["a", "b"], 0) == {"a": [0, 1, 2, None], "b": [None, None, None, 1.0]}


def test_news_are_only_what_a_page_does_not_have(tmp_path: Path) -> None:
    written = Written(tmp_path / "run").begin()
    written.lines(0, 9)
    board = Board([tmp_path / "run"])
    (first,) = board.news({})["runs"]
    assert first["from"] == 0
    assert len(first["rows"]["iterations"]) == 10
    have = Cursor(first["generation"], first["count"], first["version"])
    (second,) = board.news({0: have})["runs"]
    assert "rows" not in second
    assert "about" not in second
    written.lines(10, 11)
    (third,) = board.news({0: have})["runs"]
    assert third["rows"]["iterations"] == [10, 11]
    assert len(json.dumps(third["rows"])) < 400
    written.folder.rewind_metrics(5)
    (fourth,) = board.news({0: Cursor(third["generation"], 12, third["version"])})["runs"]
    assert fourth["from"] == 0
    assert fourth["rows"]["iterations"] == [0, 1, 2, 3, 4, 5]
    assert "about" in fourth


def test_a_folder_of_runs_and_those_that_begin_later(tmp_path: Path) -> None:
    for seed in (1, 2):
        Written(tmp_path / "runs" / "quickstart" / f"k2_seed{seed}", seed=seed).begin().lines(0, seed)
    (tmp_path / "runs" / "model").mkdir()
    (tmp_path / "runs" / "model" / "config.json").write_text('{"hidden_size": 8}')
    board = Board([tmp_path / "runs"])
    assert [run.title for run in board.runs.values()] == ["seed=1", "seed=2"]
    estimator = {"name": "gigpo", "settings": {}}
    Written(tmp_path / "runs" / "late", seed=2, estimator=estimator).begin()
    board.news({})
    assert [run.title for run in board.runs.values()] == ["hgpo, seed=1", "hgpo, seed=2", "gigpo, seed=2"]
    shutil.rmtree(tmp_path / "runs" / "quickstart")
    board.news({})
    assert [run.about()["state"] for run in board.runs.values()] == ["gone", "gone", "stopped"]


def test_a_folder_that_cannot_be_read_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = Written(tmp_path).begin()
    written.lines(0, 2)
    run = followed(tmp_path)

    def refuse(*_: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(type(run.folder), "exists", refuse)
    monkeypatch.setattr(Followed, "_changed", lambda self, path: True)
    run.refresh()
    assert (run.about()["state"], run.about()["sentence"]) == (
        "broken",
        "The folder cannot be read: Permission denied.",
    )
    assert len(run.series) == 3
    monkeypatch.undo()
    run.refresh()
    assert run.about()["state"] == "stopped"


def test_a_hundred_runs_are_looked_at_quickly(tmp_path: Path) -> None:
    full = as_dict(load("quickstart"))
    for seed in range(100):
        Written(tmp_path / f"run{seed:03}", **{**full, "seed": seed}).begin().lines(0, 3)
    board = Board([tmp_path])
    assert board.runs[99].title == "seed=99"
    have = {
        one["id"]: Cursor(one["generation"], one["count"], one["version"]) for one in board.news({})["runs"]
    }
    began = time.process_time()
    for _ in range(5):
        board._searched = time.monotonic() + 1000.0  # only looking, not searching
        assert all("rows" not in one and "about" not in one for one in board.news(have)["runs"])
    assert (time.process_time() - began) / 5 < 0.1  # a page asks every three seconds


def test_a_place_that_is_waited_for_may_become_a_folder_of_runs(tmp_path: Path) -> None:
    board = Board([tmp_path / "runs"])
    assert [run.about()["state"] for run in board.runs.values()] == ["waiting"]
    Written(tmp_path / "runs" / "quickstart" / "k2").begin()
    board.news({})
    assert [run.folder.path.name for run in board.runs.values()] == ["k2"]


def test_a_run_named_twice_is_shown_once(tmp_path: Path) -> None:
    Written(tmp_path / "run").begin()
    (tmp_path / "link").symlink_to(tmp_path / "run")
    assert len(Board([tmp_path / "run", tmp_path / "link", tmp_path / "run", tmp_path]).runs) == 1


def test_what_is_no_run_is_refused(tmp_path: Path) -> None:
    check_place(tmp_path / "later")
    (tmp_path / "file").write_text("")
    with pytest.raises(BadFile, match="is a file; expected the folder of a run"):
        check_place(tmp_path / "file")
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text('{"hidden_size": 8}')
    for place in (tmp_path, tmp_path / "model"):
        with pytest.raises(BadFile, match="is no run"):
            check_place(place)
    with hold(tmp_path / "begins"):
        check_place(tmp_path / "begins")


def test_a_run_of_thousands_of_iterations_stays_quick(tmp_path: Path) -> None:
    written = Written(tmp_path).begin()
    more = {f"estimator/level/{number}/share": 0.5 for number in range(90)}
    with open(written.folder.metrics_file, "w") as out:
        out.writelines(line(number, **more) for number in range(5000))
    board = Board([tmp_path])
    (first,) = board.news({})["runs"]
    assert len(json.dumps(first)) < 1_000_000  # the file has 17 MB
    have = Cursor(first["generation"], first["count"], first["version"])
    began = os.times()
    for number in range(5000, 5050):
        written.lines(number, number, **more)
        (news,) = board.news({0: have})["runs"]
        have = Cursor(news["generation"], news["count"], news["version"])
        assert len(news["rows"]["iterations"]) == 1
    spent = os.times()
    assert spent.user - began.user < 1.0  # 20 ms for each line would be far too much


@pytest.mark.slow
def test_a_real_run_and_its_resumption(tmp_path: Path) -> None:
    """What the trainer writes is what is read: metrics, state, kept rollouts with the advantages it trained on."""
    pytest.importorskip("torch")
    from hgpo.runs import train

    place = tmp_path / "run"
    board = Board([place])
    settings = ["iterations=3", "save_every=2", "eval.every=0", "rollout.keep_every=1", "keep=5"]
    train(load(FETCH, settings), place, quiet=True)
    board.news({})
    (run,) = board.runs.values()
    assert run.about()["state"] == "ended"
    assert run.about()["sentence"].startswith("Finished after 3 iterations")
    assert run.about()["iterations"] == 3
    assert run.about()["kept"] == ["000001", "000002", "000003"]
    assert {"success", "return", "entropy", "kl_old", "seconds", "seconds/rollout"} <= run.rows(0)[
        "columns"
    ].keys()
    found = Kept().groups(run, "000003")
    stored = StepBatch.read(run.folder.rollouts / "000003.parquet")
    assert found["iteration"] == 3
    assert found["steps"] == len(stored)
    shown = [value for task in found["tasks"] for one in task["episodes"] for value in one["advantages"]]
    assert sorted(shown) == pytest.approx(sorted(stored["advantage"].tolist()), rel=1e-3, abs=1e-6)
    # The last checkpoint is lost: the run goes on from the one before.
    shutil.rmtree(place / "checkpoints" / "000003")
    train(None, place, resume=True, quiet=True, allow_env=WORLD)
    board.news({})
    assert said(run) == ["The run went back from iteration 3 to 2: it was resumed from a checkpoint."]
    assert run.rows(0)["iterations"] == [0, 1, 2, 3]
    assert run.about()["state"] == "ended"
