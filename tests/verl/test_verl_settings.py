"""The parts of the verl plug-in that need no verl: translation, rows, mini-batches, versions."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hgpo.cli import main
from hgpo.config import Config, load, preset_names
from hgpo.config.stage import open_stage
from hgpo.errors import BadSetting, UnknownName
from hgpo.runs.rollout import draw_tasks
from hgpo.seeds import derive
from hgpo.settings import settings_of
from hgpo.verl import versions
from hgpo.verl.data import train_rows, validation_rows, write_data
from hgpo.verl.dryrun import dry_config
from hgpo.verl.minibatch import plan
from hgpo.verl.overrides import Cluster, split_words
from hgpo.verl.settings import write
from hgpo.verl.translation import (
    FATES,
    LOSS_MODES,
    MODEL,
    Refused,
    Start,
    Translated,
    fields,
    loss_mode,
    translate,
    value_of,
)

pytest.importorskip("pyarrow")


@given(
    rows=st.integers(1, 5000),
    processes=st.sampled_from([1, 2, 3, 4, 8]),
    updates=st.integers(0, 12),
    minibatch_rows=st.integers(1, 600),
)
def test_a_plan_covers_all_rows_with_little_padding(rows, processes, updates, minibatch_rows):
    found = plan(rows, processes, updates=updates, minibatch_rows=minibatch_rows)
    wanted = updates or -(-rows // minibatch_rows)
    assert found.rows % processes == 0
    assert found.total >= rows
    assert found.updates == max(1, min(wanted, rows // processes))
    # Less than one row per process and update is padding.
    assert found.total - rows < found.updates * processes


def test_settings_at_their_default_are_not_written():
    words = write(load("quickstart", ["group_size=6", "name=a b"]))
    assert "+hgpo.rollout.group_size=6" in words
    assert "+hgpo.name='a b'" in words
    assert "+hgpo.env.settings.size=tiny" in words
    assert not any(word.startswith("+hgpo.env.name") for word in words)


def test_words_of_verl_are_told_from_ours():
    ours, theirs = split_words(["lr=1e-5", "data.seed=3", "env=household", "~critic.x", "++a.b=1"])
    assert ours == ["lr=1e-5", "env=household"]
    assert theirs == ["data.seed=3", "~critic.x", "++a.b=1"]


def test_rows_are_in_the_order_of_the_local_trainer():
    config = load("quickstart", ["iterations=3", "rollout.tasks=4", "env.tasks=5"])
    stage = open_stage(config)
    rows = train_rows(config, stage)
    tasks = stage.tasks("train", 5)
    assert len(rows) == 12
    for iteration in (1, 2, 3):
        drawn = draw_tasks(tasks, (iteration - 1) * 4, 4, config.seed)
        part = [row["extra_info"] for row in rows[(iteration - 1) * 4 : iteration * 4]]
        assert [(one["group"], one["task"]) for one in part] == drawn
        assert [one["seed"] for one in part] == [
            derive(config.seed, "start", iteration, group) for group, _ in drawn
        ]
    # A longer run starts with the same rows, so that it can be resumed.
    longer = train_rows(load("quickstart", ["iterations=5", "rollout.tasks=4", "env.tasks=5"]), stage)
    assert longer[:12] == rows


def test_validation_rows_have_the_seeds_of_the_local_evaluation():
    config = load("quickstart", ["eval.tasks=3", "eval.seed=7"])
    rows = validation_rows(config, open_stage(config), "in-domain")
    assert len(rows) == 3
    for row in rows:
        assert row["extra_info"]["seed"] == derive("evaluation", 7, row["extra_info"]["task"])
        assert row["extra_info"]["purpose"] == "eval"


def test_data_files(tmp_path):
    import pyarrow.parquet as pq

    config = load("quickstart", ["iterations=2", "rollout.tasks=3", "eval.splits=in-domain,out-of-domain"])
    written = write_data(config, tmp_path)
    assert (written.rows, len(written.validation)) == (6, 2)
    first = pq.read_table(written.train).to_pylist()[0]
    assert first["agent_name"] == "hgpo"
    assert first["extra_info"]["purpose"] == "train"
    assert first["prompt"][0]["role"] == "user"
    with pytest.raises(UnknownName, match="in-domain"):
        write_data(load("quickstart", ["eval.splits=in-domian"]), tmp_path)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"mode": "snyc"}, "sync"),
        ({"gpus": 0}, "--gpus is 0"),
        ({"gpus": 3, "tensor_parallel": 2}, "does not divide"),
        ({"nodes": 2}, "--ray-address"),
        ({"mode": "separate_async"}, "--rollout-gpus"),
        ({"gpu_memory": 60.0}, "between 0 and 1"),
    ],
)
def test_a_cluster_that_cannot_be_is_refused(given, message):
    with pytest.raises((BadSetting, UnknownName), match=message):
        Cluster(**given)


def test_any_preset_is_made_small_and_settings_come_last():
    config = dry_config("alfworld-qwen2.5-7b", ["group_size=3"], steps=2)
    assert config.model.path == "tiny"
    assert config.rollout.group_size == 3
    assert config.iterations == 2
    # What is being tested stays: the estimator, the memory, the KL term.
    full = load("alfworld-qwen2.5-7b")
    assert (config.estimator, config.agent.history_length) == (full.estimator, full.agent.history_length)
    assert config.update.kl_coef == full.update.kl_coef


def test_launch_prints_the_command(capsys, tmp_path):
    words = ["verl", "launch", "alfworld-qwen2.5-1.5b", "lr=2e-6", "trainer.project_name=mine"]
    assert main([*words, "--gpus", "2", "--run", str(tmp_path / "run"), "--print"]) == 0
    shown = capsys.readouterr().out
    for line in (
        "python -m verl.trainer.main_ppo",
        "trainer.v1.trainer_mode=hgpo_sync",
        "trainer.n_gpus_per_node=2",
        "actor_rollout_ref.actor.optim.lr=2e-06",
        "actor_rollout_ref.rollout.n=8",
        "data.train_batch_size=16",
        "+hgpo.env.name=alfworld",
        "trainer.project_name=mine",
    ):
        assert line in shown
    assert not (tmp_path / "run").exists()


def test_the_cluster_options_reach_the_command(capsys, tmp_path):
    words = ["verl", "launch", "quickstart", "--nodes", "2", "--gpus", "8", "--ray-address", "auto"]
    words += ["--mode", "colocate_async", "--engine", "sglang", "--offload", "--tensor-parallel", "2"]
    assert main([*words, "--run", str(tmp_path), "--print"]) == 0
    shown = capsys.readouterr().out
    assert "hgpo_colocate_async" in shown
    assert "+ray_kwargs.ray_init.address=auto" in shown
    assert "rollout.name=sglang" in shown
    assert "fsdp_config.optimizer_offload=true" in shown


def test_data_command(capsys, tmp_path):
    words = ["verl", "data", "quickstart", "iterations=2", "rollout.tasks=2", "eval.tasks=3", "--json"]
    assert main([*words, "--out", str(tmp_path)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["training_rows"], found["validation_rows"]) == (4, 3)


def test_versions_that_do_not_fit_are_named(monkeypatch):
    have = {"verl": "0.10.0", **dict.fromkeys(versions.NEEDED, "1.0")}
    monkeypatch.setattr(versions, "installed", have.get)
    assert "verl 0.10.0 is installed" in versions.misfit()
    have["verl"] = "0.9.3"
    assert versions.misfit() == ""
    del have["msgspec"]
    assert "msgspec" in versions.misfit()
    have |= {"msgspec": "1", "trl": "1.16.0"}
    assert "trl 1.16.0" in versions.misfit()
    have["trl"] = "0.27.0"
    assert versions.misfit() == ""
    del have["verl"]
    assert re.search(r"pip install .*\[verl\]", versions.misfit())


def another(name, config):
    """A value that a setting may have and does not have."""
    one = settings_of(Config)[name] if "." not in name else None
    if one is None:
        section, inner = name.split(".")
        one = settings_of(settings_of(Config)[section].kind)[inner]
    value = value_of(config, name)
    if one.names():
        return next(choice for choice in one.names() if choice != value)
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, float):
        return value / 2 if value else 0.25
    return tuple(item / 2 for item in value) if name == "update.betas" else f"{value}x"


def changed(config, name, value):
    *section, inner = name.split(".")
    if not section:
        return replace(config, **{inner: value})
    return replace(config, **{section[0]: replace(getattr(config, section[0]), **{inner: value})})


def test_every_setting_is_translated_ours_without_effect_or_refused():
    """Fails for a new field of the schema until the table says what becomes of it."""
    assert sorted(FATES) == sorted(fields())


@pytest.mark.parametrize("name", [name for name, fate in FATES.items() if isinstance(fate, Translated)])
def test_a_translated_setting_changes_what_verl_is_told(name):
    words = ["update.warmup=8", "model.lora_alpha=8"]
    words += ["update.schedule=cosine"] if name == "update.lr_end" else []
    config = load("alfworld-qwen2.5-coder-1.5b-lora", words)
    start = Start("model", Path("run"), False)
    if name == "model.path":
        assert translate(config, start)[f"{MODEL}.path"] == "model"
        return
    named = {"update.loss": "gspo", "update.schedule": "cosine"}
    other = changed(config, name, named[name] if name in named else another(name, config))
    if name == "update.micro_tokens":
        other = changed(config, name, 10**6)
    assert translate(other, start) != translate(config, start)


@pytest.mark.parametrize("preset", preset_names())
def test_every_preset_can_be_had_under_verl(preset):
    assert translate(load(preset, []), Start("some/model", Path("runs/some"), resume=False))


@pytest.mark.parametrize("name", [name for name, fate in FATES.items() if isinstance(fate, Refused)])
def test_a_refused_setting_is_an_error_that_says_so(name):
    config = load("quickstart")
    with pytest.raises(BadSetting, match=rf"{name}=\S+ cannot be had under verl: "):
        translate(changed(config, name, another(name, config)), Start("model", Path("run"), False))


@pytest.mark.parametrize("name", [name for name, fate in FATES.items() if not isinstance(fate, Refused)])
def test_every_other_setting_reaches_our_code_inside_verl(name):
    if name in ("env.settings", "estimator.settings"):
        return
    config = load(None, ["model=folder"])
    value = ("x",) if name == "eval.splits" else another(name, config)
    if name == "device":
        value = "cuda:1"
    words = write(changed(config, name, value))
    assert any(word.startswith(f"+hgpo.{name}=") for word in words)


def test_every_policy_loss_has_verls_name_or_is_refused():
    pytest.importorskip("torch")
    from hgpo.learn.objective import LOSSES

    assert set(LOSS_MODES) == set(LOSSES)
    assert loss_mode("ppo") == "vanilla"
    with pytest.raises(
        BadSetting, match=r"update\.loss is 'mine', which verl does not have; expected one of ppo"
    ):
        loss_mode("mine")
