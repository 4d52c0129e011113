"""Sampling: exact log-probabilities, private randomness, and nothing done for rows that have ended."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from hgpo.config.schema import ModelConfig
from hgpo.learn.batching import tensors
from hgpo.learn.objective import token_logprobs
from hgpo.models.tiny import make_tiny
from hgpo.policies.hf.sampling import draw as draw_in_blocks
from hgpo.policies.hf.sampling import pick, sample

from ...learn.tokens import Row, batch_of


@pytest.fixture(scope="module")
def model() -> torch.nn.Module:
    shape = ModelConfig(hidden=16, layers=2, heads=2, intermediate=32)
    return make_tiny(shape, vocabulary=12, end_id=0, seed=4, positions=64).eval()


PROMPTS = [[5, 6, 7], [3], [9, 8, 7, 6, 5, 4], [2, 2]]


def draw(
    model: torch.nn.Module, which: list[int], temperature: float = 1.0
) -> list[tuple[list[int], list[float]]]:
    sampled = sample(
        model,
        [PROMPTS[i] for i in which],
        [100 + i for i in which],
        temperature=temperature,
        max_new_tokens=9,
        stop_ids=[0],
        pad_id=0,
    )
    return [(one.ids, one.logprobs) for one in sampled]


def test_a_reply_does_not_depend_on_its_batch(model: torch.nn.Module) -> None:
    together = draw(model, [0, 1, 2, 3])
    for index in range(4):
        alone = draw(model, [index])[0]
        assert alone[0] == together[index][0]
        assert alone[1] == pytest.approx(together[index][1], abs=1e-5)
    assert draw(model, [3, 2, 1, 0])[::-1][0][0] == together[0][0]
    assert len({tuple(ids) for ids, _ in together}) > 1


def test_replies_end_with_the_end_token_or_at_the_limit(model: torch.nn.Module) -> None:
    for ids, logs in draw(model, [0, 1, 2, 3]):
        assert len(ids) == len(logs)
        assert 0 not in ids[:-1]
        assert ids[-1] == 0 or len(ids) == 9


@pytest.mark.parametrize("temperature", [1.0, 0.4])
def test_recorded_logprobs_are_those_the_update_computes(model: torch.nn.Module, temperature: float) -> None:
    replies = draw(model, [0, 1, 2, 3], temperature)
    rows = [Row(PROMPTS[i], ids, logs, 0.0) for i, (ids, logs) in enumerate(replies)]
    again, _ = token_logprobs(model, tensors(batch_of(rows), np.arange(4), 0, "cpu"), temperature)
    for place, row in enumerate(rows):
        assert again[place, : len(row.response_ids)].tolist() == pytest.approx(list(row.logprobs), abs=1e-4)


def test_greedy_equals_the_library(model: torch.nn.Module) -> None:
    ids, _ = draw(model, [2], temperature=0.0)[0]
    expected = model.generate(  # type: ignore[operator]
        torch.tensor([PROMPTS[2]]), max_new_tokens=9, do_sample=False, eos_token_id=0, pad_token_id=0
    )[0, len(PROMPTS[2]) :]
    assert ids == expected.tolist()


def test_frequencies_follow_the_probabilities() -> None:
    logits = torch.log(torch.tensor([0.5, 0.3, 0.15, 0.05])).repeat(20_000, 1)
    uniforms = torch.from_numpy(np.random.default_rng(0).random(20_000))
    tokens, logs = pick(logits, uniforms, 1.0)
    assert torch.bincount(tokens, minlength=4).div(20_000).tolist() == pytest.approx(
        [0.5, 0.3, 0.15, 0.05], abs=0.01
    )
    assert torch.allclose(logs, logits.gather(-1, tokens[:, None]).squeeze(-1), atol=1e-6)


def test_the_edges_of_the_uniform_are_safe() -> None:
    logits = torch.tensor([[0.0, -1e9], [-1e9, 0.0]])
    assert pick(logits, torch.tensor([0.999999999, 0.0]), 1.0)[0].tolist() == [0, 1]


@pytest.mark.parametrize("vocabulary", [7, 50, 1024, 5003])
@pytest.mark.parametrize("temperature", [0.0, 0.4, 1.0])
def test_sums_of_blocks_draw_what_whole_sums_draw(vocabulary: int, temperature: float) -> None:
    torch.manual_seed(vocabulary)
    logits = 3 * torch.randn(2000, vocabulary)
    logits[:, 1] = -1e9
    uniforms = torch.rand(2000, dtype=torch.float64)
    uniforms[:2] = torch.tensor([0.0, 1.0 - 2**-53])
    tokens, logs = draw_in_blocks(logits, uniforms, temperature)
    wanted, expected = pick(logits, uniforms, temperature)
    assert float((tokens == wanted).double().mean()) >= 0.999, "a float32 rounding at an edge, not more"
    same = tokens == wanted
    torch.testing.assert_close(logs[same], expected[same], atol=1e-5, rtol=1e-5)
    assert not (tokens == 1).any()
