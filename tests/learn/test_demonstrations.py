"""Warm starts without an expert: random play that succeeded, the form of a reply alone, a file of steps."""

from __future__ import annotations

import collections
from pathlib import Path
from typing import Any

import pytest

from hgpo.config import Config, load
from hgpo.config.stage import open_stage
from hgpo.errors import BadFile, BadSetting
from hgpo.learn.demonstrations import Demonstrations, demonstrate, in_turn
from hgpo.play import Job, record
from hgpo.policies.scripted import ExploringPolicy, ScriptedPolicy
from hgpo.runs.start import check_written, prepare
from hgpo.steps.batch import StepBatch

from ..envs import own_worlds
from ..worlds import Expert, Fetch

DESK = f"{own_worlds.__name__}:Desk"
SWITCHES = f"{own_worlds.__name__}:Switches"
FETCH = f"{Fetch.__module__}:Fetch"


def nobody() -> Any:
    raise AssertionError("no expert was asked for")


def found(env: str, *words: str, expert: Any = nobody) -> tuple[Demonstrations, Config]:
    config = load(env, ["warm.episodes=200", *words])
    return demonstrate(open_stage(config), config, expert), config


def test_random_play_that_succeeded_is_cloned() -> None:
    only, _ = found(DESK, "warm.source=random")
    assert only.steps.flag("success").all()
    assert 0.05 < only.success < 0.9
    everything, _ = found(DESK, "warm.source=format")
    assert len(everything.steps) > 2 * len(only.steps)
    assert set(everything.steps["outcome"]) == {"ok"}, "every command is admissible, as it is listed"
    assert everything.success == only.success


def test_auto_takes_the_expert_where_there_is_one_and_chance_elsewhere() -> None:
    expert, _ = found(FETCH, "warm.source=auto", "warm.noise=0", expert=Expert)
    assert expert.kind == "expert"
    assert expert.success == 1
    chance, _ = found(DESK, "warm.source=auto")
    assert "the solved ones more often" in chance.kind
    assert 0.4 < chance.steps.flag("success").mean() < 0.6


def test_the_types_of_task_take_turns() -> None:
    names = ["x1", "x2", "x3", "y1", "z1", "y2"]
    assert in_turn(names, [name[0] for name in names]) == ["x1", "y1", "z1", "x2", "y2", "x3"]
    words = ["env.size=tiny", "warm.episodes=12", "warm.noise=0", "agent.prompt=compact"]
    shown = []
    for each in ("false", "true"):
        config = load("household-smollm2", [*words, f"warm.each_type={each}"])
        stage = open_stage(config)
        steps = demonstrate(stage, config, stage.expert_source.expert).steps  # type: ignore[attr-defined]
        shown.append(collections.Counter(dict(zip(steps["trajectory"], steps["task_type"])).values()))
    assert max(shown[1].values()) == min(shown[1].values())
    assert len(shown[1]) == 6
    assert max(shown[0].values()) > min(shown[0].values(), default=0)


def test_where_no_command_is_listed_the_text_suggests_them() -> None:
    tried, _ = found(SWITCHES, "warm.source=format")
    assert tried.success > 0.05
    assert any(action.startswith("Press ") for action in tried.steps["action"])
    again, _ = found(SWITCHES, "warm.source=format")
    assert again.steps["action"].tolist() == tried.steps["action"].tolist()


def test_nothing_that_succeeded_is_said() -> None:
    with pytest.raises(BadSetting, match=r"warm\.source=format"):
        found(DESK, "warm.source=random", "max_steps=1")


@pytest.mark.parametrize("style", ["plain", "generic"])
def test_a_file_of_steps_is_written_in_the_style_of_the_run(tmp_path: Path, style: str) -> None:
    recording = open_stage(load(FETCH, ["agent.prompt=compact"]))
    jobs = [Job(task, task, 0, 1) for task in recording.tasks("train", 6)]
    episodes = [
        *recording.play(ScriptedPolicy(Expert, recording.style), jobs).episodes,
        *recording.play(ExploringPolicy(recording.style), [Job("fetch-9", "other", 0, 3)]).episodes,
    ]
    batch = record(episodes)
    keep = [name for name in batch.column_names if name not in ("prompt", "response") and "ids" not in name]
    path = tmp_path / "steps.jsonl"
    StepBatch.from_arrays(**{name: batch.column(name) for name in keep if name != "logprobs"}).write(path)
    read, config = found(FETCH, f"warm.source={path}", f"agent.prompt={style}", "agent.reasoning=false")
    solved = sum(one.success for one in episodes)
    assert read.episodes == 7
    assert read.success == pytest.approx(solved / 7)
    stage = open_stage(config)
    played = stage.play(ScriptedPolicy(Expert, stage.style), jobs[:1]).episodes[0]
    rows = [number for number, task in enumerate(read.steps["task"]) if task == jobs[0].task]
    assert [read.steps["prompt"][row] for row in rows] == [step.prompt for step in played.steps]
    assert [read.steps["response"][row] for row in rows] == [step.response for step in played.steps]
    some, _ = found(FETCH, f"warm.source={path}", "warm.episodes=2")
    assert len(set(some.steps["trajectory"])) == 2


def test_a_file_that_holds_nothing_to_clone_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadFile, match="no such file"):
        found(FETCH, f"warm.source={tmp_path / 'nowhere.jsonl'}")
    path = tmp_path / "steps.jsonl"
    row = {"task": ["a"], "trajectory": ["x"], "step": [0], "observation": ["o"], "reward": [0.0]}
    StepBatch.from_arrays(**row).write(path)
    with pytest.raises(BadFile, match="no column `action`"):
        found(FETCH, f"warm.source={path}")
    StepBatch.from_arrays(**row, action=["give"], success=[False]).write(path)
    with pytest.raises(BadFile, match="no successful trajectory"):
        found(FETCH, f"warm.source={path}")


def test_a_tokenizer_that_cannot_write_the_commands_is_refused(tmp_path: Path) -> None:
    import torch

    from hgpo.models.tiny import make_tokenizer
    from hgpo.runs.tracking import Screen

    config = load(DESK, ["model.tokenizer=word", "warm.episodes=50"])
    stage = open_stage(config)
    with pytest.raises(BadSetting, match=r"\"Open\".*becomes.*model\.tokenizer=exact"):
        prepare(config, stage, tmp_path / "start", torch.device("cpu"), Screen(0, quiet=True))
    steps, _ = found(DESK, "warm.source=format")
    exact = make_tokenizer(
        [f"{p} {r}" for p, r in zip(steps.steps["prompt"], steps.steps["response"])], "exact", 900
    )
    check_written(steps.steps, exact, stage, "exact")


def test_few_demonstrations_are_passed_over_more_often(tmp_path: Path) -> None:
    import io

    import torch

    from hgpo.runs.tracking import Screen

    said = io.StringIO()
    config = load(FETCH, ["warm.episodes=10", "warm.updates=5", "warm.noise=0"])
    prepare(config, open_stage(config), tmp_path / "start", torch.device("cpu"), Screen(0, said))
    assert "20 steps to clone" in said.getvalue()
    assert "warm start: 5 updates" in said.getvalue()
