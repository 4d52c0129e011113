"""When the device is full, passes become smaller and the results stay the same."""

from __future__ import annotations

import asyncio
import warnings
from typing import Any

import pytest
import torch

from hgpo.config.schema import Config, ModelConfig, UpdateConfig, WarmConfig
from hgpo.learn.clone import clone
from hgpo.learn.distributed import Processes
from hgpo.learn.learner import Learner
from hgpo.models.load import make_tiny
from hgpo.models.tokenizer import make_tokenizer
from hgpo.play.policy import Request
from hgpo.policies.hf.budget import HALVINGS, Budget
from hgpo.policies.hf.decoder import Decoder
from hgpo.policies.hf.policy import HFPolicy, Sampling, stop_ids

from .test_learner import rows

CPU = torch.device("cpu")
SHAPE = ModelConfig(hidden=16, layers=2, heads=2, intermediate=32)


def crowd(model: torch.nn.Module, most: int) -> list[int]:
    """Let the last layer of `model` fail above `most` token positions; the sizes that were tried."""
    tried: list[int] = []

    def look(_: Any, given: Any) -> None:
        size = given[0].shape[0] * given[0].shape[1]
        tried.append(size)
        if size > most:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB.")

    model.model.layers[-1].mlp.register_forward_pre_hook(look)
    return tried


def tiny() -> Any:
    return make_tiny(SHAPE, 20, 0, seed=3, positions=64)


def test_half_and_half_again() -> None:
    budget, seen = Budget(100, "some.setting"), []

    def attempt() -> int:
        seen.append(budget.tokens)
        budget.used = budget.tokens
        if budget.tokens > 30:
            raise torch.OutOfMemoryError("full")
        return budget.tokens

    with pytest.warns(RuntimeWarning, match=r"pass of 100 tokens; going on with 50\. Set some\.setting=50"):
        assert budget.spend(attempt, lambda: None) == 25
    assert seen == [100, 50, 25]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert budget.spend(attempt, lambda: None) == 25, "what fitted once is where the next one starts"


def test_half_of_what_was_used_not_of_what_was_allowed() -> None:
    """A budget is often far larger than any pass; halving it would try the same pass again."""
    budget, seen = Budget(1_000_000, "some.setting"), []

    def attempt() -> None:
        budget.used = min(120, budget.tokens)
        seen.append(budget.used)
        if budget.used > 40:
            raise torch.OutOfMemoryError("full")

    with pytest.warns(RuntimeWarning, match=r"pass of 120 tokens; going on with 60"):
        budget.spend(attempt, lambda: None)
    assert seen == [120, 60, 30]


def test_it_gives_up_and_other_errors_pass() -> None:
    tries = []

    def full() -> None:
        tries.append(1)
        raise torch.OutOfMemoryError("full")

    def other() -> None:
        raise RuntimeError("other")

    with pytest.warns(RuntimeWarning), pytest.raises(torch.OutOfMemoryError):
        Budget(64, "x").spend(full, lambda: None)
    assert len(tries) == HALVINGS + 1
    with pytest.raises(RuntimeError, match="other"):
        Budget(64, "x").spend(other, lambda: None)


@pytest.mark.parametrize("old_logprobs", ["sampled", "recomputed"])
def test_an_update_in_smaller_passes(old_logprobs: str) -> None:
    update = UpdateConfig(updates=2, micro_tokens=10_000, lr=1e-2, warmup=8, old_logprobs=old_logprobs)
    config = Config(model=SHAPE, update=update)
    free, tight = (Learner(tiny(), config, Processes(CPU), 0) for _ in range(2))
    tried = crowd(tight.model, 100)
    wanted = free.update(rows(), 0)
    with pytest.warns(RuntimeWarning, match=r"going on with \d+\. Set update\.micro_tokens="):
        found = tight.update(rows(), 0)
    assert max(tried) > 100
    assert tight.budget.tokens <= 100
    assert tight.updates == free.updates == 2
    assert found["grad_norm"] == pytest.approx(wanted["grad_norm"], rel=1e-4)
    assert found["lr"] == wanted["lr"]
    for name, value in free.state().items():
        torch.testing.assert_close(tight.state()[name], value, rtol=1e-3, atol=1e-5)


def test_cloning_in_smaller_passes() -> None:
    config = Config(
        model=SHAPE, update=UpdateConfig(micro_tokens=10_000), warm=WarmConfig(epochs=2, batch_rows=12)
    )
    free, tight = tiny(), tiny()
    crowd(tight, 100)
    wanted = [loss for _, _, loss in clone(free, rows(), config, 0, CPU)][-1]
    with pytest.warns(RuntimeWarning, match=r"update\.micro_tokens"):
        found = [loss for _, _, loss in clone(tight, rows(), config, 0, CPU)][-1]
    assert found == pytest.approx(wanted, rel=1e-4)
    for one, other in zip(free.parameters(), tight.parameters()):
        torch.testing.assert_close(other, one, rtol=1e-3, atol=1e-5)


def test_sampling_in_smaller_batches() -> None:
    """A reply does not depend on its batch, so all replies are those of one large batch."""
    tokenizer = make_tokenizer(["a b c d e f g h i j k l m n o p q"], "word", 20)
    asked = ["a b c", "d", "e f g h i j", "k l m n", "o", "p q a b c d e"] * 4

    def ask(most: int) -> tuple[list[str], HFPolicy]:
        model = tiny()
        crowd(model, most)
        policy = HFPolicy(model, tokenizer, Sampling(1.0, 4, 100_000))

        async def one(number: int, prompt: str) -> str:
            ids = await policy.encode(prompt)
            return (await policy.generate(Request(prompt, ids, number, str(number), 0, ""))).text

        async def go() -> list[str]:
            return await asyncio.gather(*(one(*pair) for pair in enumerate(asked)))

        return asyncio.run(go()), policy

    wanted, policy = ask(10**9)
    assert policy.counters.batches == 1
    with pytest.warns(RuntimeWarning, match=r"going on with \d+\. Set rollout\.batch_tokens="):
        found, policy = ask(40)
    assert found == wanted
    assert policy.counters.requests == len(asked)
    assert policy.counters.batches > 1


def test_a_full_device_empties_the_decoder() -> None:
    tokenizer = make_tokenizer(["a b c d e f g h i j k l m n o p q"], "word", 20)
    model = tiny()
    decoder = Decoder(model, stop_ids(model, tokenizer), 4)
    policy = HFPolicy(model, tokenizer, Sampling(1.0, 4, 200), None, decoder)
    requests = [Request("a b", (1, 2, 3), seed, str(seed), 0, "") for seed in range(24)]
    wanted = policy.answer(requests)
    make, sizes = decoder._make_cache, []

    def small(size: int, width: int) -> torch.Tensor:
        sizes.append(size)
        if size > 16:
            raise torch.OutOfMemoryError("full")
        return make(size, width)

    decoder._make_cache = small  # type: ignore[method-assign]
    decoder.drop()
    with pytest.warns(RuntimeWarning, match=r"rollout\.batch_tokens"):
        found = policy.answer(requests)
    assert [one.text for one in found] == [one.text for one in wanted]
    assert sizes[0] > 16
    assert sizes[-1] <= 16
