"""Models that cannot be loaded: a sentence for each, before anything is done for them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from hgpo.cli import main
from hgpo.config.schema import ModelConfig
from hgpo.errors import BadFile, BadSetting
from hgpo.models.load import load_model, save_model
from hgpo.models.source import check_source
from hgpo.models.tiny import make_tiny, make_tokenizer
from hgpo.runs import load

from ..worlds import FETCH

CPU = torch.device("cpu")


@pytest.mark.parametrize("path", ["./none", "models/none", "some/where/none", "none.gguf"])
def test_a_missing_model_is_named(path: str) -> None:
    kind = "file" if path.endswith("gguf") else "folder"
    with pytest.raises(BadFile, match=rf"no model {kind} '{path}'.*hgpo models fetch"):
        load_model(path, ModelConfig(), CPU)


def test_a_packaged_model_is_offered_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # it may have been fetched into this checkout
    with pytest.raises(BadFile, match=r"hgpo models fetch qwen2\.5-coder-1\.5b-instruct\.$"):
        check_source("models/qwen2.5-coder-1.5b-instruct")


@pytest.mark.parametrize("name", ["gpt2", "HuggingFaceTB/SmolLM2-135M-Instruct"])
def test_a_name_of_the_hub_is_not_taken_for_a_folder(name: str) -> None:
    check_source(name)


@pytest.mark.parametrize("command", [["train", "--run"], ["sft", "--out"]])
def test_a_missing_model_is_found_out_before_anything_is_played_or_written(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("hgpo.runs.start.demonstrate", None)
    folder = tmp_path / "new"
    assert main([command[0], FETCH, "model=./none", command[1], str(folder)]) == 2
    assert "There is no model folder './none'" in capsys.readouterr().err
    assert not folder.exists()


def test_a_damaged_model_file_is_named(tmp_path: Path) -> None:
    config = load(FETCH)
    tokenizer = make_tokenizer(["one two three"], "word", 32)
    save_model(make_tiny(config.model, len(tokenizer), 0, 0, 64), tokenizer, tmp_path)
    whole = (tmp_path / "model.safetensors").read_bytes()
    (tmp_path / "model.safetensors").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(BadFile, match=r"Cannot load a model from .*Get it again if a file is damaged"):
        load_model(str(tmp_path), config.model, CPU)


@pytest.mark.parametrize("problem", ["missing", "not part of the model", "of another shape"])
def test_weights_that_do_not_match_are_refused_and_never_random(problem: str, tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    config = load(FETCH)
    tokenizer = make_tokenizer(["one two three"], "word", 32)
    save_model(make_tiny(config.model, len(tokenizer), 0, 0, 64), tokenizer, tmp_path)
    load_model(str(tmp_path), config.model, CPU)
    weights = load_file(tmp_path / "model.safetensors")
    name = "model.layers.0.mlp.gate_proj.weight"
    if problem == "missing":
        del weights[name]
    else:
        weights[name if problem == "of another shape" else "spare"] = torch.zeros(3, 3)
    save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(BadFile, match=rf"its config\.json describes: 1 {problem}, such as (model|spare)"):
        load_model(str(tmp_path), config.model, CPU)


def test_adapters_that_do_not_match_are_refused(tmp_path: Path) -> None:
    from dataclasses import replace

    from safetensors.torch import load_file, save_file

    from hgpo.models.lora import add_adapters

    config = load(FETCH)
    tokenizer = make_tokenizer(["one two three"], "word", 32)
    save_model(make_tiny(config.model, len(tokenizer), 0, 0, 64), tokenizer, tmp_path / "base")
    base, _ = load_model(str(tmp_path / "base"), config.model, CPU)
    adapters = tmp_path / "adapters"
    save_model(add_adapters(base, replace(config.model, lora_rank=4)), tokenizer, adapters, merge=False)
    load_model(str(adapters), config.model, CPU)
    file = adapters / "adapter_model.safetensors"
    weights = load_file(file)
    first = sorted(weights)[0]
    save_file({name: value for name, value in weights.items() if name != first}, file, {"format": "pt"})
    with pytest.raises(BadFile, match="is missing"):
        load_model(str(adapters), config.model, CPU)
    save_file({**weights, first: torch.zeros(3, 3)}, file, {"format": "pt"})
    with pytest.raises(BadFile, match="cannot be loaded"):
        load_model(str(adapters), config.model, CPU)


def test_a_card_without_bfloat16_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda: False)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "Old Card")
    with pytest.raises(BadSetting, match=r"Old Card has no bfloat16 arithmetic\. Set model\.dtype=float32"):
        load_model("anything", ModelConfig(dtype="bfloat16"), torch.device("cuda"))
