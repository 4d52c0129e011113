"""Presets, overrides, and errors that help."""

from __future__ import annotations

import json

import pytest

from hgpo.config import (
    Config,
    as_dict,
    build,
    estimator_settings,
    experiment_name,
    load,
    preset_names,
    resolved_estimator,
)
from hgpo.errors import BadFile, BadSetting, UnknownName


@pytest.mark.parametrize("name", preset_names())
def test_every_preset_loads_and_survives_json(name: str) -> None:
    config = load(name)
    assert build(json.loads(json.dumps(as_dict(config)))) == config
    estimator_settings(config)


@pytest.mark.parametrize(
    ("preset", "steps", "mode"),
    [
        ("alfworld-qwen2.5-1.5b", 50, "mean_std_norm"),
        ("alfworld-qwen2.5-7b", 50, "mean_std_norm"),
        ("webshop-qwen2.5-1.5b", 30, "mean_norm"),
        ("webshop-qwen2.5-7b", 30, "mean_norm"),
    ],
)
def test_published_hyperparameters(preset: str, steps: int, mode: str) -> None:
    config = load(preset)
    estimator = resolved_estimator(config)
    assert (config.rollout.tasks, config.rollout.group_size, config.agent.max_steps) == (16, 8, steps)
    assert (config.estimator.name, estimator.mode, estimator.gamma) == ("hgpo", mode, 0.95)
    assert (estimator.depth, estimator.invalid_penalty) == (2, 0.1)
    assert (estimator.weight_type, estimator.length_weight_alpha, estimator.base_group) == (
        "length",
        1,
        False,
    )
    assert (config.update.lr, config.update.kl_coef, config.update.entropy_coef) == (1e-6, 0.01, 0.001)
    assert (config.iterations, config.eval.temperature, config.rollout.temperature) == (160, 0.4, 1.0)
    assert (config.update.dual_clip, config.update.aggregate) == (3.0, "token-mean")
    assert experiment_name(config) == "k2_hgpo_length_alpha1.0_baseGroup_False"


def test_published_names_work_at_the_top() -> None:
    config = load(
        "quickstart",
        [
            "mode=mean_norm",
            "weight_type=uniform",
            "length_weight_alpha=2",
            "base_group=True",
            "history_length=4",
            "group_size=5",
        ],
    )
    expected = {
        "depth": 4,
        "invalid_penalty": 0.1,
        "mode": "mean_norm",
        "weight_type": "uniform",
        "length_weight_alpha": 2,
        "base_group": True,
    }
    assert expected.items() <= estimator_settings(config).items()
    assert config.rollout.group_size == 5
    assert experiment_name(config) == "k4_hgpo_uniform_alpha2.0_baseGroup_True"


def test_depth_is_separate_from_memory() -> None:
    config = load("quickstart", ["history_length=4", "estimator.depth=1"])
    assert (config.agent.history_length, estimator_settings(config)["depth"]) == (4, 1)


def test_another_estimator_leaves_the_preset_s_settings_behind() -> None:
    config = load("quickstart", ["estimator=grpo"])
    assert config.estimator.name == "grpo"
    assert "mode" not in config.estimator.settings
    assert experiment_name(config) == "k2_grpo"


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("rolout.tasks=3", "rollout"),
        ("rollout.task=3", "rollout.tasks"),
        ("histroy_length=3", "history_length"),
        ("estimator=hpgo", "hgpo"),
        ("estimator.lenght_weight_alpha=1", "length_weight_alpha"),
        ("env.sizes=tiny", "size"),
    ],
)
def test_unknown_names_suggest_the_nearest(override: str, message: str) -> None:
    with pytest.raises(UnknownName, match="Did you mean '" + message.replace(".", r"\.")):
        load("household-smollm2", [override])


@pytest.mark.parametrize(
    "override",
    ["rollout.tasks=many", "rollout.tasks=0", "update.aggregate=mean", "agent.reasoning=3", "seed=1.5", "iterations=-1",
     "group_size", "estimator.depth=-1", "env=3=4=x.y"],
)  # fmt: skip
def test_wrong_values_are_refused(override: str) -> None:
    if override == "env=3=4=x.y":
        assert load("quickstart", [override]).env.name == "3=4=x.y"
        return
    with pytest.raises(BadSetting):
        load("quickstart", [override])


def test_unknown_and_broken_presets(tmp_path) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(UnknownName, match="quickstart"):
        load("quikstart")
    with pytest.raises(BadFile, match="Cannot read"):
        load(str(tmp_path / "none.toml"))
    broken = tmp_path / "broken.toml"
    broken.write_text("a = = 1")
    with pytest.raises(BadFile, match="not valid TOML"):
        load(str(broken))


def test_published_names_ask_for_the_published_estimator() -> None:
    assert load("quickstart", ["base_group=True"]).estimator.name == "hgpo"
    assert load("quickstart", ["length_weight_alpha=2", "estimator=hgpo"]).estimator.name == "hgpo"
    assert load("quickstart", ["history_length=4"]).estimator.name == load("quickstart").estimator.name
    with pytest.raises(UnknownName, match="weight_type"):
        load("quickstart", ["estimator=grpo", "weight_type=length"])


def test_settings_that_contradict_each_other_are_refused() -> None:
    for words, message in (
        (["model.heads=3"], "model.hidden=64 and model.heads=3"),
        (["model.hidden=12"], "even number of units"),
        (["update.dual_clip=0.5"], "expected 0 (off) or a number above 1"),
        (["eval.splits=[]"], "eval.every=0"),
        (["device=GPU 1"], "expected auto, cpu, cuda or cuda:N"),
    ):
        with pytest.raises(BadSetting) as error:
            load("quickstart", words)
        assert message in str(error.value)
    assert load("quickstart", ["eval.splits=[]", "eval.every=0"]).eval.splits == ()
    assert load("household-smollm2", ["model.heads=3"]).model.heads == 3  # its model is not the tiny one


@pytest.mark.parametrize(
    "override",
    ["update.grad_clip=-1", "update.grad_clip=0", "update.lr=nan", "rollout.temperature=-0.1", "update.clip_low=2",
     "update.betas=0.9,1.0", "update.betas=0.9", "warm.noise=1.5", "update.kl_coef=inf", "model.dtype=float16",
     "agent.prompt=compct", "env.attempts=0", "seed=-1", "estimator.invalid_penalty=-1", "estimator.gamma=1.5",
     "env.num_train=many"],
)  # fmt: skip
def test_values_out_of_bounds_are_refused_by_name(override: str) -> None:
    name = override.partition("=")[0]
    with pytest.raises(BadSetting) as error:
        load("quickstart", [override])
    own = name in ("estimator.gamma", "env.num_train")  # said by the estimator's or environment's name for it
    assert f"{name.partition('.')[2] if own else name}=" in str(error.value)
    assert "expected" in str(error.value)


def test_values_are_written_alike_in_every_section() -> None:
    config = load(
        "quickstart",
        [
            "env.task_types=pick_heat_then_place_in_recep",
            "env.max_steps=none",
            "env.size='small'",
            "eval.splits=a,b",
            "update.betas=[0.5,0.6]",
            "name=3",
            "estimator.pool_actions=no",
        ],
    )
    assert config.env.settings["task_types"] == ["pick_heat_then_place_in_recep"]
    assert build(as_dict(config)) == config
    assert config.env.settings["max_steps"] is None
    assert config.env.settings["size"] == "small"
    assert (config.eval.splits, config.update.betas, config.name) == (("a", "b"), (0.5, 0.6), "3")
    assert config.estimator.settings == {"pool_actions": False}


def test_without_a_preset_everything_is_at_its_default() -> None:
    assert load() == Config()
    assert load(None, ["seed=4"]) == Config(seed=4)
