"""Packed passes through our own code against padded ones through transformers': the same numbers and gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from hgpo import StepBatch
from hgpo.learn.batching import inputs, packed_tensors, tensors
from hgpo.learn.objective import spread, token_logprobs
from hgpo.models.lora import merged
from hgpo.models.packed import PackedModel, folded, played_weights, supported
from hgpo.models.packing import filled, pack

from ..learn.tokens import Row, batch_of
from ..policies.hf.test_decoder import tiny


def rows(count: int = 14) -> StepBatch:
    """Some begin alike, some are equal, some share nothing."""
    random = np.random.default_rng(0)
    head = random.integers(4, 50, 7).tolist()
    made = []
    for number in range(count):
        start = head[: random.integers(0, 8)] if number % 4 else []
        prompt = [*start, *random.integers(4, 50, random.integers(1, 6)).tolist()]
        reply = random.integers(4, 50, random.integers(1, 5)).tolist()
        made.append(Row(prompt, reply, [-1.0] * len(reply), float(random.normal())))
    return batch_of([*made, made[3], made[5], made[3]])


def adapted(model: Any) -> Any:
    peft = pytest.importorskip("peft")
    torch.manual_seed(1)
    config = peft.LoraConfig(r=3, lora_alpha=7, target_modules="all-linear", init_lora_weights=False)
    return peft.get_peft_model(model, config)


def scores(
    model: PackedModel, batch: StepBatch, temperature: float, device: str = "cpu", **options: Any
) -> Any:
    packed = packed_tensors(batch, inputs(batch), np.arange(len(batch)), 0, device)
    ids = packed.response_ids.flatten()[packed.cells]
    found = model.scores(packed.layout, packed.sources, ids, temperature, **options)
    return tuple(spread(one, packed) for one in found)


@pytest.mark.parametrize("kind", ["Llama", "Qwen2"])
@pytest.mark.parametrize("lora", [False, True])
@pytest.mark.parametrize("logits", [2**26, 100])
def test_the_same_log_probabilities_entropies_and_gradients(
    kind: str, lora: bool, logits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hgpo.models.packed.LOGITS", logits)
    models = [tiny(kind), tiny(kind)]
    if lora:
        models = [adapted(one) for one in models]
    batch = rows()
    padded = tensors(batch, np.arange(len(batch)), 0, "cpu")
    expected = token_logprobs(models[0], padded, 0.7, entropy=True, entropy_gradient=True)
    found = scores(PackedModel(models[1]), batch, 0.7)
    assert expected[1] is not None
    for one, other in zip(found, expected):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-5)
    weights = torch.randn(len(batch), generator=torch.Generator().manual_seed(0))[:, None]
    for logs, entropy in (found, expected):
        ((logs + 0.3 * entropy) * weights).sum().backward()
    for (name, one), other in zip(models[0].named_parameters(), models[1].parameters()):
        assert (one.grad is None) == (other.grad is None), name
        if one.grad is not None:
            torch.testing.assert_close(other.grad, one.grad, atol=2e-4, rtol=1e-3, msg=name)
    assert any(one.grad is not None for one in models[1].parameters())


def test_the_order_of_the_rows_changes_no_bit() -> None:
    """Rows are sorted by their tokens, so whoever gives them in whatever order gets the same passes."""
    batch, model = rows(), PackedModel(tiny("Qwen2"))
    found = scores(model, batch, 1.0)
    order = np.random.default_rng(3).permutation(len(batch))
    again = scores(model, batch.take(order), 1.0)
    for one, other in zip(found, again):
        assert torch.equal(one[torch.from_numpy(order)], other)


def test_a_row_does_not_depend_on_its_pass() -> None:
    batch, model = rows(), PackedModel(tiny("Llama"))
    whole = scores(model, batch, 1.0)[0]
    for row in range(len(batch)):
        alone = scores(model, batch.take(np.array([row])), 1.0)[0]
        torch.testing.assert_close(alone[0], whole[row, : alone.shape[1]])


def test_tokens_that_fill_a_pass_up_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    models = [tiny("Llama"), tiny("Llama")]
    plain = scores(PackedModel(models[0]), rows(), 1.0)[0]

    def full(given: Any) -> Any:
        return filled(pack(given), 200)

    monkeypatch.setattr("hgpo.learn.batching.pack", full)
    more = scores(PackedModel(models[1]), rows(), 1.0)[0]
    torch.testing.assert_close(plain, more)
    for one in (plain, more):
        one.sum().backward()
    for one, other in zip(*(model.parameters() for model in models)):
        torch.testing.assert_close(one.grad, other.grad, atol=1e-5, rtol=1e-4)


def test_an_entropy_that_is_only_watched_has_no_gradient() -> None:
    models = [tiny("Llama"), tiny("Llama")]
    scores(PackedModel(models[0]), rows(), 1.0)[0].sum().backward()
    logs, entropy = scores(PackedModel(models[1]), rows(), 1.0)
    (logs.sum() + 0.0 * entropy.sum()).backward()
    for one, other in zip(*(model.parameters() for model in models)):
        torch.testing.assert_close(one.grad, other.grad)


@pytest.mark.parametrize("lora", [False, True])
def test_recomputed_layers_have_the_same_gradients(lora: bool) -> None:
    models = [adapted(tiny("Qwen2")) if lora else tiny("Qwen2") for _ in range(2)]
    for model, again in zip(models, (False, True)):
        scores(PackedModel(model, checkpointing=again), rows(), 1.0)[0].sum().backward()
    for one, other in zip(*(model.parameters() for model in models)):
        assert (one.grad is None) == (other.grad is None)
        if one.grad is not None:
            assert torch.equal(one.grad, other.grad)


def test_without_adapters_the_model_is_the_one_before_them() -> None:
    plain = tiny("Qwen2")
    before = scores(PackedModel(plain), rows(), 1.0)[0]
    packed = PackedModel(adapted(plain))
    torch.testing.assert_close(scores(packed, rows(), 1.0, adapters=False)[0], before)
    assert not torch.allclose(scores(packed, rows(), 1.0)[0], before)


def test_changed_adapters_are_folded_in_again() -> None:
    model = adapted(tiny("Qwen2"))
    packed = PackedModel(model)
    before = scores(packed, rows(), 1.0)[0]
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora" in name:
                parameter.mul_(1.5)
    assert torch.equal(scores(packed, rows(), 1.0)[0], before)
    packed.refresh()
    padded = tensors(rows(), np.arange(len(rows())), 0, "cpu")
    torch.testing.assert_close(scores(packed, rows(), 1.0)[0], token_logprobs(model, padded, 1.0)[0])


def test_a_folded_weight_is_rounded_once() -> None:
    model = adapted(tiny("Llama"))
    linear = model.get_base_model().model.layers[0].self_attn.q_proj
    a, b = linear.lora_A["default"].weight, linear.lora_B["default"].weight
    exact = linear.base_layer.weight + 7 / 3 * b @ a
    assert torch.equal(folded(linear, torch.bfloat16), exact.bfloat16())


def test_which_models_are_supported() -> None:
    assert supported(tiny("Llama"))
    assert supported(adapted(tiny("Qwen2")))
    assert not supported(tiny("Qwen2", use_sliding_window=True))


def test_a_merged_model_has_the_weights_that_were_sampled_from() -> None:
    model = adapted(tiny("Qwen2"))
    for name, parameter in model.named_parameters():
        if "lora" not in name:
            parameter.data = parameter.data.bfloat16()
    layer = model.get_base_model().model.layers[1].mlp.down_proj
    plain = merged(model)
    assert torch.equal(plain.model.layers[1].mlp.down_proj.weight, folded(layer, torch.bfloat16))
    played = dict(played_weights(model))
    assert {name for name, _ in plain.named_parameters()} == set(played)
    assert all(torch.equal(value, played[name]) for name, value in plain.named_parameters())
