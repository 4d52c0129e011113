"""Following metrics.jsonl: each line once, whatever happens to the file."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from hgpo.runs.folder import RunFolder, Tail
from hgpo.runs.folder import tail as tails


def line(number: int, **more: Any) -> str:
    return json.dumps({"iteration": number, "success": number / 100, **more}) + "\n"


def numbers(tail: Tail) -> list[int]:
    return [row["iteration"] for row in tail.read().rows]


def test_each_line_is_read_once(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    tail = Tail(folder.metrics_file)
    assert tail.read().missing
    for number in range(3):
        folder.append_metrics({"iteration": number})
    assert numbers(tail) == [0, 1, 2]
    assert numbers(tail) == []
    folder.append_metrics({"iteration": 3})
    news = tail.read()
    assert (news.again, [row["iteration"] for row in news.rows]) == (False, [3])


def test_only_what_is_new_is_read_from_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "metrics.jsonl"
    file.write_text("".join(line(number) for number in range(5000)))
    tail = Tail(file)
    assert len(numbers(tail)) == 5000
    with open(file, "a") as out:
        out.write(line(5000))
    parsed = []
    parse = tails.metrics.parse
    monkeypatch.setattr(tails.metrics, "parse", lambda text: parsed.append(text) or parse(text))
    assert numbers(tail) == [5000]
    assert len(parsed) == 1
    monkeypatch.setattr(
        "builtins.open", lambda *_, **__: pytest.fail("nothing is new, yet the file was opened")
    )
    assert numbers(tail) == []


@pytest.mark.parametrize("cut", [1, 5, 20, -3, -1])
def test_a_line_that_is_being_written_is_waited_for(tmp_path: Path, cut: int) -> None:
    file = tmp_path / "metrics.jsonl"
    text = line(1)
    whole = text.rstrip("\n")
    file.write_text(line(0) + whole[:cut])
    tail = Tail(file)
    assert numbers(tail) == [0]
    with open(file, "a") as out:
        out.write(whole[cut:])
    assert numbers(tail) == [1]  # complete with its bracket, before its end of line
    with open(file, "a") as out:
        out.write("\n" + line(2))
    assert numbers(tail) == [2]


def test_a_resumed_run_writes_the_file_anew(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    for number in range(6):
        folder.append_metrics({"iteration": number})
    tail = Tail(folder.metrics_file)
    assert numbers(tail) == [0, 1, 2, 3, 4, 5]
    folder.rewind_metrics(3)
    folder.append_metrics({"iteration": 4, "success": 0.5})
    news = tail.read()
    assert news.again
    assert [row["iteration"] for row in news.rows] == [0, 1, 2, 3, 4]
    assert numbers(tail) == []


def test_a_file_that_was_cut_or_replaced_in_place_is_noticed(tmp_path: Path) -> None:
    file = tmp_path / "metrics.jsonl"
    file.write_text("".join(line(number) for number in range(4)))
    tail = Tail(file)
    tail.read()
    with open(file, "r+") as out:
        out.truncate(len(line(0) + line(1)))
    assert tail.read().again
    file.write_text("".join(line(number, success=0.9) for number in range(40)))  # same inode, longer
    news = tail.read()
    assert news.again
    assert len(news.rows) == 40
    same_size = "".join(line(number, success=0.8) for number in range(40))
    assert len(same_size) == file.stat().st_size
    file.write_text(same_size)
    os.utime(file, ns=(1, 1))
    assert tail.read().again


def test_a_file_that_goes_away_and_comes_back(tmp_path: Path) -> None:
    file = tmp_path / "metrics.jsonl"
    file.write_text(line(0) + line(1))
    tail = Tail(file)
    tail.read()
    kept = file.read_bytes()
    file.unlink()
    assert tail.read().missing
    (tmp_path / "other").write_text("takes the inode")
    file.write_bytes(kept.replace(b"0.01", b"0.77"))
    news = tail.read()
    assert news.again
    assert news.rows[1]["success"] == 0.77


def test_what_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "metrics.jsonl")
    assert Tail(tmp_path / "metrics.jsonl").read().missing


HOSTILE = [
    b"[" * 100_000,
    b"\xff\xfe\x00",
    b'{"iteration": "1"}',
    b'{"success": 1}',
    b"null",
    b"[1]",
    b'{"iteration": true}',
    b"x" * 6_000_000,
]


@pytest.mark.parametrize("bad", HOSTILE, ids=lambda text: repr(text[:12]))
def test_a_damaged_line_is_left_out_and_named(tmp_path: Path, bad: bytes) -> None:
    file = tmp_path / "metrics.jsonl"
    file.write_bytes(line(0).encode() + bad + b"\n" + line(1).encode())
    news = Tail(file).read()
    assert [row["iteration"] for row in news.rows] == [0, 1]
    assert news.damaged
    assert "not the metrics of an iteration" in news.damaged[0]
    assert all(len(sentence) < 400 for sentence in news.damaged)
