"""The stage: every preset finds the tasks it trains and is evaluated on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from hgpo.config import as_dict
from hgpo.config.stage import open_stage
from hgpo.config.stored import read_stored
from hgpo.envs.actors import ReplayActor
from hgpo.envs.prompt import Remembered, Situation
from hgpo.errors import BadSetting, UnknownName, UntrustedCode
from hgpo.play import FullMemory, Job, Memory
from hgpo.policies.scripted import ScriptedPolicy
from hgpo.runs import load, preset_names

from ..worlds import Fetch

DATA = {"alfworld": "alfworld/games_compact.jsonl.xz", "webshop": "webshop"}


@pytest.mark.parametrize("name", preset_names())
def test_every_preset_has_tasks_to_train_and_to_evaluate(name: str, request: pytest.FixtureRequest) -> None:
    config = load(name)
    settings = []
    if config.env.name in DATA:
        shared: Path = request.getfixturevalue("shared")
        settings = [f"env.data={shared / DATA[config.env.name]}"]
    config = load(name, settings)
    stage = open_stage(config)
    training = set(stage.tasks(config.env.split))
    for split in config.eval.splits:
        held_out = stage.tasks(split, config.eval.tasks)
        assert held_out
        assert not training & set(held_out)


def test_an_unknown_split_is_named() -> None:
    config = load("quickstart")
    with pytest.raises(UnknownName, match=r"split of household 'in_domain'.*in-domain"):
        open_stage(config).tasks("in_domain")


class Talker(Fetch):
    """Writes its own prompts and keeps its own memory."""

    def prompt(self, situation: Situation) -> str:
        past = " / ".join(f"{entry.step}:{entry.action}" for entry in situation.history)
        return f"{situation.task} [{past}] act in <action></action>"

    def memory(self) -> Memory:
        return Firsts()


class Firsts(FullMemory):
    """Remembers the first step only."""

    def recall(self) -> Sequence[Remembered]:
        return super().recall()[:1]


class Words:
    """Recalls what no prompt can show."""

    def reset(self) -> None: ...

    def add(self, observation: str, action: str) -> None: ...

    def recall(self) -> list[str]:
        return ["all"]


def prompts(*words: str) -> list[str]:
    """The prompts of an episode that waits five times."""
    stage = open_stage(load(None, [f"env={__name__}:Talker", "max_steps=5", *words]))
    policy = ScriptedPolicy(lambda: ReplayActor(["wait"]), stage.style)
    steps = stage.play(policy, [Job("fetch-1", "g", 0, 0)]).episodes[0].steps
    assert {step.outcome for step in steps} <= {"inadmissible"}
    assert {step.action for step in steps} == {"wait"}
    return [step.prompt for step in steps]


def test_memory_is_the_last_pairs_all_or_an_object_of_the_users() -> None:
    counts = {"window": [0, 1, 2, 2, 2], "full": [0, 1, 2, 3, 4], f"{__name__}:Firsts": [0, 1, 1, 1, 1]}
    for memory, expected in counts.items():
        written = prompts("agent.prompt=generic", "agent.reasoning=false", f"agent.memory={memory}")
        assert [text.count("You did: wait") for text in written] == expected
    for memory, words in (
        ("windw", "unknown memory 'windw'"),
        (f"{__name__}:Nothing", f"has no 'Nothing'.*{__name__}:Nothing|{__name__}:Nothing.*has no 'Nothing'"),
        (f"{__name__}:Talker", "without add, recall"),
        (f"{__name__}:Words", "recalls a str"),
    ):
        with pytest.raises((BadSetting, UnknownName), match=f"(?i){words}"):
            prompts("agent.prompt=generic", f"agent.memory={memory}")


def test_an_environment_brings_its_prompt_and_its_memory() -> None:
    written = prompts("agent.prompt=env", "agent.memory=env")
    assert written[0].endswith("[] act in <action></action>")
    assert all("[0:wait]" in text for text in written[1:])
    for word in ("agent.prompt=env", "agent.memory=env"):
        stage = open_stage(load(None, [f"env={Fetch.__module__}:Fetch", "agent.prompt=generic", word]))
        policy = ScriptedPolicy(lambda: ReplayActor(["wait"]), stage.style)
        with pytest.raises(BadSetting, match="no method"):
            stage.play(policy, [Job("fetch-1", "g", 0, 0)])


def test_a_folder_may_not_name_a_memory_that_is_code(tmp_path: Path) -> None:
    stored = as_dict(load(None, [f"agent.memory={__name__}:Firsts"]))
    with pytest.raises(UntrustedCode, match=r"agent\.memory="):
        read_stored(stored, tmp_path)
    assert read_stored(stored, tmp_path, [f"agent.memory={__name__}:Firsts"]).agent.memory.endswith("Firsts")
