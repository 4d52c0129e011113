"""`hgpo watch`: its address, its one sentence, its end."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
import webbrowser
from pathlib import Path

import pytest

from hgpo.cli import main
from hgpo.watch.server import Server

from ..watch.runs import Written

ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONUNBUFFERED": "1"}


def started(*words: str) -> tuple[subprocess.Popen[str], str, list[str]]:
    """The process, the address that it printed, and what it said before."""
    process = subprocess.Popen(
        [sys.executable, "-m", "hgpo", "watch", *words],
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    said = []
    for line in process.stdout:
        found = re.search(r"http://127\.0\.0\.1:\d+/", line)
        if found:
            return process, found[0], said
        said.append(line)
    raise AssertionError(process.communicate()[1])


def test_it_prints_its_address_and_ends_quietly(tmp_path: Path) -> None:
    Written(tmp_path / "run").begin().lines(0, 3)
    process, address, said = started(str(tmp_path / "run"))
    with urllib.request.urlopen(address + "news", timeout=20) as reply:
        (run,) = json.load(reply)["runs"]
    assert run["count"] == 4
    assert said == []
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=20)
    assert (process.returncode, out, err) == (130, "", "hgpo watch: interrupted\n")


def test_it_may_be_started_before_the_run(tmp_path: Path) -> None:
    process, address, said = started(str(tmp_path / "later"))
    try:
        assert said == [f"{tmp_path / 'later'} does not exist yet; the page waits for a run to begin there\n"]
        Written(tmp_path / "later").begin().lines(0, 1)
        time.sleep(0.6)
        with urllib.request.urlopen(address + "news", timeout=20) as reply:
            (run,) = json.load(reply)["runs"]
        assert run["count"] == 2
        assert sorted(path.name for path in (tmp_path / "later").iterdir()) == [
            "config.json",
            "metrics.jsonl",
        ]
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("name", ["empty", "file", "model"])
def test_what_is_no_run_is_one_sentence(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("x")
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{}")
    assert main(["watch", str(tmp_path / name)]) == 2
    said = capsys.readouterr().err
    assert said.startswith("hgpo watch: ")
    assert said.count("\n") == 1
    assert str(tmp_path / name) in said


def test_a_port_is_taken_or_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Server([tmp_path / "x"]) as other:
        assert main(["watch", str(tmp_path / "x"), "--port", str(other.server_address[1])]) == 2
    assert "cannot be had" in capsys.readouterr().err
    for word in ("65536", "-1", "x"):
        with pytest.raises(SystemExit) as ended:
            main(["watch", str(tmp_path / "x"), "--port", word])
        assert ended.value.code == 2


def test_the_browser_is_opened_only_when_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", lambda address: bool(opened.append(address)))
    monkeypatch.setattr(Server, "serve_forever", lambda self: None)
    assert main(["watch", str(tmp_path / "x")]) == 0
    assert opened == []
    assert main(["watch", str(tmp_path / "x"), "--open"]) == 0
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/", opened[0])
