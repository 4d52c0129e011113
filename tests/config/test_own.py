"""An environment where a preset might stand: the preset `own`, fitted to what the environment brings."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hgpo.config import load
from hgpo.config.preset import is_environment
from hgpo.config.stored import named_env
from hgpo.envs import registry
from hgpo.errors import BadSetting, UnknownName

FILE = """
from hgpo.envs import Observation, Transition
import {helper}

class Room:
    splits = {splits}

    def __init__(self, size: int = 3):
        self.size = size

    def tasks(self, split): return ["a", "b"]
    def reset(self, task, *, seed=None): return Observation("A room.", ["Leave"])
    def step(self, action): return Transition("Out.", 1.0, True, False, ["Leave"], True, 1.0)
    def close(self): pass
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, the current one; what was importable stays so."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        "sys.path", [path for path in __import__("sys").path if path not in ("", os.getcwd())]
    )
    return tmp_path


def write(folder: Path, name: str, splits: str = '("train", "in-domain")', more: str = "") -> str:
    helper = f"helper_of_{Path(name).stem}"
    place = folder / name
    place.parent.mkdir(exist_ok=True)
    place.with_name(f"{helper}.py").write_text("")
    place.write_text(FILE.format(splits=splits, helper=helper) + more)
    return f"{name}:Room"


def test_an_environment_stands_for_the_preset_own(folder: Path) -> None:
    config = load(write(folder, "room_a.py"), ["env.size=5", "update.lr=1e-5"])
    assert config.env.name == "room_a.py:Room"
    assert config.env.settings == {"size": 5}
    assert (config.agent.prompt, config.agent.memory, config.update.lr) == ("plain", "window", 1e-5)
    assert (config.model.tokenizer, config.warm.source, config.eval.splits) == (
        "exact",
        "auto",
        ("in-domain",),
    )
    assert load("own").env.name == "household"
    assert named_env("room_a.py:Room") == ("room_a.py:Room",)


def test_a_language_model_has_settings_of_its_own(folder: Path) -> None:
    config = load(write(folder, "room_l.py"), ["model=somewhere/model"])
    assert (config.model.path, config.agent.prompt, config.warm.source) == (
        "somewhere/model",
        "generic",
        "auto",
    )
    assert config.update.lr < 1e-4
    assert config.env.name == "room_l.py:Room"


@pytest.mark.parametrize(
    ("splits", "train", "held_out"),
    [
        ('("train", "test")', "train", "test"),
        ('["easy"]', "easy", "easy"),
        ('("dev", "train")', "train", "dev"),
    ],
)
def test_its_own_splits_are_used(folder: Path, splits: str, train: str, held_out: str) -> None:
    config = load(write(folder, f"room_{train}_{held_out}.py", splits))
    assert config.env.split == train
    assert config.eval.splits == (held_out,)


def test_its_own_prompt_and_memory_are_used(folder: Path) -> None:
    own = "    def prompt(self, situation): return situation.observation\n    def memory(self): return None\n"
    name = write(folder, "room_p.py", more=own)
    assert (load(name).agent.prompt, load(name).agent.memory) == ("env", "env")
    assert load(name, ["agent.prompt=generic"]).agent.prompt == "generic"


def test_addresses_find_modules_of_the_current_folder_and_files_beside_a_file(folder: Path) -> None:
    write(folder, "room_m.py")
    assert registry.make("room_m:Room").tasks("train") == ["a", "b"]
    assert registry.make(write(folder, "deep/room_d.py")).tasks("train") == ["a", "b"]


def test_what_is_an_environment() -> None:
    assert is_environment("cave.py:Cave")
    assert is_environment("babyai")
    assert not is_environment("shop"), "a preset has that name"
    assert not is_environment("mine.toml")
    with pytest.raises(UnknownName, match=r"FILE\.py:Class"):
        load("quikstart")


def test_a_class_that_cannot_be_loaded_gets_one_sentence_with_the_cause(folder: Path) -> None:
    write(folder, "room_x.py")
    (folder / "broken.py").write_text("import no_such_package_anywhere\n")
    for name, words in (
        ("room_x.py:Rom", "room_x.py has no 'Rom'; it has Room"),
        ("nowhere.py:Room", "there is no file nowhere.py"),
        ("broken.py:Room", "No module named 'no_such_package_anywhere'"),
    ):
        with pytest.raises(BadSetting, match=words) as error:
            load(name)
        assert "\n" not in str(error.value)
