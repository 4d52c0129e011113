"""A run that is taken along in parts goes on elsewhere as if it had stayed, and a damaged parcel is refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from hgpo.cli import main
from hgpo.digests import digests, sealed
from hgpo.errors import BadFile, BadSetting, FolderBusy
from hgpo.models.folder import check_model
from hgpo.runs import load, start, train
from hgpo.runs.folder import RunFolder
from hgpo.runs.folder.parcel import LIST, pack, read, unpack
from hgpo.runs.lock import hold

from ..worlds import FETCH, WORLD

SETTINGS = ["update.kl_coef=0.02", "lr=1e-3", "save_every=1", "keep=2", "iterations=2"]


@pytest.fixture(scope="module")
def half(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that is over after two iterations, and may be prolonged."""
    run = tmp_path_factory.mktemp("half") / "run"
    train(load(FETCH, SETTINGS), run, quiet=True)
    assert [one.iteration for one in RunFolder(run).checkpoints()] == [1, 2]
    return run


@pytest.fixture
def parcel(half: Path, tmp_path: Path) -> Path:
    pack(half, tmp_path / "parcel", 20_000)
    return tmp_path / "parcel"


def weights(run: Path) -> dict[str, torch.Tensor]:
    return load_file(run / "checkpoints" / "000004" / "trainer.safetensors")


def test_a_run_goes_on_elsewhere_as_if_it_had_stayed(
    half: Path, parcel: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    parts = sorted(path for path in parcel.iterdir() if path.name != LIST)
    assert len(parts) > 3
    assert {path.stat().st_size for path in parts[:-1]} == {20_000}
    assert parts[-1].stat().st_size <= 20_000
    there = tmp_path / "there"
    assert main(["carry", "unpack", str(parcel), "--run", str(there)]) == 0
    said = capsys.readouterr().out
    assert "at iteration 2" in said
    assert f"hgpo train --resume {there}" in said
    stayed = shutil.copytree(half, tmp_path / "stayed")
    for run in (there, stayed):
        assert main(["train", "--resume", str(run), "iterations=4", "--allow-env", WORLD]) == 0
    one, two = weights(there), weights(stayed)
    assert one.keys() == two.keys()
    assert all(torch.equal(one[name], two[name]) for name in one)


@pytest.fixture
def light(half: Path, tmp_path: Path) -> Path:
    """The run somewhere else, brought there without its start."""
    whole = pack(half, tmp_path / "whole", 10**6)
    words = [
        "carry",
        "pack",
        str(half),
        "--out",
        str(tmp_path / "light"),
        "--part-mb",
        "1",
        "--without-start",
    ]
    assert main(words) == 0
    assert read(tmp_path / "light").size < whole.size - (half / "start" / "model.safetensors").stat().st_size
    unpack(tmp_path / "light", tmp_path / "there")
    return tmp_path / "there"


def test_a_start_that_was_left_out_is_made_again_the_same(
    half: Path, light: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert [path.name for path in (light / "start").iterdir() if path.name != "README.md"] == ["hgpo.json"]
    assert main(["carry", "unpack", str(tmp_path / "light"), "--run", str(tmp_path / "again")]) == 0
    assert "its start was left out, and is made again" in capsys.readouterr().out
    stayed = shutil.copytree(half, tmp_path / "stayed")
    for run in (light, stayed):
        assert main(["train", "--resume", str(run), "iterations=4", "--allow-env", WORLD]) == 0
    one, two = weights(light), weights(stayed)
    assert all(torch.equal(one[name], two[name]) for name in two)
    assert digests(light / "start") == digests(stayed / "start")


def test_a_start_that_comes_out_otherwise_is_refused(
    light: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Another kind of machine may round otherwise; here, a warm start that learns nothing."""
    before = digests(light)
    with monkeypatch.context() as patch:
        patch.setattr(start, "clone", lambda *_: iter([(1, 1, 0.0)]))
        assert main(["train", "--resume", str(light), "iterations=4", "--allow-env", WORLD]) == 2
    said = capsys.readouterr().err
    assert "model.safetensors came out otherwise" in said
    assert "--without-start" in said
    assert digests(light) == before
    with pytest.raises(BadFile, match=r"left out of a parcel.*--resume"):
        check_model(light / "start")
    assert main(["train", "--resume", str(light), "iterations=4", "--allow-env", WORLD]) == 0


def test_a_start_without_digests_is_not_left_out(half: Path, tmp_path: Path) -> None:
    old = shutil.copytree(half, tmp_path / "old")
    path = old / "start" / "hgpo.json"
    path.write_text(json.dumps({"config": json.loads(path.read_text())["config"]}))
    with pytest.raises(BadSetting, match="without --without-start"):
        pack(old, tmp_path / "parcel", 10**6, start=False)
    assert not (tmp_path / "parcel").exists()


def test_only_the_last_checkpoint_if_asked(half: Path, tmp_path: Path) -> None:
    everything = pack(half, tmp_path / "all", 10**6)
    less = pack(half, tmp_path / "last", 10**6, last=True)
    assert less.size < everything.size
    unpack(tmp_path / "last", tmp_path / "run")
    assert [one.iteration for one in RunFolder(tmp_path / "run").checkpoints()] == [2]
    assert not (tmp_path / "run" / "rollouts").exists()


def test_a_part_that_is_missing_or_damaged_is_named(parcel: Path, tmp_path: Path) -> None:
    path = parcel / "part-0001"
    content = path.read_bytes()
    for damage, said in ((content[:-1], "damaged"), (b"x" + content[1:], "damaged"), (None, "missing")):
        path.unlink()
        if damage is not None:
            path.write_bytes(damage)
        with pytest.raises(BadFile, match=rf"part-0001.*{said}"):
            unpack(parcel, tmp_path / "run")
        assert not (tmp_path / "run").exists()
        path.write_bytes(content)
    unpack(parcel, tmp_path / "run")
    with pytest.raises(BadFile, match="new folder"):
        unpack(parcel, tmp_path / "run")


@pytest.mark.parametrize(
    "name",
    ["../out", "/out", "checkpoints/../../out", "notes.txt", "start/a\\b", "start//a", "start/\n", ""],
)
def test_a_list_that_leads_elsewhere_is_refused(parcel: Path, tmp_path: Path, name: str) -> None:
    path = parcel / LIST
    content = json.loads(path.read_text())
    del content["digest"]
    content["files"][0]["name"] = name
    path.write_text(json.dumps(sealed(content)))
    with pytest.raises(BadFile, match=r"which no run has|not the list of a parcel"):
        unpack(parcel, tmp_path / "run")
    assert not (tmp_path / "run").exists()
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("damage", ["size", "files", "parts", "name", "text"])
def test_a_damaged_list_is_refused(parcel: Path, damage: str) -> None:
    path = parcel / LIST
    content = json.loads(path.read_text())
    del content["digest"]
    if damage == "size":
        content["files"][0]["size"] += 1
    elif damage == "name":
        content["parts"][0]["name"] = "other"
    elif damage != "text":
        content[damage] = 3
    path.write_text("nothing" if damage == "text" else json.dumps(sealed(content)))
    with pytest.raises(BadFile):
        read(parcel)
    path.write_text(json.dumps(content | {"digest": "0" * 64}) if damage != "text" else "{}")
    with pytest.raises(BadFile):
        read(parcel)


def test_a_run_in_training_and_one_without_checkpoint_are_refused(half: Path, tmp_path: Path) -> None:
    with hold(half), pytest.raises(FolderBusy):
        pack(half, tmp_path / "parcel", 10**6)
    bare = tmp_path / "bare"
    shutil.copytree(half, bare, ignore=shutil.ignore_patterns("checkpoints"))
    with pytest.raises(BadFile, match="no checkpoint"):
        pack(bare, tmp_path / "parcel", 10**6)
    assert not (tmp_path / "parcel").exists()
