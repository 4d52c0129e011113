"""What is asked of vLLM and how its answer is read, against a stand-in with the interface of vLLM 0.32."""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from hgpo.errors import BadSetting, MissingExtra
from hgpo.play.policy import Request
from hgpo.policies.engine import Counters, Source, check_opening
from hgpo.policies.vllm import VllmEngine
from hgpo.runs import load, train

from ..worlds import FETCH
from . import vllm_stand_in


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


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> type[vllm_stand_in.LLM]:
    monkeypatch.setitem(sys.modules, "vllm", vllm_stand_in.module())
    return vllm_stand_in.LLM


def metrics(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("more", [[], ["model.lora_rank=2", "lr=1e-2"]], ids=["whole", "lora"])
def test_a_run_with_vllm_is_the_run_with_the_decoder(
    stand_in: type[vllm_stand_in.LLM], tmp_path: Path, more: list[str]
) -> None:
    """The same engine behind the interface, so the same numbers: every update reaches it, and nothing else does."""
    short = ["iterations=2", "eval.every=2", *more]
    train(load(FETCH, short), tmp_path / "hf", quiet=True)
    settings = [*short, "rollout.engine=vllm", "rollout.sleep=true", "rollout.memory_share=0.2"]
    train(load(FETCH, [*settings, "iterations=1", "save_every=1"]), tmp_path / "vllm", quiet=True)
    train(load(FETCH, settings), tmp_path / "vllm", quiet=True, resume=True)
    for mine, other in zip(metrics(tmp_path / "vllm")[1:], metrics(tmp_path / "hf")[1:], strict=True):
        assert mine["success"] == other["success"]
        assert mine["steps"] == other["steps"]
        assert mine["loss/policy"] == pytest.approx(other["loss/policy"], abs=1e-4)
        assert mine["engine/logprob_gap"] == pytest.approx(0.0, abs=1e-4)
    update = ["sleep 2", "wake", "weights", "forget"]
    begin = ["start", "weights", "forget"]
    assert stand_in.calls == [*begin, *update, *begin, *update]
    assert stand_in.settings["gpu_memory_utilization"] == 0.2
    assert stand_in.settings["enable_sleep_mode"]


def test_an_engine_that_is_off_shows_in_the_gap(stand_in: type[vllm_stand_in.LLM], tmp_path: Path) -> None:
    """Log-probabilities half a nat too low: the metric says so, and so does a cap on the correction."""
    generate = stand_in.generate

    def low(self: Any, *given: Any, **named: Any) -> list[Any]:
        found = generate(self, *given, **named)
        for entry in (entry for one in found for entry in one.outputs[0].logprobs):
            for value in entry.values():
                value.logprob -= 0.5
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stand_in, "generate", low)
        for name, extra in (
            ("plain", []),
            ("capped", ["update.old_logprobs=recomputed", "update.importance_cap=1.2"]),
        ):
            settings = ["iterations=1", "eval.every=0", "rollout.engine=vllm", *extra]
            train(load(FETCH, settings), tmp_path / name, quiet=True)
            assert metrics(tmp_path / name)[1]["engine/logprob_gap"] == pytest.approx(0.5, abs=1e-3)


def test_without_seeds_a_batch_decides(stand_in: type[vllm_stand_in.LLM], tmp_path: Path) -> None:
    asked: list[Any] = []
    generate = stand_in.generate

    def spy(self: Any, prompts: Any, params: Any, **named: Any) -> list[Any]:
        asked.extend(one.seed for one in params)
        return generate(self, prompts, params, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stand_in, "generate", spy)
        settings = ["iterations=1", "eval.every=0", "rollout.engine=vllm", "rollout.request_seeds=false"]
        train(load(FETCH, settings), tmp_path / "run", quiet=True)
    assert asked
    assert set(asked) == {None}


def test_several_processes_are_refused(
    stand_in: type[vllm_stand_in.LLM], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(BadSetting, match=r"'vllm' in a run of 2 processes; it trains in one"):
        train(load(FETCH, ["rollout.engine=vllm"]), tmp_path / "run", quiet=True)
    assert not stand_in.calls


def test_a_share_that_the_weights_fill_is_refused(
    stand_in: type[vllm_stand_in.LLM], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = {
        "num_hidden_layers": 28, "hidden_size": 1536, "intermediate_size": 8960, "num_attention_heads": 12,
        "num_key_value_heads": 2, "vocab_size": 151936, "tie_word_embeddings": True,
    }  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(sizes))
    config = load(FETCH, [f"model={tmp_path}", "model.dtype=bfloat16", "rollout.memory_share=0.1"])
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    held = SimpleNamespace(total_memory=24 * 2**30)
    monkeypatch.setattr("torch.cuda.get_device_properties", lambda _: held)
    source = Source(config, None, str(tmp_path))  # type: ignore[arg-type]
    with pytest.raises(BadSetting, match=r"memory_share=0\.1 .* 2\.4 GiB .* alone take 2\.9 GiB"):
        check_opening("vllm", source)
    held.total_memory = 80 * 2**30
    check_opening("vllm", source)
