"""Fused RMS norms against those of transformers, which attention a GPU runs, and sums in a fixed order."""

from __future__ import annotations

import copy

import pytest
import torch

from hgpo.errors import BadSetting
from hgpo.training.kernels import fixed_order, fuse_norms, quicken


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


def test_attention_that_plans_for_every_shape_is_off_on_a_gpu() -> None:
    before = torch.backends.cuda.cudnn_sdp_enabled()
    try:
        torch.backends.cuda.enable_cudnn_sdp(True)
        quicken(torch.nn.Linear(1, 1), torch.device("cpu"))
        assert torch.backends.cuda.cudnn_sdp_enabled()
        quicken(torch.nn.Linear(1, 1), torch.device("cuda"))
        assert not torch.backends.cuda.cudnn_sdp_enabled()
    finally:
        torch.backends.cuda.enable_cudnn_sdp(before)


def modes() -> tuple[bool, bool]:
    return torch.are_deterministic_algorithms_enabled(), torch.utils.deterministic.fill_uninitialized_memory


def test_a_fixed_order_holds_within_the_block_only() -> None:
    before = modes()
    with fixed_order(torch.device("cuda")):
        assert modes() == (True, False)
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
    with pytest.raises(RuntimeError, match=r"^other$"), fixed_order(torch.device("cuda")):
        raise RuntimeError("other")
