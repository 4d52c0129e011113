"""Fused RMS norms against those of transformers, and which attention a GPU runs."""

from __future__ import annotations

import copy

import pytest
import torch

from hgpo.training.kernels import fuse_norms, quicken


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
