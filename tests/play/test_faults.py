"""Environments are foreign code: whatever they do is a failure that is named, tried again and counted."""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hgpo.envs import Observation, TextEnv, Transition
from hgpo.envs.answers import observation, transition
from hgpo.envs.pool import EnvPool
from hgpo.envs.supervised import Incidents, SupervisedEnv
from hgpo.errors import BadEnv, BadSetting, EnvironmentFailed, UnknownName
from hgpo.play import Collection, Environments, Job, Limits, Stage, WindowMemory, collect, style
from hgpo.policies.scripted import ScriptedPolicy

from ..envs.wrong_env import ANYWHERE, LISTS, MODE, STEP, Wrong
from ..worlds import Expert, Fetch

COMPACT = style("compact")
NAME = "tests.envs.wrong_env:Wrong"
FAULTS = [*(("reset", fault) for fault in ANYWHERE), *(("step", fault) for fault in MODE)]


def play(make: Callable[[], Any], policy: Any = None, attempts: int = 3) -> Collection:
    """Four groups of two."""
    pool = EnvPool(make, 8, blocking=False, name="my:World")
    jobs = [Job(f"fetch-{n}", f"fetch-{n}", index, 10 * n + index) for n in range(4) for index in range(2)]
    return asyncio.run(
        collect(
            jobs,
            pool,
            policy or ScriptedPolicy(Expert, COMPACT),
            lambda: WindowMemory(1),
            style=COMPACT,
            limits=Limits(6, 100),
            attempts=attempts,
        )
    )


@pytest.mark.parametrize(("where", "fault"), [*FAULTS, ("step", "exit"), ("reset", "exit")])
def test_a_fault_costs_its_group_and_nothing_else(where: str, fault: str) -> None:
    found = play(lambda: Wrong(fault, where, on="fetch-2"))
    assert found.dropped == ("fetch-2",)
    assert [one.group for one in found.episodes] == [
        "fetch-0",
        "fetch-0",
        "fetch-1",
        "fetch-1",
        "fetch-3",
        "fetch-3",
    ]
    assert 3 <= found.failures <= 6
    assert 2 <= found.retries <= 4
    assert "The environment my:World failed on task 'fetch-2': " in found.causes[0]
    assert (MODE[fault][1] if fault in MODE else "SystemExit: 7") in found.causes[0]
    assert len(found.causes[0]) < 1000


@pytest.mark.parametrize("where", ["made", "reset", "step"])
@pytest.mark.parametrize("fault", ["raises", "raises-setting", "raises-failed", "raises-own", "exit"])
def test_a_fault_that_passes_is_only_counted(tmp_path: Path, where: str, fault: str) -> None:
    found = play(lambda: Wrong(fault, where, times=2, marks=str(tmp_path)))
    assert len(found.episodes) == 8
    assert (found.failures, found.retries, found.dropped) == (2, 2, ())
    assert "my:World" in found.causes[0]
    assert "on task 'fetch-" in found.causes[0] or "for task 'fetch-" in found.causes[0]


def test_no_environment_can_be_made() -> None:
    found = play(lambda: Wrong("raises-setting", "made"))
    assert len(found.dropped) == 4
    assert "The environment my:World could not be made for task 'fetch-0': BadSetting" in found.causes[0]


@pytest.mark.parametrize(
    ("act", "said"),
    [(lambda _: 3, "the action is 3"), (lambda _: 1 / 0, "ZeroDivisionError"), (lambda _: None, "is None")],
)
def test_an_expert_is_foreign_too(act: Callable[[Any], Any], said: str) -> None:
    class Mad(Expert):
        def act(self, seen: Observation | Transition) -> str:
            return act(seen)  # type: ignore[no-any-return]

    found = play(Fetch, ScriptedPolicy(Mad, COMPACT))
    assert not found.episodes
    assert said in found.causes[0]


def test_numpy_is_welcome() -> None:
    seen = transition(
        Transition(
            np.str_("text"),
            np.float32(0.5),
            np.bool_(True),
            np.bool_(False),
            (np.str_("go"),),
            np.bool_(True),
            np.int64(1),
            {"n": np.int64(3), "deep": ({"x": np.float64(0.5)}, np.bool_(True), None)},
        )
    )
    assert seen == Transition(
        "text", 0.5, True, False, ["go"], True, 1.0, {"n": 3, "deep": [{"x": 0.5}, True, None]}
    )
    plain = [seen.text, seen.reward, seen.terminated, seen.admissible[0], seen.score, seen.info["n"]]
    assert [type(value) for value in plain] == [str, float, bool, str, float, int]
    assert observation(Observation("čaj ☕")) == Observation("čaj ☕", [])


# The same behind a worker


@pytest.mark.parametrize(
    ("where", "fault"),
    [("reset", "text-none"), ("step", "raises-setting"), *(("step", fault) for fault in STEP)],
)
def test_a_worker_refuses_the_same(where: str, fault: str) -> None:
    env = SupervisedEnv(NAME, {"fault": fault, "where": where}, attempts=1)
    try:
        if where == "step":
            env.reset("fetch-1")
        act = env.step if where == "step" else env.reset
        with pytest.raises(EnvironmentFailed, match=re.escape(MODE[fault][1])):
            act("fetch-1")
        assert env.incidents == Incidents(raised=1, failures=1)
    finally:
        env.close()


def test_an_environment_cannot_read_what_its_worker_is_told() -> None:
    env = SupervisedEnv(NAME, {"fault": "reads"}, attempts=1, step_timeout=20)
    env.reset("fetch-1")
    with pytest.raises(EnvironmentFailed, match="EOFError"):
        env.step("give")
    env.close()


def stage(fault: str, where: str, *, supervised: bool, attempts: int = 2, **settings: Any) -> Stage:
    return Stage(
        Environments(
            NAME,
            {"fault": fault, "where": where, **settings},
            supervised=supervised,
            reset_timeout=3.0 if fault == "hang" else 60.0,
            attempts=attempts,
        ),
        style=COMPACT,
        limits=Limits(6, 100),
        memory=lambda: WindowMemory(1),
    )


@pytest.mark.parametrize("fault", [*LISTS, "raises", "exit"])
def test_tasks_that_are_no_list_of_tasks(fault: str) -> None:
    one = stage(fault, "tasks", supervised=False)
    with pytest.raises(EnvironmentFailed, match=rf"{NAME} did not list the tasks of 'train' \(2 tries\)"):
        one.tasks("train")
    assert one.take_failures() == 2
    assert one.take_failures() == 0


def test_tasks_are_asked_for_again(tmp_path: Path) -> None:
    one = stage("none", "tasks", supervised=False, times=1, marks=str(tmp_path))
    assert len(one.tasks("train")) == 4
    assert one.take_failures() == 1
    with pytest.raises(UnknownName, match="in-domain"):
        one.tasks("in-doman")
    with pytest.raises(UnknownName, match="Did you mean 'fault'"):
        stage("none", "tasks", supervised=False, falt=1).tasks("train")


@pytest.mark.parametrize("where", ["made", "tasks"])
@pytest.mark.parametrize("fault", ["hang", "exit", "raises"])
def test_a_process_that_never_gets_to_its_tasks(where: str, fault: str) -> None:
    one = stage(fault, where, supervised=True)
    began = time.monotonic()
    with pytest.raises(EnvironmentFailed, match=f"{NAME} did not list the tasks of 'train'"):
        one.tasks("train")
    assert time.monotonic() - began < 60
    assert one.take_failures() == 2
    one.close()


def test_a_stage_of_processes_asks_a_process() -> None:
    """Nothing of the environment runs in this process, unless its expert is asked for."""
    one = stage("raises", "step", supervised=True)
    assert isinstance(one.task_source, SupervisedEnv)
    assert one.tasks("train") == ["fetch-0", "fetch-1", "fetch-2", "fetch-3"]
    assert one.world_version() == 1
    assert isinstance(one.expert_source, Wrong)
    one.close()


def test_an_expert_that_cannot_be_made() -> None:
    with pytest.raises(EnvironmentFailed, match="could not be made: RuntimeError: it fell over"):
        _ = stage("raises", "made", supervised=True).expert_source
    with pytest.raises(BadSetting):
        _ = stage("raises-setting", "made", supervised=True).expert_source


def test_a_version_that_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Wrong, "world_version", True, raising=False)
    with pytest.raises(BadEnv, match="world_version is True"):
        stage("raises", "step", supervised=False).world_version()


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs /proc")
@pytest.mark.parametrize("end", ["close", "crash", "hang"])
def test_what_an_environment_started_ends_with_its_worker(end: str, tmp_path: Path) -> None:
    env = SupervisedEnv(NAME, {"fault": "child"}, step_timeout=20, attempts=1)
    env.reset("fetch-1")
    child = env.step("give").info["child"]
    assert alive(child)
    assert env._worker is not None
    worker = env._worker.process.pid
    if end == "crash":
        os.kill(worker, 9)
    if end == "hang":
        os.kill(worker, 19)
        env.step_timeout = 0.5
    if end == "close":
        env.close()
    else:
        with pytest.raises(EnvironmentFailed):
            env.step("give")
    deadline = time.monotonic() + 10
    while (alive(child) or alive(worker)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not alive(child)
    assert not alive(worker)
    env.close()


def test_the_working_directory_is_not_searched_for_modules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "json.py").write_text("raise SystemExit('the wrong json')\n")
    monkeypatch.chdir(tmp_path)
    env: TextEnv = SupervisedEnv("household", {"size": "tiny"}, attempts=1)
    assert env.splits
    env.close()
