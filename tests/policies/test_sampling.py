"""Sampling: exact log-probabilities, private randomness, and nothing done for rows that have ended."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from hgpo.config.schema import ModelConfig
from hgpo.errors import BadSetting
from hgpo.learn.batching import tensors
from hgpo.learn.objective import token_logprobs
from hgpo.models.load import make_tiny
from hgpo.models.tokenizer import make_tokenizer
from hgpo.play.policy import Request
from hgpo.policies.batcher import Batcher
from hgpo.policies.hf.policy import HFPolicy, Sampling, stop_ids
from hgpo.policies.hf.sampling import pick, sample

from ..learn.tokens import Row, batch_of


@pytest.fixture(scope="module")
def model() -> torch.nn.Module:
    shape = ModelConfig(hidden=16, layers=2, heads=2, intermediate=32)
    return make_tiny(shape, vocabulary=12, end_id=0, seed=4, positions=64).eval()


PROMPTS = [[5, 6, 7], [3], [9, 8, 7, 6, 5, 4], [2, 2]]


def draw(
    model: torch.nn.Module, which: list[int], temperature: float = 1.0
) -> list[tuple[list[int], list[float]]]:
    found = sample(
        model,
        [PROMPTS[i] for i in which],
        [100 + i for i in which],
        temperature=temperature,
        max_new_tokens=9,
        stop_ids=[0],
        pad_id=0,
    )
    return [(one.ids, one.logprobs) for one in found]


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
    found = draw(model, [0, 1, 2, 3], temperature)
    rows = [Row(PROMPTS[i], ids, logs, 0.0) for i, (ids, logs) in enumerate(found)]
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


def test_the_policy_answers_all_that_wait_together(model: torch.nn.Module) -> None:
    tokenizer = make_tokenizer(["a b c d e f g h i j"], "word", 12)
    policy = HFPolicy(model, tokenizer, Sampling(1.0, 4))

    async def ask() -> list[str]:
        ids = await policy.encode("a b")
        requests = [Request("a b", ids, seed, f"e{seed}", 0, "") for seed in range(6)]
        return [reply.text for reply in await asyncio.gather(*(policy.generate(one) for one in requests))]

    first = asyncio.run(ask())
    assert policy.counters.batches == 1
    assert policy.counters.requests == 6
    assert asyncio.run(ask()) == first


def test_a_failing_batch_fails_its_askers_only() -> None:
    def answer(questions: list[int]) -> list[int]:
        if 13 in questions:
            raise ValueError("bad luck")
        return [2 * one for one in questions]

    async def go() -> list[object]:
        batcher: Batcher[int, int] = Batcher(answer)
        first = await asyncio.gather(batcher.ask(13), batcher.ask(1), return_exceptions=True)
        return [*first, await batcher.ask(4)]

    one, two, three = asyncio.run(go())
    assert isinstance(one, ValueError)
    assert isinstance(two, ValueError)
    assert three == 8


@pytest.mark.parametrize("beside", [False, True])
def test_who_needs_longer_to_ask_is_waited_for(beside: bool) -> None:
    """Prompts that had to be shortened are encoded twice; their episodes still share the batch of the others."""
    batches: list[list[int]] = []

    def answer(questions: Sequence[int]) -> list[int]:
        batches.append(sorted(questions))
        return list(questions)

    async def go() -> None:
        first: Batcher[int, int] = Batcher(list)
        executor = ThreadPoolExecutor(1) if beside else None
        second: Batcher[int, int] = Batcher(answer, executor, after=first)

        async def episode(number: int) -> None:
            for _ in range(4):
                for _ in range(1 + number):
                    await first.ask(number)
                await second.ask(number)

        await asyncio.gather(*map(episode, range(5)))

    asyncio.run(go())
    assert batches == [[0, 1, 2, 3, 4]] * 4


def test_word_tokens_round_trip() -> None:
    seen = "take mug 1 from desk 2. search[red shoes] click[x-large] click[6.5 wide] size 6.5"
    tokenizer = make_tokenizer([seen], "word", 100)
    for text in (
        "take mug 1 from desk 2",
        "search[red shoes]",
        "click[x-large]",
        "click[6.5 wide]",
        "size 6.5",
    ):
        assert tokenizer.decode(tokenizer.encode(text)) == text
    assert len(tokenizer.encode("mug 1")) == 1
    bpe = make_tokenizer(["take mug 1"], "bpe", 300)
    assert bpe.decode(bpe.encode("Größe: 6.5-Wide [x]")) == "Größe: 6.5-Wide [x]"


def test_a_model_that_cannot_stop_is_refused() -> None:
    class Endless:
        eos_token_id = None
        name_or_path = "endless"

    with pytest.raises(BadSetting, match="no end token"):
        stop_ids(object(), Endless())
