"""The learner's variants: reference or none, LoRA, bfloat16, recomputed probabilities, and stopping on nonsense."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from hgpo import StepBatch
from hgpo.config.schema import Config, ModelConfig, UpdateConfig, WarmConfig
from hgpo.errors import BadFile, BadSetting, NotFinite
from hgpo.learn.clone import clone
from hgpo.learn.distributed import Processes
from hgpo.learn.learner import Learner
from hgpo.learn.passes import PaddedPasses
from hgpo.models.device import DTYPES
from hgpo.models.load import load_model
from hgpo.models.tiny import make_tiny
from hgpo.runs import load, train
from hgpo.steps.columns import Ragged

from ..worlds import FETCH
from .tokens import Row, batch_of

CPU = torch.device("cpu")


def rows(count: int = 24, again: int = 0) -> StepBatch:
    random = np.random.default_rng(1)
    made = []
    for _ in range(count):
        prompt, reply = (random.integers(1, 20, random.integers(2, 9)).tolist() for _ in range(2))
        made.append(Row(prompt, reply, [-3.0] * len(reply), float(random.normal())))
    return batch_of([*made, *made[:again]])


def learner(update: UpdateConfig, **model: object) -> Learner:
    shape = ModelConfig(hidden=16, layers=2, heads=2, intermediate=32, **model)  # type: ignore[arg-type]
    config = Config(model=shape, update=update)
    made = make_tiny(shape, 20, 0, seed=3, positions=64).to(DTYPES[shape.dtype])
    return Learner(made, config, Processes(CPU), 0)


def test_no_reference_is_kept_without_kl() -> None:
    assert learner(UpdateConfig(kl_coef=0.0)).reference is None
    kept = learner(UpdateConfig(kl_coef=0.1))
    assert kept.reference is not None
    found = kept.update(rows(), 0)
    assert found["loss/kl"] >= 0.0
    assert found["updates"] == 1.0


def test_kl_pulls_back_to_the_start() -> None:
    far = []
    for kl in (0.0, 5.0):
        one = learner(UpdateConfig(kl_coef=kl, lr=3e-3, updates=2, old_logprobs="recomputed"))
        start = {name: value.clone() for name, value in one.model.state_dict().items()}
        for step in range(6):
            one.update(rows(), step)
        far.append(
            sum(float((value - start[name]).square().sum()) for name, value in one.model.state_dict().items())
        )
    assert far[1] < far[0]


def test_recomputed_probabilities_start_at_ratio_one() -> None:
    one = learner(UpdateConfig(kl_coef=0.0, old_logprobs="recomputed", lr=0.0))
    found = one.update(rows(), 0)
    assert found["kl_old"] == pytest.approx(0.0, abs=1e-6)
    assert found["clip_share"] == 0.0


def test_lora_trains_adapters_only_and_uses_the_base_as_reference() -> None:
    one = learner(UpdateConfig(kl_coef=0.1, lr=1e-2), lora_rank=2)
    assert one.reference is None
    frozen = {n: p.clone() for n, p in one.model.named_parameters() if not p.requires_grad}
    assert one.update(rows(), 0)["loss/kl"] == pytest.approx(0.0, abs=1e-6), "adapters start as no change"
    assert one.update(rows(), 1)["loss/kl"] > 0.0
    for name, parameter in one.model.named_parameters():
        if name in frozen:
            assert torch.equal(parameter, frozen[name])
    assert all("lora" in name for name in one.parameters)


@pytest.mark.parametrize("lora", [0, 2])
def test_bfloat16_trains_in_float32_and_samples_in_bfloat16(lora: int) -> None:
    one = learner(UpdateConfig(kl_coef=0.0, lr=1e-6), dtype="bfloat16", lora_rank=lora)
    before = {name: value.clone() for name, value in one.parameters.items()}
    one.update(rows(), 0)
    assert all(value.dtype == torch.float32 for value in one.parameters.values())
    assert all(value.dtype == torch.bfloat16 for n, value in one.actor.named_parameters() if "lora" not in n)
    assert any(not torch.equal(before[name], value) for name, value in one.parameters.items()), (
        "1e-6 is not lost"
    )


def test_bfloat16_follows_float32() -> None:
    """Many passes per update and rounding in all of them: the weights still go where float32 takes them."""
    settings = UpdateConfig(kl_coef=0.0, lr=1e-2, updates=1, micro_tokens=30, old_logprobs="recomputed")
    wide, narrow = learner(settings), learner(settings, dtype="bfloat16")
    start = {name: value.detach().clone() for name, value in wide.parameters.items()}
    for step in range(3):
        for one in (wide, narrow):
            one.update(rows(), step)
    moved = torch.cat([(wide.parameters[name] - start[name]).flatten() for name in start])
    other = torch.cat([(narrow.parameters[name] - start[name]).flatten() for name in start])
    assert float(torch.cosine_similarity(moved.detach(), other.detach(), dim=0)) > 0.95
    for name, value in narrow.actor.named_parameters():
        assert torch.equal(value, narrow.parameters[name].bfloat16()), "the model holds the rounded copies"


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_state_survives_a_round_trip(dtype: str) -> None:
    settings = UpdateConfig(kl_coef=0.0, lr=1e-3)
    one, two = learner(settings, dtype=dtype), learner(settings, dtype=dtype)
    one.update(rows(), 0)
    two.restore(one.state(), one.updates)
    for learner_ in (one, two):
        learner_.update(rows(), 1)
    left, right = one.state(), two.state()
    assert all(torch.equal(left[name], right[name]) for name in left)


@pytest.mark.parametrize("aggregate", ["token-mean", "step-mean"])
def test_steps_without_advantage_are_left_out_without_a_trace(aggregate: str) -> None:
    mixed = rows().with_columns(advantage=rows()["advantage"] * (np.arange(24) % 3 > 0))
    settings = UpdateConfig(kl_coef=0.0, lr=1e-2, updates=2, aggregate=aggregate)
    # An entropy bonus too small to matter makes the other learner run every step.
    some, all_ = learner(settings), learner(replace(settings, entropy_coef=1e-30))
    for step in range(3):
        found, other = some.update(mixed, step), all_.update(mixed, step)
        assert found["train/rows"] == 16 < other["train/rows"] == 24
        assert found["train/tokens"] < other["train/tokens"]
        assert found["loss/policy"] == pytest.approx(other["loss/policy"], abs=1e-6)
        assert 0.9 < found["entropy"] / other["entropy"] < 1.1, "a mean over the steps that were run"
    for name, value in some.parameters.items():
        torch.testing.assert_close(value, all_.parameters[name], rtol=1e-4, atol=1e-5)


def test_kl_and_entropy_may_be_measured_on_a_share_of_the_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    mixed = rows().with_columns(advantage=rows()["advantage"] * (np.arange(24) % 3 == 0))
    settings = UpdateConfig(kl_coef=0.01, entropy_coef=0.01, lr=1e-3, updates=1, regulariser_share=0.5)
    one, again = learner(settings), learner(settings)
    counts = []
    for step in range(8):
        found = one.update(mixed, step)
        counts.append(found["train/rows"])
        assert 8 <= found["train/rows"] < 24
        assert found == again.update(mixed, step), "the seed decides"
    assert len(set(counts)) > 1
    assert 12 < sum(counts) / 8 < 20
    assert learner(replace(settings, regulariser_share=1.0)).update(mixed, 0)["train/rows"] == 24
    held = []
    ask = PaddedPasses.reference
    monkeypatch.setattr(
        PaddedPasses, "reference", lambda self, batch: held.append(len(batch.advantages)) or ask(self, batch)
    )
    loud = rows()
    for step in range(8):
        one.update(loud, step)
    assert 64 < sum(held) < 128, "the reference reads the drawn steps only, half of 8 x 24"
    tiny = learner(replace(settings, regulariser_share=1e-9)).update(loud, 0)
    assert tiny["loss/kl"] == 0.0
    assert tiny["train/rows"] == 24


def test_nothing_to_learn_from_moves_nothing() -> None:
    one = learner(UpdateConfig(kl_coef=0.0, lr=1e-2))
    before = {name: value.clone() for name, value in one.parameters.items()}
    found = one.update(rows().with_columns(advantage=np.zeros(24)), 0)
    assert found["train/rows"] == found["grad_norm"] == 0.0
    assert all(torch.equal(before[name], value) for name, value in one.parameters.items())


def test_a_checkpoint_of_another_model_is_refused() -> None:
    settings = UpdateConfig(kl_coef=0.0)
    shape = ModelConfig(hidden=32, layers=2, heads=2, intermediate=32)
    other = Learner(make_tiny(shape, 20, 0, seed=3, positions=64), Config(model=shape), Processes(CPU), 0)
    one = learner(settings)
    before = {name: value.clone() for name, value in one.state().items()}
    with pytest.raises(BadFile, match=r"another model.*of shape \(20, 32\), expected \(20, 16\)"):
        one.restore(other.state(), 1)
    assert one.updates == 0
    assert all(torch.equal(before[name], value) for name, value in one.state().items())


def test_nonsense_stops_before_it_reaches_the_weights() -> None:
    one = learner(UpdateConfig(kl_coef=0.0))
    before = {name: value.clone() for name, value in one.parameters.items()}
    bad = rows().with_columns(advantage=np.full(24, np.nan))
    with pytest.raises(NotFinite, match="loss/policy"):
        one.update(bad, 0)
    assert all(torch.equal(before[name], value) for name, value in one.parameters.items())


def test_a_run_with_lora_and_checkpointing(tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM

    first = tmp_path / "first"
    train(load(FETCH, ["iterations=0", "eval.every=0"]), first, quiet=True)
    settings = [f"model={first / 'model'}", "warm.episodes=0", "model.lora_rank=2", "update.kl_coef=0.01",
                "model.gradient_checkpointing=true", "iterations=1", "eval.every=0", "lr=1e-2"]  # fmt: skip
    train(load(FETCH, settings), tmp_path / "run", quiet=True)
    base = AutoModelForCausalLM.from_pretrained(first / "model")
    merged = AutoModelForCausalLM.from_pretrained(tmp_path / "run" / "model")
    changed = [n for (n, a), b in zip(base.named_parameters(), merged.parameters()) if not torch.equal(a, b)]
    assert changed
    assert not any("embed" in name for name in changed)


def test_checkpoints_of_a_lora_run_hold_adapters_alone(tmp_path: Path) -> None:
    """They can be carried about: a moved run is evaluated and continued from its adapters and its own start."""
    settings = ["model.lora_rank=2", "iterations=1", "save_every=1", "eval.every=0", "lr=1e-2"]
    train(load(FETCH, settings), tmp_path / "made", quiet=True)
    run = tmp_path / "moved"
    (tmp_path / "made").rename(run)
    stored = run / "checkpoints" / "000001" / "model"
    assert (stored / "adapter_model.safetensors").is_file()
    assert not (stored / "model.safetensors").exists()
    config = load(FETCH, settings)
    loaded, _ = load_model(str(stored), config.model, CPU)
    merged, _ = load_model(str(run / "model"), config.model, CPU)
    weights = dict(merged.named_parameters())
    assert {name for name, _ in loaded.named_parameters()} == set(weights)
    for name, value in loaded.named_parameters():
        torch.testing.assert_close(value, weights[name])
    (stored / "adapter_model.safetensors").unlink()
    with pytest.raises(BadFile, match="adapter_model"):
        load_model(str(stored), config.model, CPU)


def test_a_restored_fused_optimiser_counts_its_steps_on_the_device() -> None:
    """Fused AdamW refuses a count on the CPU beside weights on a GPU; a device without storage stands in for it."""
    trained = learner(UpdateConfig())
    trained.update(rows(), 0)
    nowhere = torch.device("meta")
    shape = trained.config.model
    model = make_tiny(shape, 20, 0, seed=3, positions=64).to(nowhere)
    model.tie_weights()
    again = Learner(model, trained.config, Processes(nowhere), 0)
    again.optimizer.param_groups[0]["fused"] = True
    again.restore(trained.state(), 1)
    for parameter in again.parameters.values():
        assert again.optimizer.state[parameter]["step"].device == parameter.device


@pytest.mark.parametrize("share", [1.0, 0.4])
@pytest.mark.parametrize("lora", [0, 2])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_packed_rows_update_as_padded_ones(
    monkeypatch: pytest.MonkeyPatch, dtype: str, lora: int, share: float
) -> None:
    """Two optimiser steps, several passes each, a reference, an entropy bonus, probabilities made anew."""
    settings = UpdateConfig(
        kl_coef=0.1, entropy_coef=0.01, lr=1e-2, updates=2, micro_tokens=60, old_logprobs="recomputed",
        regulariser_share=share,
    )  # fmt: skip
    alike = rows(40, again=12)
    found = []
    for packs in (False, True):
        monkeypatch.setattr("hgpo.learn.learner.can_pack", lambda *_, packs=packs: packs)
        one = learner(settings, dtype=dtype, lora_rank=lora)
        found.append((one, [one.update(alike, step) for step in range(2)]))
    (padded, expected), (packed, metrics) = found
    tolerance = 1e-4 if dtype == "float32" else 0.05
    for mine, other in zip(metrics, expected):
        assert mine["train/tokens"] == other["train/tokens"]
        assert mine["train/padding_share"] == 0.0 < other["train/padding_share"]
        assert mine["train/shared_share"] > 0.1 > other["train/shared_share"] == 0.0
        for name in ("loss/policy", "loss/kl", "entropy", "grad_norm"):
            assert mine[name] == pytest.approx(other[name], rel=tolerance, abs=tolerance)
    assert packed.actor is packed.model
    if dtype == "float32":
        for name, value in padded.parameters.items():
            torch.testing.assert_close(packed.parameters[name], value, rtol=2e-3, atol=2e-5)


def test_packed_rows_survive_a_round_trip(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hgpo.learn.learner.can_pack", lambda *_: True)
    settings = UpdateConfig(kl_coef=0.1, lr=1e-2)
    one, two = (learner(settings, dtype="bfloat16", lora_rank=2) for _ in range(2))
    one.update(rows(), 0)
    two.restore(one.state(), one.updates)
    assert two.update(rows(), 1) == one.update(rows(), 1), "restored adapters are folded in"
    left, right = one.state(), two.state()
    assert all(torch.equal(left[name], right[name]) for name in left)


def test_packed_rows_without_a_gradient_move_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hgpo.learn.learner.can_pack", lambda *_: True)
    one = learner(UpdateConfig(kl_coef=0.0, lr=1e-2))
    before = {name: value.clone() for name, value in one.parameters.items()}
    found = one.update(rows().with_columns(advantage=np.zeros(24)), 0)
    assert found["train/rows"] == found["grad_norm"] == found["train/tokens"] == 0.0
    assert all(torch.equal(before[name], value) for name, value in one.parameters.items())


def test_cloning_packed_rows_is_cloning_padded_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    shape = ModelConfig(hidden=16, layers=2, heads=2, intermediate=32)
    settings = Config(
        model=shape, warm=WarmConfig(epochs=2, batch_rows=10, lr=1e-2), update=UpdateConfig(micro_tokens=60)
    )
    found = []
    for packs in (False, True):
        monkeypatch.setattr("hgpo.learn.clone.can_pack", lambda *_, packs=packs: packs)
        model = make_tiny(shape, 20, 0, seed=3, positions=64)
        losses = [loss for _, _, loss in clone(model, rows(40, again=12), settings, 0, CPU)]
        found.append((model, losses[-1]))
    (padded, expected), (packed, loss) = found
    assert loss == pytest.approx(expected, rel=1e-4)
    for one, other in zip(packed.parameters(), padded.parameters()):
        torch.testing.assert_close(one, other, rtol=2e-3, atol=1e-4)


def test_importance_weights_are_capped_and_multiply_the_loss() -> None:
    """A sampler that was sure of too little: with the cap at one half every token counts half."""
    bare = UpdateConfig(kl_coef=0.0, old_logprobs="recomputed")
    plain = learner(bare).update(rows(), 0)
    low = rows().with_columns(
        logprobs=Ragged(rows().lists("logprobs").values - 9.0, rows().lists("logprobs").offsets)
    )
    halved = learner(replace(bare, importance_cap=0.5)).update(low, 0)
    assert halved["loss/policy"] == pytest.approx(plain["loss/policy"] / 2)
    assert halved["grad_norm"] == pytest.approx(plain["grad_norm"] / 2, rel=1e-4)
    assert halved["engine/logprob_gap"] == pytest.approx(plain["engine/logprob_gap"] + 9.0, abs=1.0)
    with pytest.raises(BadSetting, match=r"importance_cap=2\.0 .* expected recomputed"):
        learner(UpdateConfig(importance_cap=2.0))
