"""What is asked of vLLM and how its answer is read, against a stand-in with the interface of vLLM 0.32."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import replace
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from hgpo.errors import MissingExtra
from hgpo.play.policy import Request
from hgpo.policies.engine import Counters
from hgpo.policies.vllm import VllmEngine


class Words:
    """A tokenizer of numbers."""

    chat_template = None

    def __call__(self, texts: list[str], **_: Any) -> dict[str, list[list[int]]]:
        return {"input_ids": [[int(word) for word in text.split()] for text in texts]}


class LLM:
    """Replies with the last token of the prompt, then the seed's last digit; cut when only one token may be said."""

    def __init__(self, **settings: Any) -> None:
        self.settings, self.calls = settings, 0

    def get_tokenizer(self) -> Words:
        return Words()

    def generate(self, prompts: list[dict[str, Any]], params: list[Any], *, use_tqdm: bool) -> list[Any]:
        assert not use_tqdm
        self.calls += 1
        outputs = []
        for prompt, asked in zip(prompts, params, strict=True):
            assert (asked.logprobs, asked.temperature) == (0, 0.5)
            ids = [prompt["prompt_token_ids"][-1], asked.seed % 10][: asked.max_tokens]
            logs = [{token: SimpleNamespace(logprob=-0.25 * token)} for token in ids]
            reason = "stop" if len(ids) == 2 else "length"
            said = SimpleNamespace(text=str(ids), token_ids=tuple(ids), logprobs=logs, finish_reason=reason)
            outputs.append(SimpleNamespace(outputs=[said]))
        return outputs


@pytest.fixture
def vllm(monkeypatch: pytest.MonkeyPatch) -> None:
    module: Any = ModuleType("vllm")
    module.LLM, module.SamplingParams = LLM, SimpleNamespace
    monkeypatch.setitem(sys.modules, "vllm", module)


@pytest.mark.usefixtures("vllm")
@pytest.mark.parametrize("limit", [1, 8])
def test_every_request_has_its_own_seed_and_keeps_its_tokens(limit: int) -> None:
    engine = VllmEngine("folder", limit, gpu_memory_utilization=0.4)
    policy = engine.policy(0.5)
    assert engine.llm.settings == {
        "model": "folder",
        "logprobs_mode": "processed_logprobs",
        "trust_remote_code": False,
        "load_format": "safetensors",
        "gpu_memory_utilization": 0.4,
    }

    async def play() -> list[Any]:
        async def one(prompt: str, seed: int) -> Any:
            ids = await policy.encode(prompt)
            return await policy.generate(Request(prompt, ids, seed, episode="one", step=0, observation=""))

        return await asyncio.gather(one("3 4", 17), one("5 6 7", 12))

    first, second = asyncio.run(play())
    assert (list(first.response_ids), list(second.response_ids)) == ([4, 7][:limit], [7, 2][:limit])
    assert list(first.logprobs) == [-1.0, -1.75][:limit]
    assert first.truncated == (limit == 1)
    assert engine.llm.calls == 1
    counted = replace(engine.counters, seconds=0.0)
    assert counted == Counters(requests=2, batches=1, prompt_tokens=5, new_tokens=2 * min(2, limit))
    assert engine.counters.seconds > 0


def test_without_vllm_the_error_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "vllm", None)
    with pytest.raises(MissingExtra, match="vllm"):
        VllmEngine("folder", 8)
