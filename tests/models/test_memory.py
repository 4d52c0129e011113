"""The estimate of a run's memory: against parameters and activations counted in a real model, and what it refuses."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from hgpo.cli import main
from hgpo.config.schema import Config, ModelConfig, UpdateConfig
from hgpo.errors import BadSetting
from hgpo.models.memory import GIB, check_memory, estimate
from hgpo.models.packed import PackedModel
from hgpo.models.shape import Shape, find_shape

from .test_packed import adapted, rows, scores, tiny

QWEN = Shape(28, 1536, 8960, 12, 2, 128, 151936, True)


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("rank", [0, 3])
def test_weights_are_those_of_the_model(tied: bool, rank: int) -> None:
    model = tiny("Llama", tied)
    shape = Shape.of(model.config.to_dict())
    assert shape is not None
    counted = sum(one.numel() for one in model.parameters() if one.dim() > 1)
    assert shape.weights == counted
    if rank:
        trained = sum(one.numel() for one in adapted(model).parameters() if one.requires_grad)
        assert shape.adapter_weights(rank) == trained


def test_what_a_pass_keeps_is_what_the_estimate_says() -> None:
    """Every tensor that is saved for the backward pass, each storage once, weights left out."""
    model = tiny("Llama")
    shape = Shape.of(model.config.to_dict())
    assert shape is not None
    given = {one.untyped_storage().data_ptr() for one in model.parameters()}
    kept: dict[int, int] = {}
    batch = rows(300)
    tokens = len({tuple(row[:end]) for row in _inputs(batch) for end in range(1, len(row) + 1)})

    def save(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if tensor.is_floating_point() and storage.data_ptr() not in given and len(tensor) == tokens:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(save, lambda tensor: tensor):
        result = scores(PackedModel(model), batch, 1.0)
    said = 4 * tokens * shape.layers * shape.kept()
    assert result[0].requires_grad
    # On a CPU keys and values are kept as they were gathered, not as they were made.
    assert 0.7 * said < sum(kept.values()) < 1.3 * said


def _inputs(batch: object) -> list[list[int]]:
    from hgpo.learn.batching import inputs

    found = inputs(batch)  # type: ignore[arg-type]
    return [found[row].tolist() for row in range(len(found))]


def test_a_run_of_one_and_a_half_billion_weights() -> None:
    config = Config(
        model=ModelConfig(dtype="bfloat16", lora_rank=32),
        update=UpdateConfig(kl_coef=0.0, micro_tokens=16384),
    )
    lora, whole = estimate(QWEN, config), estimate(QWEN, replace(config, model=ModelConfig(dtype="bfloat16")))
    assert lora.optimiser < GIB < 20 * GIB < whole.optimiser < 30 * GIB
    assert lora.one_pass == whole.one_pass
    less = estimate(QWEN, replace(config, model=ModelConfig(dtype="bfloat16", gradient_checkpointing=True)))
    assert less.one_pass < whole.one_pass / 4
    half = estimate(QWEN, replace(config, update=UpdateConfig(kl_coef=0.0, micro_tokens=8192)))
    assert half.one_pass < 0.6 * lora.one_pass
    held = estimate(QWEN, Config(model=ModelConfig(dtype="bfloat16"), update=UpdateConfig(kl_coef=0.1)))
    assert held.weights - whole.weights == 2 * QWEN.weights
    check_memory(whole, 80 * GIB)
    with pytest.raises(BadSetting, match=r"need about 32 GiB, but the GPU has 24 GiB\. Train adapters"):
        check_memory(whole, 24 * GIB)


def test_several_gpus_share_everything_but_the_copy_that_each_samples_from() -> None:
    config = Config(model=ModelConfig(dtype="bfloat16"), update=UpdateConfig(kl_coef=0.1))
    four, eight = estimate(QWEN, config, 4), estimate(QWEN, config, 8)
    # bfloat16: the sampler's copy and a part of the reference; float32: weights, gradients and two moments in parts.
    assert four.weights == 2 * QWEN.weights + 2 * QWEN.weights // 4
    assert four.optimiser == 16 * QWEN.weights // 4 == 2 * eight.optimiser
    assert estimate(QWEN, config).gradients == 0
    assert four.gradients == eight.gradients == 4 * QWEN.weights
    adapters = estimate(QWEN, Config(model=ModelConfig(dtype="bfloat16", lora_rank=32)), 4)
    assert adapters.weights == 2 * QWEN.weights + 2 * QWEN.weights // 4
    assert adapters.gradients == 4 * QWEN.adapter_weights(32)


def test_the_shape_is_read_from_the_folder(tmp_path: Path) -> None:
    assert find_shape(str(tmp_path)) is None
    assert find_shape("owner/nowhere") is None
    (tmp_path / "config.json").write_text("[]")
    assert find_shape(str(tmp_path)) is None
    (tmp_path / "config.json").write_text(json.dumps({"hidden_size": 5}))
    assert find_shape(str(tmp_path)) is None
    tiny("Qwen2").config.save_pretrained(tmp_path)
    assert find_shape(str(tmp_path)) == Shape(2, 32, 48, 4, 2, 8, 50, True)


def test_the_doctor_says_what_a_preset_needs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tiny("Qwen2").config.save_pretrained(tmp_path)
    main(["doctor", "quickstart", f"model={tmp_path}", "--json"])
    found = {one["check"]: one for one in json.loads(capsys.readouterr().out)}
    assert found["memory"]["found"].startswith("about ")
    assert "optimiser" in found["memory"]["found"]
