"""`hgpo play` as a person would use it."""

from __future__ import annotations

import io
import subprocess
import sys

import pytest

from hgpo.cli import main


def play(*words: str, typed: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "hgpo", "play", *words],
        input=typed,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_a_person_plays_by_number_and_by_word() -> None:
    done = play("household", "size=tiny", typed="1\nlook\nnonsense\nquit\n")
    assert done.returncode == 0, done.stderr
    assert "[household, task tiny/train/00000]" in done.stdout
    assert "Your task is to: " in done.stdout
    assert "1. go to " in done.stdout
    assert "You arrive at" in done.stdout
    assert "You are facing" in done.stdout
    assert "Nothing happens." in done.stdout
    assert done.stdout.endswith("Left.\n")


def test_an_expert_plays() -> None:
    done = play("household", "--split", "out-of-domain", "--task", "5", "--policy", "expert")
    assert done.returncode == 0, done.stderr
    assert "Solved after" in done.stdout


def test_running_out_of_steps_has_its_own_status() -> None:
    done = play("household", "max_steps=2", "--policy", "random", "--seed", "4")
    assert done.returncode == 1
    assert done.stdout.endswith("Out of steps after 2 steps.\n")


def test_mistakes_get_one_sentence() -> None:
    for words, message in (
        (("houshold",), "Unknown environment 'houshold'. Did you mean 'household'?"),
        (
            ("household", "sizes=tiny"),
            "Unknown setting of the environment 'household': 'sizes'. Did you mean 'size'?",
        ),
        (("household", "tiny"), "'tiny' is not a setting; expected key=value"),
        (("household", "--task", "99999"), "the split has 3000 tasks"),
        (("household", "--task", "small/train/x"), "Unknown task 'small/train/x'"),
        (("alfworld", "data=/nowhere/games"), "/nowhere/games"),
        (("household", "--policy", "experts"), "Did you mean 'expert'?"),
    ):
        done = play(*words)
        assert done.returncode == 2, (words, done.stdout, done.stderr)
        assert message in done.stderr
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize("policy", [[], ["--policy", "expert"]])
@pytest.mark.parametrize("where", ["made", "tasks", "reset", "step"])
@pytest.mark.parametrize("fault", ["raises", "raises-own", "exit", "returns-none", "text-none"])
def test_a_failing_environment_is_named(
    policy: list[str],
    where: str,
    fault: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if where in ("made", "tasks") and fault in ("returns-none", "text-none"):
        fault = "raises"
    monkeypatch.setattr("sys.stdin", io.StringIO("take left\n" * 9))
    assert main(["play", "tests.envs.wrong_env:Wrong", f"fault={fault}", f"where={where}", *policy]) == 2
    said = capsys.readouterr().err
    assert said.startswith("hgpo play: The environment tests.envs.wrong_env:Wrong failed")
    assert ("on task 'fetch-0'" in said) == (where in ("reset", "step"))


@pytest.mark.parametrize("words", [["--split", "nothere"], ["--task", "nothere"], ["--task", "99"]])
def test_a_task_that_is_not_there(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["play", "tests.worlds:Fetch", *words, "--policy", "expert"]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
