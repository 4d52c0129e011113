"""One way out of every command: a status and one sentence, whatever happened."""

from __future__ import annotations

import argparse
import errno
import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hgpo import cli
from hgpo.cli import main
from hgpo.errors import BadSetting, DiskFull
from hgpo.runs import load, train
from hgpo.runs.folder import RunFolder

from ..worlds import FETCH, WORLD

ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONUNBUFFERED": "1"}
ENVIRONMENT.pop("HGPO_DEBUG", None)


class Failing:
    """A verb that ends with an error."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def configure(self, parser: argparse.ArgumentParser) -> None:
        self.__doc__ = "Fail."

    def run(self, args: argparse.Namespace) -> int:
        raise self.error


ERRORS = [
    (OSError(errno.ENOSPC, "No space left on device", "x.part"), 2, "no space left"),
    (OSError(errno.EIO, "Input/output error", "disk.bin"), 2, "disk.bin: Input/output error"),
    (PermissionError(errno.EACCES, "Permission denied", "/etc/x"), 2, "/etc/x: Permission denied"),
    (FileNotFoundError(errno.ENOENT, "No such file or directory", "gone"), 2, "gone: No such file"),
    (TimeoutError("timed out"), 2, "timed out"),
    (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"), 2, "not valid text"),
    (UnicodeEncodeError("utf-8", chr(0xD800), 0, 1, "surrogates not allowed"), 2, "not valid text"),
    (ModuleNotFoundError("No module named 'torch'", name="torch"), 2, "[train]"),
    (ModuleNotFoundError("No module named 'pyarrow.x'", name="pyarrow.x"), 2, "[data]"),
    (ImportError("libcuda.so.1: cannot open shared object file"), 2, "could not be imported: libcuda"),
    (MemoryError(), 2, "not enough memory"),
    (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried"), 2, "not enough memory"),
    (RecursionError("maximum recursion depth exceeded"), 2, "nested too deeply"),
    (BadSetting("two\nlines \x1b[2J"), 2, "two\\nlines \\x1b[2J"),
    (KeyboardInterrupt(), 130, "interrupted"),
    (ZeroDivisionError("division by zero"), 70, "HGPO_DEBUG=1 shows where"),
]


@pytest.mark.parametrize(("error", "status", "sentence"), ERRORS, ids=lambda one: type(one).__name__)
def test_every_error_is_one_sentence(
    error: BaseException,
    status: int,
    sentence: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("HGPO_DEBUG", raising=False)
    verb = Failing(error)
    verb.__doc__ = "Fail."
    monkeypatch.setattr(cli, "verbs", lambda: {"fail": verb})
    assert main(["fail"]) == status
    said = capsys.readouterr().err
    assert said.startswith("hgpo fail: ")
    assert said.count("\n") == 1
    assert sentence in said
    monkeypatch.setenv("HGPO_DEBUG", "1")
    assert main(["fail"]) == status
    assert "Traceback" in capsys.readouterr().err


def test_errors_before_a_verb_runs_are_sentences_too(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken() -> None:
        raise OSError(errno.EIO, "Input/output error", "verb.py")

    monkeypatch.setattr(cli, "verbs", broken)
    assert main(["train"]) == 2
    assert capsys.readouterr().err == "hgpo: verb.py: Input/output error.\n"


def hgpo(*words: str, **options: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "hgpo", *words]
    return subprocess.Popen(  # type: ignore[call-overload,no-any-return]
        command, env=ENVIRONMENT, stderr=subprocess.PIPE, text=True, **options
    )


@pytest.mark.parametrize(
    "words", [["train", "--list"], ["train", "--settings"], ["--help"], ["eval", "--help"]]
)
def test_a_closed_pipe_is_left_quietly(words: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    process = hgpo(*words, stdout=writer)
    os.close(writer)
    _, said = process.communicate(timeout=60)
    assert said == ""
    assert process.returncode == 141 or "--help" in words  # argparse drops what it cannot print


def test_a_full_disk_behind_standard_output() -> None:
    with open("/dev/full", "w") as full:  # opened by us, to be written into; nothing is renamed
        process = hgpo("train", "--settings", stdout=full)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 2
    assert said.count("\n") == 1
    assert "no space left" in said


def test_no_standard_output_at_all(tmp_path: Path) -> None:
    command = f"exec {sys.executable} -m hgpo train --list >&-"
    done = subprocess.run(["sh", "-c", command], env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr
    assert done.returncode in (0, 2)


def test_a_terminal_that_knows_no_such_letters(tmp_path: Path) -> None:
    environment = {**ENVIRONMENT, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    words = [sys.executable, "-m", "hgpo", "train", "--run", "é\udcff", "x=1"]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_a_full_disk_in_the_middle_of_a_run_keeps_what_there_is(tmp_path: Path) -> None:
    """The limit on the size of files stands for a disk that is full: the system refuses the write."""
    run = tmp_path / "run"
    settings = ["iterations=1", "save_every=1", "eval.every=0"]
    train(load(FETCH, settings), run, quiet=True)
    saved = RunFolder(run).checkpoints()[-1]
    size = saved.weights.stat().st_size

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size // 2, size // 2))

    command = [sys.executable, "-m", "hgpo", "train", "--resume", str(run), "iterations=2", "--quiet"]
    command += ["--allow-env", WORLD]
    done = subprocess.run(
        command, env=ENVIRONMENT, capture_output=True, text=True, check=False, preexec_fn=limit, timeout=120
    )
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "no space left" in done.stderr
    assert f"the checkpoint of iteration 1 is kept; go on with: hgpo train --resume {run}" in done.stderr
    assert RunFolder(run).checkpoints()[-1].iteration == 1
    assert train(None, run, resume=True, quiet=True, allow_env=WORLD)["ended"] == "finished"


def test_a_full_disk_before_the_first_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "metrics.jsonl")

    monkeypatch.setattr(RunFolder, "append_metrics", full)
    with pytest.raises(
        DiskFull, match=r"metrics\.jsonl.*the policy that the run starts from is kept; go on with"
    ):
        train(load(FETCH, ["iterations=1"]), tmp_path / "run", quiet=True)


# Ctrl-C


COMMANDS = {
    "start-up": ["train", "--list"],
    "lab": ["lab", "--quick"],
    "train": ["train", "quickstart", "--run", "run"],
    "sft": ["sft", "quickstart", "--out", "warm"],
    "eval": ["eval", "random", "--preset", "quickstart"],
    "play": ["play", "household"],
    "watch": ["watch", "run"],
}


@pytest.mark.parametrize(
    "delay",
    [0.6, 2.5, *(pytest.param(delay, marks=pytest.mark.slow) for delay in (0.2, 0.4, 1.0, 1.5, 4.0, 8.0))],
)
@pytest.mark.parametrize("name", COMMANDS)
def test_ctrl_c_at_any_moment(name: str, delay: float, tmp_path: Path) -> None:
    """During start-up, imports, warm start and play, to the whole group of processes as a terminal does it."""
    process = hgpo(
        *COMMANDS[name],
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stdin=subprocess.PIPE,
        start_new_session=True,
    )
    time.sleep(delay)
    if process.poll() is None:
        began = time.monotonic()
        os.killpg(process.pid, signal.SIGINT)
        _, said = process.communicate(timeout=60)
        # Two seconds are promised; this machine may be busy with other tests.
        assert time.monotonic() - began < 30
        assert "Traceback" not in said or "hgpo" not in said
        # The interpreter may not have come to us yet; then it answers in its own way.
        assert process.returncode == 130 or "hgpo" not in said
        assert process.returncode != 130 or "interrupted" in said or "stopping" in said
    process.communicate(timeout=10)


def test_ctrl_c_that_gets_lost_ends_the_process_all_the_same() -> None:
    program = (
        "import time; from hgpo.interrupts import answer_interrupts; answer_interrupts()\n"
        "while True:\n"
        "    try:\n"
        "        print('ready', flush=True)\n"
        "        time.sleep(60)\n"
        "    except KeyboardInterrupt:\n"
        "        pass\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    process.stdout.readline()
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=30)
    assert (process.returncode, said) == (130, "hgpo: interrupted\n")
    assert time.monotonic() - began < 20


def test_nothing_is_imported_before_ctrl_c_has_an_answer() -> None:
    """Python itself answers Ctrl-C while it imports the package, with a stack trace: that has to be over soon."""
    code = "import sys; before = set(sys.modules); import hgpo; print(*sorted(set(sys.modules) - before))"
    # Without site an installed package is found by its path only.
    env = {**os.environ, "PYTHONPATH": str(Path(cli.__file__).parents[2])}
    loaded = subprocess.run(
        [sys.executable, "-S", "-c", code], capture_output=True, text=True, check=True, env=env
    )
    assert set(loaded.stdout.split()) == {"__future__", "hgpo", "hgpo.version"}


@pytest.mark.parametrize("closed", ["2>&-", ">&-", "<&-", ">&- 2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize(
    "words", ["advantages steps.jsonl -o out.jsonl", "inspect steps.jsonl --html out.jsonl", "train --list"]
)
def test_streams_that_are_closed_from_the_start(tmp_path: Path, closed: str, words: str) -> None:
    rows = [
        {"task": "t", "trajectory": name, "step": 0, "observation": "o", "reward": float(name)}
        for name in "01"
    ]
    (tmp_path / "steps.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m hgpo {words} {closed}"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
    if "out.jsonl" in words:
        text = (tmp_path / "out.jsonl").read_text()
        assert text.startswith(('{"hgpo_schema_version"', "<!doctype html>", "<!DOCTYPE html>"))


@pytest.mark.parametrize(
    "words",
    [
        ["train", "--run", ""],
        ["eval", "random", "--logs", ""],
        ["compare", "runs", "--out", ""],
        ["watch", ""],
        ["inspect", "steps.jsonl", "--html", ""],
        ["verl", "data", "quickstart", "--out", ""],
    ],
    ids=" ".join,
)
def test_an_empty_path_is_none(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    assert "it is empty; expected a path" in capsys.readouterr().err


@pytest.mark.parametrize("processes", [1, 2])
def test_one_of_several_processes_leaves_without_taking_the_interpreter_down(
    tmp_path: Path, processes: int
) -> None:
    """torch's threads would abort it there; what was printed is whole all the same."""
    (tmp_path / "sitecustomize.py").write_text(
        "import os, sys\n"
        "class Last:\n"
        "    def __del__(self, write=os.write):\n"
        "        write(2, b'taken down')\n"
        "sys.last = Last()\n"
    )
    path = os.pathsep.join([str(tmp_path), *sys.path])
    done = subprocess.run(
        [sys.executable, "-m", "hgpo", "models", "list"],
        env={
            **ENVIRONMENT,
            "PYTHONPATH": path,
            "PYTHONUNBUFFERED": "",
            "WORLD_SIZE": str(processes),
            "RANK": "0",
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.count("\n") == 2
    assert done.stderr == ("taken down" if processes == 1 else "")
