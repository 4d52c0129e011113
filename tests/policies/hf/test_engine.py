"""The transformers engine: what waits together is answered together, in batches that fit, with the present weights."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import torch

from hgpo.config.schema import ModelConfig
from hgpo.errors import BadSetting
from hgpo.models.tiny import make_tiny, make_tokenizer
from hgpo.play.policy import Request
from hgpo.policies.hf.decoder import Decoder, Slots
from hgpo.policies.hf.engine import HFEngine, stop_ids

from ...learn.test_out_of_memory import crowd

SHAPE = ModelConfig(hidden=16, layers=2, heads=2, intermediate=32)


def tiny(seed: int = 3) -> Any:
    return make_tiny(SHAPE, 20, 0, seed=seed, positions=64).eval()


def test_the_policy_answers_all_that_wait_together() -> None:
    tokenizer = make_tokenizer(["a b c d e f g h i j"], "word", 12)
    engine = HFEngine(tiny(), tokenizer, max_new_tokens=4)
    policy = engine.policy(1.0)

    async def ask() -> list[str]:
        ids = await policy.encode("a b")
        requests = [Request("a b", ids, seed, f"e{seed}", 0, "") for seed in range(6)]
        return [reply.text for reply in await asyncio.gather(*(policy.generate(one) for one in requests))]

    first = asyncio.run(ask())
    assert engine.counters.batches == 1
    assert engine.counters.requests == 6
    assert asyncio.run(ask()) == first


def test_a_model_that_cannot_stop_is_refused() -> None:
    class Endless:
        eos_token_id = None
        name_or_path = "endless"

    with pytest.raises(BadSetting, match="no end token"):
        stop_ids(object(), Endless())


def test_sampling_in_smaller_batches() -> None:
    """A reply does not depend on its batch, so all replies are those of one large batch."""
    tokenizer = make_tokenizer(["a b c d e f g h i j k l m n o p q"], "word", 20)
    asked = ["a b c", "d", "e f g h i j", "k l m n", "o", "p q a b c d e"] * 4

    def ask(most: int) -> tuple[list[str], HFEngine]:
        model = tiny()
        crowd(model, most)
        engine = HFEngine(model, tokenizer, max_new_tokens=4, batch_tokens=100_000)
        policy = engine.policy(1.0)

        async def one(number: int, prompt: str) -> str:
            ids = await policy.encode(prompt)
            return (await policy.generate(Request(prompt, ids, number, str(number), 0, ""))).text

        async def go() -> list[str]:
            return await asyncio.gather(*(one(*pair) for pair in enumerate(asked)))

        return asyncio.run(go()), engine

    wanted, engine = ask(10**9)
    assert engine.counters.batches == 1
    with pytest.warns(RuntimeWarning, match=r"going on with \d+\. Set rollout\.batch_tokens="):
        replies, engine = ask(40)
    assert replies == wanted
    assert engine.counters.requests == len(asked)
    assert engine.counters.batches > 1


def test_a_full_device_empties_the_decoder() -> None:
    tokenizer = make_tokenizer(["a b c d e f g h i j k l m n o p q"], "word", 20)
    model = tiny()
    engine = HFEngine(model, tokenizer, max_new_tokens=4, batch_tokens=200)
    engine.decoder = decoder = Decoder(model, engine.stop_ids, 4)
    requests = [Request("a b", (1, 2, 3), seed, str(seed), 0, "") for seed in range(24)]
    wanted = engine.answer(requests, 1.0)
    make, sizes = decoder._make_slots, []

    def small(count: int, width: int) -> Slots:
        sizes.append(count)
        if count > 17:
            raise torch.OutOfMemoryError("full")
        return make(count, width)

    decoder._make_slots = small  # type: ignore[method-assign]
    decoder.drop()
    with pytest.warns(RuntimeWarning, match=r"rollout\.batch_tokens"):
        replies = engine.answer(requests, 1.0)
    assert [one.text for one in replies] == [one.text for one in wanted]
    assert sizes[0] > 17
    assert sizes[-1] <= 17


def test_new_weights_are_played_with() -> None:
    """Straight from the model, and through the decoder's copy of its weights."""
    tokenizer = make_tokenizer(["a b c d e f g h i j k l m n o p q"], "word", 20)
    requests = [Request("a b", (1, 2, 3), seed, str(seed), 0, "") for seed in range(24)]

    def texts(engine: HFEngine) -> list[str]:
        return [reply.text for reply in engine.answer(requests, 1.0)]

    other = tiny(seed=4)
    wanted = texts(HFEngine(other, tokenizer, max_new_tokens=4))
    for fast in (False, True):
        engine = HFEngine(tiny(), tokenizer, max_new_tokens=4)
        if fast:
            engine.decoder = Decoder(engine.model, engine.stop_ids, 4)
        assert texts(engine) != wanted
        engine.load(other)
        assert texts(engine) == wanted
        engine.close()


def test_a_temperature_below_zero_is_refused() -> None:
    tokenizer = make_tokenizer(["a b"], "word", 20)
    with pytest.raises(BadSetting, match=r"temperature is -1; expected 0 or more"):
        HFEngine(tiny(), tokenizer).policy(-1)
