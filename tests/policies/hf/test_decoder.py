"""The fast decoder against the plain sampler on transformers' own code."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from hgpo.policies.hf.decoder import Decoder, bucket, supported  # noqa: E402
from hgpo.policies.hf.sampling import sample  # noqa: E402

VOCABULARY, STOP = 50, 3


def tiny(kind: str, tied: bool = True, **more: Any) -> Any:
    import transformers

    shape = {
        "vocab_size": VOCABULARY,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "tie_word_embeddings": tied,
        "initializer_range": 0.3,
        **more,
    }
    config = getattr(transformers, f"{kind}Config")(**shape)
    torch.manual_seed(0)
    return getattr(transformers, f"{kind}ForCausalLM")(config).eval()


def prompts(count: int = 11) -> list[list[int]]:
    rng = np.random.default_rng(0)
    found = [rng.integers(4, VOCABULARY, rng.integers(1, 30)).tolist() for _ in range(count - 3)]
    return [*found, found[0], found[1], found[0]]


@pytest.mark.parametrize("kind", ["Llama", "Qwen2"])
@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("temperature", [1.0, 0.4, 0.0])
def test_the_same_replies_as_the_plain_sampler(kind: str, tied: bool, temperature: float) -> None:
    model = tiny(kind, tied)
    assert supported(model)
    seeds = list(range(11))
    plain = sample(
        model, prompts(), seeds, temperature=temperature, max_new_tokens=20, stop_ids=[STOP], pad_id=0
    )
    fast = Decoder(model, [STOP], 20).sample(prompts(), seeds, temperature)
    for one, other in zip(plain, fast):
        assert one.ids == other.ids
        assert one.stopped == other.stopped
        np.testing.assert_allclose(one.logprobs, other.logprobs, atol=1e-4)
    if (kind, temperature) == ("Llama", 1.0):  # both kinds of ending were among them
        assert {one.stopped for one in fast} == {True, False}


def test_batches_of_all_sizes_share_one_cache() -> None:
    """The largest batch and the longest prompt decide its size, and nothing of one batch shows in the next."""
    model = tiny("Llama")
    decoder = Decoder(model, [STOP], 8)
    rng = np.random.default_rng(1)
    for count, longest in ((20, 30), (5, 300), (70, 40), (3, 10), (20, 200)):
        asked = [rng.integers(4, VOCABULARY, rng.integers(1, longest)).tolist() for _ in range(count)]
        seeds = list(range(count))
        plain = sample(model, asked, seeds, temperature=1.0, max_new_tokens=8, stop_ids=[STOP], pad_id=0)
        fast = decoder.sample(asked, seeds, 1.0)
        assert [one.ids for one in fast] == [one.ids for one in plain]
    assert decoder.slots is not None
    assert decoder.slots.cache.shape[1] == bucket(70) + 1
    assert {bucket(3), bucket(20), bucket(70)} <= set(decoder.slots.batches)


@pytest.mark.parametrize("rows", [1, 3, 8, 40])
def test_rows_that_end_make_room_for_those_that_wait(rows: int) -> None:
    """Whoever shares the batch, and whenever a request enters it: the replies are those of one at a time."""
    model = tiny("Llama")
    rng = np.random.default_rng(5)
    asked = [rng.integers(4, VOCABULARY, rng.integers(1, 12)).tolist() for _ in range(40)]
    seeds = list(range(40))
    plain = sample(model, asked, seeds, temperature=1.0, max_new_tokens=30, stop_ids=[STOP], pad_id=0)
    assert len({len(one.ids) for one in plain}) > 5, "replies of many lengths"
    decoder = Decoder(model, [STOP], 30)
    steps: list[int] = []
    decode = decoder._decode

    def counted(state: Any, batch: Any, temperature: float) -> None:
        steps.append(len(batch))
        decode(state, batch, temperature)

    decoder._decode = counted  # type: ignore[method-assign]
    fast = decoder.sample(asked, seeds, 1.0, rows=rows)
    assert [one.ids for one in fast] == [one.ids for one in plain]
    assert max(steps) == bucket(rows)
    if rows == 40:
        assert steps[-1] < steps[0] == 64, "ended rows leave the batch"


@pytest.mark.parametrize("most", [1, 2])
def test_the_shortest_limits(most: int) -> None:
    model = tiny("Qwen2")
    plain = sample(
        model, prompts(), range(11), temperature=1.0, max_new_tokens=most, stop_ids=[STOP], pad_id=0
    )
    fast = Decoder(model, [STOP], most).sample(prompts(), range(11), 1.0)
    assert [(one.ids, one.stopped) for one in fast] == [(one.ids, one.stopped) for one in plain]


def test_new_weights_are_taken_over() -> None:
    model = tiny("Llama")
    decoder = Decoder(model, [STOP], 8)
    before = decoder.sample(prompts(), list(range(11)), 1.0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    assert decoder.sample(prompts(), list(range(11)), 1.0) == before
    decoder.refresh(model)
    after = decoder.sample(prompts(), list(range(11)), 1.0)
    expected = sample(
        model, prompts(), list(range(11)), temperature=1.0, max_new_tokens=8, stop_ids=[STOP], pad_id=0
    )
    assert [one.ids for one in after] == [one.ids for one in expected]
    assert [one.ids for one in after] != [one.ids for one in before]


def test_adapters_are_merged() -> None:
    peft = pytest.importorskip("peft")
    model = peft.get_peft_model(
        tiny("Qwen2"), peft.LoraConfig(r=4, target_modules="all-linear", init_lora_weights=False)
    ).eval()
    assert supported(model)
    fast = Decoder(model, [STOP], 10).sample(prompts(), list(range(11)), 1.0)
    plain = sample(
        model, prompts(), list(range(11)), temperature=1.0, max_new_tokens=10, stop_ids=[STOP], pad_id=0
    )
    assert [one.ids for one in fast] == [one.ids for one in plain]


def test_a_reply_does_not_depend_on_its_batch() -> None:
    decoder = Decoder(tiny("Llama"), [STOP], 12)
    whole = decoder.sample(prompts(), list(range(11)), 1.0)
    for number, prompt in enumerate(prompts()):
        alone = decoder.sample([prompt], [number], 1.0)[0]
        assert alone.ids == whole[number].ids


def test_batch_sizes_come_in_few_steps() -> None:
    assert {bucket(rows) for rows in range(1, 513)} == {8, 16, 32, 64, 96, 128, 192, 256, 384, 512}
    assert all(bucket(rows) >= rows for rows in range(1, 513))


def test_other_shapes_are_left_to_transformers() -> None:
    from transformers import GPT2Config, GPT2LMHeadModel

    other = GPT2LMHeadModel(GPT2Config(vocab_size=50, n_embd=16, n_layer=1, n_head=2))
    other.config.hidden_act = "silu"
    assert not supported(other)
    assert not supported(tiny("Qwen2", use_sliding_window=True))


def test_prompts_prefilled_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """However the prompts are cut into parts, the replies are the same."""
    model = tiny("Qwen2")
    one_part, parts = Decoder(model, [STOP], 8), Decoder(model, [STOP], 8)
    whole = one_part.sample(prompts(), list(range(11)), 1.0)
    monkeypatch.setattr("hgpo.policies.hf.decoder.PREFILL_TOKENS", 40)
    parted = parts.sample(prompts(), list(range(11)), 1.0)
    assert [one.ids for one in parted] == [one.ids for one in whole]
    for one, other in zip(parted, whole):
        np.testing.assert_allclose(one.logprobs, other.logprobs, atol=1e-5)
