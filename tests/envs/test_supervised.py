"""Supervised workers: hang, crash and raise are survived, counted, and given up in the end."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from hgpo.envs import TextEnv, check_env, make
from hgpo.envs.supervised import Incidents, SupervisedEnv
from hgpo.errors import BadSetting, EnvironmentFailed, ResetNeeded, UnknownName, UnknownTask

FACTORY = "tests.envs.faulty_env:FaultyEnv"


def supervised(tmp_path: Path, timeout: float = 20.0, **settings: Any) -> SupervisedEnv:
    settings = {"tally": str(tmp_path / "tally"), **settings}
    return SupervisedEnv(FACTORY, settings, step_timeout=timeout, reset_timeout=30)


def test_same_as_in_process() -> None:
    env = SupervisedEnv("household", {"size": "tiny"})
    plain: Any = make("household", size="tiny")
    assert isinstance(env, TextEnv)
    assert list(env.splits) == list(plain.splits)
    assert env.tasks("in-domain") == plain.tasks("in-domain")
    task = env.tasks("in-domain")[3]
    assert env.reset(task) == plain.reset(task)
    for command in ["look", "dance", *plain.walkthrough(task)]:
        assert env.step(command) == plain.step(command)
    with pytest.raises(UnknownTask, match="Unknown task 'nope'"):
        env.reset("nope")
    with pytest.raises(UnknownName, match="Unknown split 'x'"):
        env.tasks("x")
    with pytest.raises(ResetNeeded):
        env.step("look")
    env.reset(task)
    assert env.incidents == Incidents()
    env.close()
    with pytest.raises(ResetNeeded):
        env.step("look")


def test_passes_the_checker() -> None:
    env = SupervisedEnv("household", {"size": "tiny"})
    check_env(env, episodes=1)
    env.close()


@pytest.mark.parametrize(
    ("fault", "timeout", "expected"),
    [
        ("hang", 2.0, Incidents(timeouts=1, restarts=1, replays=1)),
        ("crash", 20.0, Incidents(deaths=1, restarts=1, replays=1)),
        ("raise", 20.0, Incidents(raised=1, restarts=1, replays=1)),
    ],
)
def test_one_fault_is_invisible_to_the_agent(
    tmp_path: Path, fault: str, timeout: float, expected: Incidents
) -> None:
    env = supervised(tmp_path, timeout, fault=fault, at=3)
    first = env.reset("b", seed=7)
    seen = [env.step(f"go {number}") for number in range(4)]
    assert first.text == "task b seed 7"
    assert [t.text for t in seen] == ["b 1 go 0", "b 2 go 1", "b 3 go 2", "b 4 go 3"]
    assert seen[2].info["pid"] != seen[1].info["pid"]
    assert env.incidents == expected
    env.close()


def test_output_of_the_environment_does_not_spoil_the_pipe(tmp_path: Path) -> None:
    env = supervised(tmp_path, fault="garbage", at=1)
    env.reset("a")
    assert env.step("x").text == "a 1 x"
    assert env.incidents == Incidents()
    env.close()


@pytest.mark.parametrize(("fault", "word"), [("crash", "status 3"), ("raise", "the engine is upset")])
def test_a_lasting_fault_is_given_up(tmp_path: Path, fault: str, word: str) -> None:
    env = supervised(tmp_path, fault=fault, at=2, times=100)
    env.reset("a")
    env.step("x")
    with pytest.raises(EnvironmentFailed, match=word):
        env.step("y")
    assert env.incidents.failures == 1
    assert env.incidents.restarts == 2
    with pytest.raises(ResetNeeded):
        env.step("y")
    assert env.reset("b").text == "task b seed None"  # the next episode gets a new worker
    env.close()


def test_a_worker_that_cannot_start_is_given_up(tmp_path: Path) -> None:
    env = supervised(tmp_path, fault="start", times=100)
    with pytest.raises(EnvironmentFailed, match="reset failed 3 times"):
        env.reset("a")
    assert env.incidents.deaths == 3
    other = supervised(tmp_path / "missing" / "x", unknown_setting=1)
    with pytest.raises(UnknownName, match=r"unknown_setting.*Known: at, fault, tally, times"):
        other.reset("a")


def test_an_episode_that_replays_differently_is_not_used(tmp_path: Path) -> None:
    env = supervised(tmp_path, fault="forget", at=3)
    env.reset("a")
    env.step("x")
    env.step("y")
    with pytest.raises(EnvironmentFailed, match="went differently"):
        env.step("z")
    env.close()


def test_workers_are_recycled(tmp_path: Path) -> None:
    env = SupervisedEnv(FACTORY, {"tally": str(tmp_path / "tally")}, recycle_after=2)
    pids = [env.reset("a").info["pid"] for _ in range(5)]
    assert pids[0] == pids[1] != pids[2] == pids[3] != pids[4]
    assert env.incidents == Incidents()
    env.close()


def test_large_messages_pass(tmp_path: Path) -> None:
    env = supervised(tmp_path)
    env.reset("a")
    action = "long " * 100_000
    assert env.step(action).text == f"a 1 {action}"
    env.close()


def test_closing_is_quick_even_when_the_worker_hangs(tmp_path: Path) -> None:
    env = supervised(tmp_path, timeout=0.5, fault="hang", at=1, times=100)
    env.reset("a")
    start = time.monotonic()
    with pytest.raises(EnvironmentFailed, match=r"no answer within 0\.5 s"):
        env.step("x")
    env.close()
    assert time.monotonic() - start < 30
    assert env.incidents.timeouts == 3


def test_settings_are_checked(tmp_path: Path) -> None:
    with pytest.raises(BadSetting, match="JSON-like"):
        SupervisedEnv(FACTORY, {"tally": tmp_path})
    with pytest.raises(BadSetting, match="at least 1 attempt"):
        SupervisedEnv(FACTORY, attempts=0)
    with pytest.raises(BadSetting, match="Cannot start a worker"):
        SupervisedEnv(FACTORY, python=str(tmp_path / "python")).reset("a")


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs /proc")
def test_workers_do_not_outlive_a_killed_parent(tmp_path: Path) -> None:
    """Even one whose environment hangs."""
    code = (
        "import os, sys\n"
        "from hgpo.envs.supervised import SupervisedEnv\n"
        f"env = SupervisedEnv({FACTORY!r}, {{'tally': {str(tmp_path / 'tally')!r}, 'fault': 'hang', 'at': 1}})\n"
        "print(env.reset('a').info['pid'], flush=True)\n"
        "env.step('x')\n"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
    )
    assert parent.stdout is not None
    worker = int(parent.stdout.readline())
    parent.kill()
    parent.wait()
    deadline = time.monotonic() + 30
    while Path(f"/proc/{worker}").exists() and time.monotonic() < deadline:
        if "Z" in Path(f"/proc/{worker}/stat").read_text().split(")")[1].split()[0]:
            break
        time.sleep(0.2)
    assert time.monotonic() < deadline
