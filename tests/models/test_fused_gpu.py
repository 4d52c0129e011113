"""The kernels against what torch computes on the CPU. `python -m pytest -m gpu` runs these."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch

from hgpo.models import fused
from hgpo.models.attention import Layout, attend
from hgpo.models.packed import PackedModel
from hgpo.models.packing import pack

from .test_packed import adapted, rows, scores, tiny

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


def close(found: torch.Tensor, wanted: torch.Tensor, tolerance: float = 2e-2) -> None:
    torch.testing.assert_close(found.float().cpu(), wanted.float(), atol=tolerance, rtol=tolerance)


def test_the_kernels_run_here() -> None:
    assert fused.kernels(torch.zeros(1, device="cuda")) is not None


def test_gates() -> None:
    torch.manual_seed(0)
    given = [torch.randn(300, 1536).bfloat16() for _ in range(3)]
    there = [one.cuda() for one in given]
    wide = [one.float() for one in given]
    close(fused.gate(*there[:2]), fused.gate(*wide[:2]))
    for found, wanted in zip(fused.gate_back(*there), fused.gate_back(*wide)):
        close(found, wanted)
    close(fused.gated(torch.cat(there[:2], -1)), fused.gated(torch.cat(wide[:2], -1)))


def layout(device: str) -> Layout:
    random = np.random.default_rng(0)
    head = random.integers(0, 9, 300)
    made = [np.concatenate([head[: random.integers(0, 300)], random.integers(0, 9, 90)]) for _ in range(30)]
    return Layout.of(pack(made), device)


@pytest.mark.parametrize(("heads", "keys", "size"), [(12, 2, 128), (9, 3, 64), (4, 4, 64)])
def test_attention_and_its_gradients(heads: int, keys: int, size: int) -> None:
    torch.manual_seed(0)
    here, there = layout("cpu"), layout("cuda")
    # On a GPU a layout is filled up with tokens that nobody sees.
    tokens, filled = len(here.tokens), len(there.tokens)
    assert filled > tokens
    cos, sin = torch.randn(512, size // 2).cos(), torch.randn(512, size // 2).sin()
    given = [torch.randn(filled, count, size).bfloat16() for count in (heads, keys, keys, heads)]

    def run(parts: list[torch.Tensor], where: Layout, turns: list[torch.Tensor]) -> list[torch.Tensor]:
        q, k, v = (part.clone().requires_grad_() for part in parts[:3])
        seen = attend(*(fused.rotate(one, *turns, where.positions) for one in (q, k)), v, where)
        seen.backward(parts[3])
        return [seen.detach(), *(one.grad for one in (q, k, v) if one.grad is not None)]

    wanted = run([one[:tokens].float() for one in given], here, [cos, sin])
    found = run([one.cuda() for one in given], there, [cos.cuda(), sin.cuda()])
    assert len(found) == 4
    for one, other in zip(found, wanted):
        error = (one[:tokens].float().cpu() - other).norm() / other.norm()
        assert float(error) < 0.02
    again = run([one.cuda() for one in given], there, [cos.cuda(), sin.cuda()])
    assert torch.equal(again[0], found[0])


@pytest.mark.parametrize(("heads", "keys", "size"), [(12, 2, 128), (9, 3, 64)])
@pytest.mark.parametrize("count", [6, 100])
def test_decoding(heads: int, keys: int, size: int, count: int) -> None:
    """Few rows, whose tokens are read in parts, and many."""

    def run(device: str, dtype: torch.dtype) -> list[torch.Tensor]:
        torch.manual_seed(1)
        cache = torch.randn(count + 3, 1024, 2 * keys, size).bfloat16().to(device, dtype)
        angles = torch.rand(1024, size // 2)
        cos, sin = (one.bfloat16().to(device, dtype) for one in (angles.cos(), angles.sin()))
        mixed = torch.randn(count, heads + 2 * keys, size).bfloat16().to(device, dtype)
        slots = torch.randperm(count + 3)[:count].to(device)
        lengths = torch.randint(0, 1023, (count + 3,))
        lengths[:5] = torch.tensor([0, 63, 64, 300, 1022])
        lengths = lengths.to(device)
        q = fused.store(mixed, cache, cos, sin, slots, lengths, heads)
        return [q, cache, fused.decode(q, cache, slots, lengths)]

    for found, wanted in zip(run("cuda", torch.bfloat16), run("cpu", torch.float32)):
        close(found, wanted)


@pytest.mark.parametrize("lora", [False, True])
def test_a_model_in_bfloat16(lora: bool) -> None:
    """Log-probabilities near those of float32, gradients in the same direction."""
    model: Any = tiny(
        "Qwen2", hidden_size=256, num_attention_heads=4, num_key_value_heads=2, initializer_range=0.05
    )
    model = adapted(model) if lora else model
    narrow = copy.deepcopy(model).to("cuda", torch.bfloat16)
    wanted, found = (
        scores(PackedModel(model), rows(), 1.0),
        scores(PackedModel(narrow), rows(), 1.0, device="cuda"),
    )
    for one, other in zip(found, wanted):
        close(one, other.detach(), 0.05)
    wanted[0].sum().backward()
    found[0].sum().backward()
    for (name, one), other in zip(model.named_parameters(), narrow.parameters()):
        if one.grad is not None and one.grad.norm() > 1e-3:
            assert other.grad is not None, name
            cosine = torch.cosine_similarity(one.grad.flatten(), other.grad.float().cpu().flatten(), dim=0)
            assert float(cosine) > 0.97, name
