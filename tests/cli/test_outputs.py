"""Where output goes: into what is no file, never over an input, never over what somebody else made."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from hgpo.cli import main
from hgpo.config import load
from hgpo.errors import BadFile, BadSetting, DiskFull
from hgpo.files import atomic_folder, atomic_path, check_folder, check_outputs, safe_name, write_text
from hgpo.runs.folder import Description, EvaluationFolder, RunFolder
from hgpo.runs.training import train

from ..runs.test_differences import write_run
from ..worlds import FETCH

ROWS = [
    {
        "task": f"t{task}",
        "trajectory": f"t{task}/{number}",
        "step": step,
        "observation": f"room {step}",
        "action": f"go {(number + step) % 3}",
        "reward": float(step == 2 and number % 2),
        "done": step == 2,
    }
    for task in range(2)
    for number in range(4)
    for step in range(3)
]


@pytest.fixture
def steps(tmp_path: Path) -> Path:
    path = tmp_path / "steps.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return path


@contextlib.contextmanager
def reading(fifo: Path) -> Iterator[list[bytes]]:
    """A reader at the other end of a pipe with a name."""
    os.mkfifo(fifo)
    got: list[bytes] = []

    def read() -> None:
        with open(fifo, "rb") as stream:
            got.append(stream.read())

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    yield got
    reader.join(10)


def hgpo(*words: str | Path, **options: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "hgpo", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)  # type: ignore[call-overload,no-any-return]


# What is no regular file


@pytest.mark.parametrize("option", ["-o", "--json"])
def test_a_pipe_is_written_into_and_stays(steps: Path, tmp_path: Path, option: str) -> None:
    fifo = tmp_path / "pipe"
    with reading(fifo) as got:
        assert main(["advantages", str(steps), option, str(fifo)]) == 0
    assert stat.S_ISFIFO(fifo.stat().st_mode)
    assert json.loads(got[0].splitlines()[0] if option == "-o" else got[0])


@pytest.mark.parametrize("option", ["--html", "--json"])
def test_the_inspector_writes_into_a_pipe(steps: Path, tmp_path: Path, option: str) -> None:
    fifo = tmp_path / "pipe"
    with reading(fifo) as got:
        assert main(["inspect", str(steps), option, str(fifo)]) == 0
    assert stat.S_ISFIFO(fifo.stat().st_mode)
    assert got[0].startswith(b"<!doctype html" if option == "--html" else b"{")


def test_a_reader_that_leaves_gets_a_sentence(
    steps: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    fifo = tmp_path / "pipe"
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    opened = os.open

    def open_then_leave(path: object, *rest: int) -> int:
        handle = opened(path, *rest)  # type: ignore[arg-type]
        if path == fifo:
            os.close(reader)
        return handle

    monkeypatch.setattr("hgpo.files.os.open", open_then_leave)
    assert main(["advantages", str(steps), "-o", str(fifo)]) == 2
    assert "reader went away" in capsys.readouterr().err


def test_standard_output_is_written_into(steps: Path, tmp_path: Path) -> None:
    # A link of our own: should it ever be replaced by a file, /dev/stdout of this machine is not.
    link = tmp_path / "out"
    link.symlink_to("/proc/self/fd/1")
    piped = hgpo("advantages", steps, "-o", link)
    assert piped.returncode == 0, piped.stderr
    assert len([json.loads(line) for line in piped.stdout.splitlines()]) == len(ROWS)
    assert "level 0" in piped.stderr  # the summary is not among the rows
    assert link.is_symlink()
    target = tmp_path / "kept.txt"
    target.write_text("before\n")
    with open(target, "a") as stream:
        command = [sys.executable, "-m", "hgpo", "advantages", str(steps), "--json", str(link)]
        assert subprocess.run(command, stdout=stream, check=False).returncode == 0
    before, _, rest = target.read_text().partition("\n")
    assert before == "before"
    assert json.loads(rest)["steps"] == len(ROWS)


def test_a_link_stays_a_link(steps: Path, tmp_path: Path) -> None:
    target, link = tmp_path / "real.jsonl", tmp_path / "link.jsonl"
    target.write_text("old")
    target.chmod(0o640)
    link.symlink_to(target.name)
    assert main(["advantages", str(steps), "-o", str(link)]) == 0
    assert link.is_symlink()
    assert len(target.read_text().splitlines()) == len(ROWS)
    assert stat.S_IMODE(target.stat().st_mode) == 0o640
    (tmp_path / "folder").mkdir()
    (tmp_path / "other").symlink_to("folder")
    for word in ("one", "two"):
        with atomic_folder(tmp_path / "other") as partial:
            (partial / "file").write_text(word)
    assert (tmp_path / "folder" / "file").read_text() == "two"
    assert (tmp_path / "other").is_symlink()


# Inputs


def test_an_input_is_no_output(steps: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = steps.read_bytes()
    soft, hard, second = tmp_path / "soft.jsonl", tmp_path / "hard.jsonl", tmp_path / "second.jsonl"
    soft.symlink_to(steps)
    hard.hardlink_to(steps)
    second.write_bytes(before)
    for words in (
        ["advantages", steps, "-o", steps],
        ["advantages", steps, "-o", soft],
        ["advantages", steps, "-o", hard],
        ["advantages", steps, "--json", f"{tmp_path}/../{tmp_path.name}/steps.jsonl"],
        ["advantages", steps, "-o", tmp_path / "new.jsonl", "--json", tmp_path / "new.jsonl"],
        ["inspect", steps, "--html", steps],
        ["inspect", steps, "--json", hard],
        ["inspect", second, "--compare", steps, "--html", soft],
    ):
        assert main([str(word) for word in words]) == 2
        assert "Give the output a name of its own" in capsys.readouterr().err
    assert steps.read_bytes() == second.read_bytes() == before
    assert not (tmp_path / "new.jsonl").exists()


def test_the_files_of_an_inspected_run_are_inputs(
    steps: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = RunFolder(tmp_path / "run")
    run.describe(Description.of(load(FETCH, []), {}, ["fetch-1"]))
    run.rollouts.mkdir()
    (run.rollouts / "000001.jsonl").write_bytes(steps.read_bytes())
    before = run.config_file.read_bytes()
    for name in ("config.json", "rollouts/000001.jsonl"):
        assert main(["inspect", str(run.path), "--json", str(run.path / name)]) == 2
        assert "is the input" in capsys.readouterr().err
    assert run.config_file.read_bytes() == before
    for _ in range(2):  # a report beside the run may be made again
        assert main(["inspect", str(run.path), "--html", str(run.path / "report.html")]) == 0


# Before the work


@pytest.mark.parametrize(
    "words",
    [
        ["advantages", "STEPS", "-o", "nowhere/x.jsonl"],
        ["advantages", "STEPS", "-o", "x.csv"],
        ["advantages", "STEPS", "-o", "folder.jsonl"],
        ["advantages", "STEPS", "--json", "STEPS/x"],
        ["inspect", "STEPS", "--html", "nowhere/x.html"],
        ["inspect", "STEPS", "--json", "folder.jsonl"],
        ["lab", "--quick", "--json", "nowhere/x.json"],
        ["lab", "--quick", "--out", "STEPS/x"],
        ["compare", "run", "--out", "STEPS"],
        ["eval", "expert", "--preset", FETCH, "--logs", "STEPS/logs"],
        ["train", FETCH, "--run", "STEPS"],
        ["train", FETCH, "--run", "STEPS/run"],
        ["sft", FETCH, "--out", "STEPS/model"],
    ],
)
def test_an_output_that_cannot_be_written_is_found_before_the_work(
    words: list[str],
    steps: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def worked(*_: object, **__: object) -> None:
        raise AssertionError("the work has begun")

    for place in (
        "steps.batch.StepBatch.read",
        "inspect.inspect",
        "lab.study.run",
        "runs.compare.compare",
        "runs.evaluation.open_stage",
        "runs.training.open_stage",
        "config.stage.open_stage",
    ):
        monkeypatch.setattr(f"hgpo.{place}", worked)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder.jsonl").mkdir()
    assert main([word.replace("STEPS", str(steps)) for word in words]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "Cannot write" in said or "unknown ending" in said
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder.jsonl", "steps.jsonl"]


def test_a_write_protected_file_or_folder_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "file"
    file.write_text("mine")
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may write everything
    with pytest.raises(BadFile, match="write-protected"):
        check_outputs({"-o": file})
    with pytest.raises(BadFile, match="write-protected"):
        write_text(file, "theirs")
    assert file.read_text() == "mine"

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr("hgpo.files.tempfile.mkstemp", refuse)
    with pytest.raises(BadFile, match="Permission denied"):
        check_folder(tmp_path / "a" / "b")


def test_long_names_and_names_that_are_none(tmp_path: Path) -> None:
    write_text(tmp_path / ("x" * 250), "long")
    assert (tmp_path / ("x" * 250)).read_text() == "long"
    for name in ("x" * 300, "nul\0"):
        with pytest.raises(BadFile, match="Cannot write"):
            write_text(tmp_path / name, "")
    write_text(tmp_path / "half", f"a{chr(0xD800)}b")
    assert (tmp_path / "half").read_text() == "a\\ud800b"


# What a run did not make


@pytest.mark.parametrize(
    "name", ["model", "start", "checkpoints", "results.json", "metrics.jsonl", "curves.png"]
)
@pytest.mark.parametrize("resume", [False, True])
def test_a_run_does_not_begin_over_the_work_of_others(tmp_path: Path, name: str, resume: bool) -> None:
    place = tmp_path / name
    if "." in name:
        place.write_text("mine")
    else:
        place.mkdir()
        (place / "weights").write_text("mine")
    with pytest.raises(BadSetting, match=rf"holds {name}, but no run"):
        train(load(FETCH, []), tmp_path, resume=resume, quiet=True)
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert (place if place.is_file() else place / "weights").read_text() == "mine"


def test_a_log_in_the_folder_is_in_nobodys_way(tmp_path: Path) -> None:
    (tmp_path / "log.txt").write_text("the shell made it")
    RunFolder(tmp_path).require_new()


def test_a_run_does_not_go_on_over_a_model_of_others(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    run.describe(Description.of(load(FETCH, []), {}, ["fetch-1"]))
    run.model.mkdir()
    (run.model / "model.safetensors").write_text("mine")
    with pytest.raises(BadSetting, match="was not made by the run"):
        train(None, tmp_path, resume=True, quiet=True)
    assert (run.model / "model.safetensors").read_text() == "mine"


# Names


def test_names_stay_inside_their_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("../../x", "/x", "a/b", "..", ".hidden", "x" * 200, "a\nb"):
        with pytest.raises(BadSetting, match="cannot name a folder"):
            RunFolder.default("quickstart", load(FETCH, [f"name={name}"]))
    assert main(["train", FETCH, "name=../../x"]) == 2
    assert "cannot name a folder" in capsys.readouterr().err
    assert RunFolder.default("quickstart", load(FETCH, ["name=fine-1.5_b"])).path.name == "fine-1.5_b_seed0"
    inside = RunFolder.default("../elsewhere/my.toml", load(FETCH, [])).path
    assert inside.parent == Path("runs/my.toml")
    for name in ("..", "../..", "/etc", "a/../../b", "", "x" * 500, "a\0b", chr(0xD800)):
        assert os.path.normpath(Path("logs") / safe_name(name)).startswith("logs/")
    folder = EvaluationFolder(tmp_path / "logs", "1234")
    assert folder.write_result("../up", {}).parent == tmp_path / "logs"


# A full disk


def test_a_full_disk_leaves_the_old_file_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "file"
    target.write_text("old")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(DiskFull, match="no space left"):
            write_text(target, "new")
    with pytest.raises(DiskFull, match="no space left"), atomic_path(target):
        full()
    with pytest.raises(DiskFull, match="no space left"), atomic_folder(tmp_path / "model"):
        full()
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert target.read_text() == "old"


def test_a_comparison_replaces_only_a_comparison(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = write_run(tmp_path / "run", "hgpo", 1, [0.1, 0.2])
    for name in ("comparison.json", "comparison.html", "comparison.png"):
        place = tmp_path / name
        place.mkdir()
        (place / name).write_text("mine")
        assert main(["compare", run, "--out", str(place)]) == 2
        assert "would be overwritten" in capsys.readouterr().err
        assert (place / name).read_text() == "mine"
        assert len(list(place.iterdir())) == 1
    ours = str(tmp_path / "ours")
    assert main(["compare", run, "--out", ours]) == 0
    assert main(["compare", run, "--out", ours]) == 0


def test_a_dataset_is_not_written_over_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "validation-in-domain.parquet").write_text("mine")
    assert main(["verl", "data", FETCH, "--out", str(tmp_path)]) == 2
    assert "would be overwritten" in capsys.readouterr().err
    assert [path.read_text() for path in tmp_path.iterdir()] == ["mine"]


def test_whoever_may_read_new_files_may_read_those_of_a_folder_that_appears_whole(tmp_path: Path) -> None:
    umask = os.umask(0o027)
    try:
        with atomic_folder(tmp_path / "model") as partial:
            (partial / "shards").mkdir()
            for name, mode in (
                ("weights", 0o600),
                ("shards/first", 0o600),
                ("plain", 0o640),
                ("tool", 0o750),
            ):
                (partial / name).write_text("w")
                (partial / name).chmod(mode)
    finally:
        os.umask(umask)
    modes = {
        path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "model").rglob("*") if path.is_file()
    }
    assert modes == {"weights": 0o640, "first": 0o640, "plain": 0o640, "tool": 0o750}


def test_a_folder_of_somebody_else_beside_the_output_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / ".partial-model").mkdir()
    with atomic_folder(tmp_path / "model") as partial:
        (partial / "weights").write_text("w")
    assert (tmp_path / ".partial-model").is_dir()
