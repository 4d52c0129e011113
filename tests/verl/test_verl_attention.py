"""Attention over packed rows in verl's workers: a model of transformers gives each row what it gives it alone."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from hgpo.errors import BadSetting
from hgpo.models.attention import Layout
from hgpo.verl.attention import packed_attention, register
from hgpo.verl.names import PACKED_ATTENTION


def make(attention: str) -> Any:
    """The same small model whatever its attention."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=50, hidden_size=32, intermediate_size=48, num_hidden_layers=3, num_attention_heads=4,
        num_key_value_heads=2, attn_implementation=attention,
    )  # fmt: skip
    return LlamaForCausalLM(config)


def rows() -> list[torch.Tensor]:
    random = torch.Generator().manual_seed(1)
    return [torch.randint(0, 50, (size,), generator=random) for size in (5, 1, 9, 3)]


@pytest.mark.parametrize("checkpointing", [False, True])
def test_packed_rows_get_the_logits_and_gradients_that_they_get_alone(checkpointing: bool) -> None:
    register()
    alone, packed = make("sdpa"), make(PACKED_ATTENTION)
    if checkpointing:
        packed.gradient_checkpointing_enable({"use_reentrant": False})
    texts = rows()
    expected = torch.cat([alone(text[None]).logits[0] for text in texts])
    found = packed(
        input_ids=torch.cat(texts)[None],
        position_ids=torch.cat([torch.arange(len(text)) for text in texts])[None],
        attention_mask=None,
    ).logits[0]
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
    weights = torch.randn(expected.shape, generator=torch.Generator().manual_seed(2))
    (expected * weights).sum().backward()
    (found * weights).sum().backward()
    for (name, one), other in zip(alone.named_parameters(), packed.parameters()):
        torch.testing.assert_close(other.grad, one.grad, atol=1e-4, rtol=1e-4, msg=name)
    # It would not be the same if rows saw each other.
    mixed = alone(torch.cat(texts)[None]).logits[0]
    assert not torch.allclose(mixed, expected, atol=1e-2)


def test_rows_begin_where_positions_do() -> None:
    layout = Layout.of_rows(torch.tensor([0, 1, 2, 0, 0, 1]))
    assert layout.starts.tolist() == [0, 3, 4, 6]
    assert layout.starts.dtype == torch.int32
    assert (layout.longest, layout.keys) == (3, None)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"attention_mask": torch.ones(1, 4)}, "a batch of packed rows"),
        ({"position_ids": None}, "a batch of packed rows"),
        ({"query": torch.ones(2, 2, 4, 8)}, "a batch of packed rows"),
        ({"dropout": 0.1}, "no dropout"),
        ({"sliding_window": 2}, "no sliding window"),
        ({"softcap": 30.0}, "no cap"),
    ],
)
def test_what_packed_rows_cannot_have_is_refused(change: dict[str, Any], said: str) -> None:
    given: dict[str, Any] = {
        "query": torch.ones(1, 2, 4, 8),
        "key": torch.ones(1, 1, 4, 8),
        "value": torch.ones(1, 1, 4, 8),
        "attention_mask": None,
        "position_ids": torch.arange(4)[None],
    }
    out, weights = packed_attention(None, **given)
    assert (out.shape, weights) == ((1, 4, 2, 8), None)
    with pytest.raises(BadSetting, match=said):
        packed_attention(None, **{**given, **change})


def test_another_scale_is_kept() -> None:
    random = torch.Generator().manual_seed(3)
    query, key, value = (torch.randn(1, 2, 6, 8, generator=random) for _ in range(3))
    expected = torch.nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True, scale=0.7)
    found, _ = packed_attention(
        None, query, key, value, None, scaling=0.7, position_ids=torch.arange(6)[None]
    )
    torch.testing.assert_close(found, expected.transpose(1, 2), atol=1e-5, rtol=1e-5)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_gpu_computes_the_same() -> None:
    random = torch.Generator().manual_seed(4)
    sizes = (300, 17, 513, 1)
    positions = torch.cat([torch.arange(size) for size in sizes])[None]
    given = [torch.randn(1, heads, sum(sizes), 64, generator=random) for heads in (9, 3, 3)]
    weights = torch.randn(1, sum(sizes), 9, 64, generator=random)
    here = [one.clone().requires_grad_() for one in given]
    there = [one.cuda().bfloat16().requires_grad_() for one in given]
    wanted, _ = packed_attention(None, *here, None, position_ids=positions)
    found, _ = packed_attention(None, *there, None, position_ids=positions.cuda())
    (wanted * weights).sum().backward()
    (found * weights.cuda()).sum().backward()
    for one, other in zip((found, *(t.grad for t in there)), (wanted, *(t.grad for t in here))):
        assert one is not None
        assert other is not None
        torch.testing.assert_close(one.float().cpu(), other, atol=5e-2, rtol=5e-2)
