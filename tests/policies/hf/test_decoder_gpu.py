"""The decoder where it is meant to run: recorded steps on a CUDA device. `python -m pytest -m gpu` runs these."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from hgpo.policies.hf.decoder import Decoder  # noqa: E402
from hgpo.policies.hf.sampling import sample  # noqa: E402

from .test_decoder import STOP, VOCABULARY, tiny  # noqa: E402

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


def prompts(count: int, longest: int, seed: int = 0) -> list[list[int]]:
    rng = np.random.default_rng(seed)
    return [rng.integers(4, VOCABULARY, rng.integers(1, longest)).tolist() for _ in range(count)]


def replies(model: Any, asked: list[list[int]], temperature: float) -> list[list[int]]:
    found = sample(
        model,
        asked,
        list(range(len(asked))),
        temperature=temperature,
        max_new_tokens=12,
        stop_ids=[STOP],
        pad_id=0,
    )
    return [one.ids for one in found]


@pytest.mark.parametrize("kind", ["Llama", "Qwen2"])
@pytest.mark.parametrize("temperature", [1.0, 0.0])
def test_recorded_steps_sample_what_the_plain_sampler_samples(kind: str, temperature: float) -> None:
    model = tiny(kind).cuda()
    decoder = Decoder(model, [STOP], 12)
    for count, longest in ((5, 20), (20, 30), (5, 25), (70, 40)):
        asked = prompts(count, longest)
        fast = decoder.sample(asked, list(range(count)), temperature)
        same = np.mean([one.ids == other for one, other in zip(fast, replies(model, asked, temperature))])
        assert same > 0.97, "float32 on two code paths may part at a tie, not more"


def test_a_longer_cache_is_recorded_anew() -> None:
    """A batch with longer prompts than before needs larger buffers; the old recording is dropped with its memory."""
    model = tiny("Llama").cuda()
    decoder = Decoder(model, [STOP], 12)
    for longest in (20, 200, 500, 30):
        asked = prompts(6, longest, seed=longest)
        fast = decoder.sample(asked, list(range(6)), 1.0)
        assert [one.ids for one in fast] == replies(model, asked, 1.0)


def test_new_weights_reach_the_recording() -> None:
    model = tiny("Llama").cuda()
    decoder = Decoder(model, [STOP], 12)
    asked = prompts(6, 20)
    before = decoder.sample(asked, list(range(6)), 1.0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    decoder.refresh(model)
    after = [one.ids for one in decoder.sample(asked, list(range(6)), 1.0)]
    assert after == replies(model, asked, 1.0)
    assert after != [one.ids for one in before]
