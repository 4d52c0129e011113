"""Presets say what differs from their base, and still mean what they meant when each was written out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hgpo.config import as_dict, load, preset_description, preset_names, resolved_estimator
from hgpo.config.preset import preset_tree
from hgpo.errors import BadFile, BadSetting, UnknownName
from hgpo.estimators.table import ESTIMATORS
from hgpo.settings import build

RECORDED = json.loads((Path(__file__).parents[1] / "data" / "presets.json").read_text())
NEW = {
    "rollout": {"engine": "hf", "memory_share": 0.35, "sleep": False, "request_seeds": True},
    "update": {
        "loss": "ppo",
        "schedule": "constant",
        "lr_end": 0.0,
        "importance_cap": 0.0,
        "regulariser_share": 1.0,
    },
    "agent": {"memory": "window", "show_status": False},
    "warm": {"source": "expert", "each_type": False, "updates": 0},
}
"""Settings that did not exist when the presets were recorded."""
CHANGED = {"alfworld-qwen2.5-coder-1.5b-lora": {"model": {"gradient_checkpointing": False}}}
"""Settings that were given another value since, because packed passes need less memory."""


def test_the_presets_are_those_recorded() -> None:
    assert preset_names() == sorted(
        [*RECORDED, "own", "own-model", "alfworld-1.5b", "alfworld-tiny", "webshop-1.5b"]
    )


@pytest.mark.parametrize("name", sorted(RECORDED))
def test_every_preset_means_what_it_meant(name: str) -> None:
    """By design: the penalty moved from `update` to `estimator`; of the estimator what it is told is compared."""
    config = load(name)
    before: dict[str, Any] = json.loads(json.dumps(RECORDED[name]))
    told = before["estimator"]
    settings = before["config"]
    estimator = settings.pop("estimator")
    assert settings["update"].pop("invalid_penalty") == config.estimator.invalid_penalty == 0.1
    for section, values in [*NEW.items(), *CHANGED.get(name, {}).items()]:
        settings[section] |= values
    now = as_dict(config)
    assert now.pop("estimator")["name"] == estimator["name"]
    assert now == settings
    assert resolved_estimator(config) == build(ESTIMATORS[estimator["name"]].settings, told, name)


@pytest.mark.parametrize("name", preset_names())
def test_a_preset_says_only_what_differs(name: str) -> None:
    """Every assignment of a preset changes something: without it the config would be another one."""
    import hgpo.config.preset as files

    content = files._read(name)
    assert preset_description(name).endswith(".")
    base = content.get("base")
    under = as_dict(load(base))
    over = as_dict(load(name))
    for section, value in content.items():
        if section in ("base", "description"):
            continue
        for key, given in value.items() if isinstance(value, dict) else [(None, value)]:
            if key is None:
                assert under[section] != given, f"{section} = {given} changes nothing"
                continue
            was, now = under[section], over[section]
            place = (was, now) if key in now else (was.get("settings", {}), now["settings"])
            renamed = was.get("name") != now.get("name")
            assert key in place[1]
            same = place[0].get(key) == place[1][key]
            # The name of what is chosen may be said for the reader although it is the default.
            assert not same or renamed or key == "name", f"{section}.{key} = {given} changes nothing"


def write(path: Path, text: str) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return str(path)


def test_a_preset_of_ones_own_inherits(tmp_path: Path) -> None:
    write(tmp_path / "base.toml", 'base = "quickstart"\nestimator = "hgpo"\nmode = "mean_norm"\nseed = 3\n')
    mine = write(
        tmp_path / "more" / "mine.toml", 'base = "../base.toml"\n[update]\nlr = 0.5\n[env]\nsize = "small"\n'
    )
    config, base = load(mine), load("quickstart")
    assert (config.seed, config.update.lr, config.env.settings["size"]) == (3, 0.5, "small")
    assert config.env.settings["task_types"] == base.env.settings["task_types"]
    assert config.estimator.settings == {"mode": "mean_norm"}
    assert config.warm == base.warm
    # Another estimator or environment leaves the settings of the base's behind.
    other = write(tmp_path / "other.toml", 'base = "base.toml"\nestimator = "grpo"\nenv = "shop"\n')
    assert load(other).estimator.settings == {}
    assert load(other).env.settings == {}
    assert load(other).estimator.invalid_penalty == 0.1


def test_bases_in_a_circle_and_bases_that_are_not_there(tmp_path: Path) -> None:
    one = write(tmp_path / "one.toml", 'base = "two.toml"')
    write(tmp_path / "two.toml", 'base = "./one.toml"')
    with pytest.raises(BadSetting, match=r"one\.toml -> .*two\.toml -> .*one\.toml are each other's base"):
        load(one)
    with pytest.raises(UnknownName, match="Did you mean 'quickstart'"):
        load(write(tmp_path / "lost.toml", 'base = "quikstart"'))
    with pytest.raises(BadFile, match=r"gone\.toml"):
        load(write(tmp_path / "lost.toml", 'base = "gone.toml"'))
    with pytest.raises(BadSetting, match="base=3 was given"):
        load(write(tmp_path / "lost.toml", "base = 3"))


def test_a_tree_holds_no_keys_of_the_preset_itself() -> None:
    assert {"base", "description"}.isdisjoint(preset_tree("shop"))
