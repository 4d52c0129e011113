"""Fused RMS norms against those of transformers, which attention a GPU runs, and sums in a fixed order."""

from __future__ import annotations

import contextlib
import copy
import os
from collections.abc import Iterator

import pytest
import torch
import torch._inductor.config

from hgpo.config.schema import Config, ModelConfig, WarmConfig
from hgpo.errors import BadSetting
from hgpo.learn.clone import clone
from hgpo.learn.distributed import Processes
from hgpo.learn.kernels import choose_kernels, fixed_order, fuse_norms
from hgpo.learn.learner import Learner
from hgpo.models.tiny import make_tiny

from .tokens import Row, batch_of


@pytest.mark.parametrize("kind", ["Llama", "Qwen2"])
def test_the_same_logits_and_gradients(kind: str) -> None:
    import transformers

    torch.manual_seed(0)
    shape = {
        "vocab_size": 40,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
    }
    plain = getattr(transformers, f"{kind}ForCausalLM")(getattr(transformers, f"{kind}Config")(**shape))
    for parameter in plain.parameters():  # weights of one would hide a missing factor
        torch.nn.init.normal_(parameter, 0.5, 0.3)
    fused = copy.deepcopy(plain)
    assert fuse_norms(fused) == 5
    fused = copy.deepcopy(fused)  # the copy must use its own weights
    ids = torch.randint(0, 40, (3, 7))
    outputs = [model(input_ids=ids, labels=ids) for model in (plain, fused)]
    torch.testing.assert_close(outputs[0].logits, outputs[1].logits, atol=1e-4, rtol=1e-4)
    for output in outputs:
        output.loss.backward()
    for (name, one), other in zip(plain.named_parameters(), fused.parameters()):
        assert one.grad is not None
        torch.testing.assert_close(one.grad, other.grad, atol=1e-4, rtol=1e-3, msg=name)


def test_attention_that_plans_for_every_shape_is_off_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.environ", {})
    before = torch.backends.cuda.cudnn_sdp_enabled()
    try:
        torch.backends.cuda.enable_cudnn_sdp(True)
        choose_kernels(torch.nn.Linear(1, 1), torch.device("cpu"))
        assert torch.backends.cuda.cudnn_sdp_enabled()
        choose_kernels(torch.nn.Linear(1, 1), torch.device("cuda"))
        assert not torch.backends.cuda.cudnn_sdp_enabled()
        if not torch.cuda.is_available():  # where there is one, it is set for the first product only
            assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"
    finally:
        torch.backends.cuda.enable_cudnn_sdp(before)


def modes() -> tuple[bool, bool, bool]:
    return (
        torch.are_deterministic_algorithms_enabled(),
        torch.utils.deterministic.fill_uninitialized_memory,
        bool(getattr(torch._inductor.config, "deterministic", False)),
    )


def test_a_fixed_order_holds_within_the_block_only() -> None:
    before = modes()
    with fixed_order(torch.device("cuda")):
        assert modes() == (True, False, before[2])
    assert modes() == before
    with pytest.raises(ValueError, match=r"^mine$"), fixed_order(torch.device("cuda")):
        raise ValueError("mine")
    assert modes() == before
    for device, wanted in (("cpu", True), ("cuda", False)):
        with fixed_order(torch.device(device), wanted):
            assert modes() == before


def test_a_kernel_without_one_is_named_with_the_setting() -> None:
    cells = torch.zeros(4)
    with pytest.raises(BadSetting, match=r"put_.*deterministic=false"), fixed_order(torch.device("cuda")):
        cells.put_(torch.tensor([0, 0]), torch.ones(2))
    message = "cuBLAS is not deterministic, set CUBLAS_WORKSPACE_CONFIG"  # torch's own remedy stays
    with pytest.raises(RuntimeError, match=f"^{message}$"), fixed_order(torch.device("cuda")):
        raise RuntimeError(message)


@pytest.mark.parametrize("wanted", [True, False])
def test_updates_and_cloning_ask_for_a_fixed_order(monkeypatch: pytest.MonkeyPatch, wanted: bool) -> None:
    asked: list[bool] = []

    @contextlib.contextmanager
    def spy(device: torch.device, given: bool = True) -> Iterator[None]:
        asked.append(given)
        yield

    monkeypatch.setattr("hgpo.learn.learner.fixed_order", spy)
    monkeypatch.setattr("hgpo.learn.clone.fixed_order", spy)
    shape = ModelConfig(hidden=32, layers=1, heads=2, intermediate=32)
    settings = Config(model=shape, warm=WarmConfig(epochs=1, batch_rows=2), deterministic=wanted)
    cpu = torch.device("cpu")
    rows = batch_of([Row([2, 3, 4], [5, 0], [-1.0, -1.0], 1.0)] * 4)
    model = make_tiny(shape, 20, 0, seed=3, positions=64)
    assert len(list(clone(model, rows, settings, 0, cpu))) == 2
    assert asked == [wanted, wanted]
    Learner(model, settings, Processes(cpu), 0).update(rows, 0)
    assert asked == [wanted] * 3
