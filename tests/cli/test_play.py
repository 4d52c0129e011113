"""`hgpo play` as a person would use it."""

from __future__ import annotations

import subprocess
import sys


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
