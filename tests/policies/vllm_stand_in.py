"""A stand-in for vLLM 0.24: the interface that the engine uses, the sampling of this package behind it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import ModuleType, SimpleNamespace
from typing import Any

import torch

from hgpo.config.schema import ModelConfig
from hgpo.models.load import load_model
from hgpo.policies.hf.engine import stop_ids
from hgpo.policies.hf.sampling import sample


class Weights:
    """The model inside, which takes weights by their names in transformers; each must be there."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def load_weights(self, weights: Iterable[tuple[str, torch.Tensor]]) -> None:
        targets = dict(self.model.named_parameters())
        given = dict(weights)
        assert set(given) == set(targets)
        with torch.no_grad():
            for name, value in given.items():
                targets[name].copy_(value)


class LLM:
    """Loads the folder; what happens to it is written into `calls`."""

    calls: list[str] = []  # noqa: RUF012 - one list for all, read by the tests
    settings: dict[str, Any] = {}  # noqa: RUF012

    def __init__(self, model: str, **settings: Any) -> None:
        self.model, self.tokenizer = load_model(model, ModelConfig(), torch.device("cpu"))
        self.model.eval()
        self.asleep = False
        LLM.settings = settings
        LLM.calls.append("start")

    def get_tokenizer(self) -> Any:
        return self.tokenizer

    def apply_model(self, function: Callable[[Any], Any]) -> list[Any]:
        assert not self.asleep
        LLM.calls.append("weights")
        return [function(Weights(self.model))]

    def reset_prefix_cache(self) -> bool:
        LLM.calls.append("forget")
        return True

    def sleep(self, level: int) -> None:
        LLM.calls.append(f"sleep {level}")
        self.asleep = True
        with torch.no_grad():
            for parameter in self.model.parameters():
                parameter.zero_()

    def wake_up(self) -> None:
        LLM.calls.append("wake")
        self.asleep = False

    def generate(self, prompts: list[dict[str, Any]], params: list[Any], *, use_tqdm: bool) -> list[Any]:
        assert not self.asleep
        assert not use_tqdm
        found = sample(
            self.model,
            [prompt["prompt_token_ids"] for prompt in prompts],
            [number if one.seed is None else one.seed for number, one in enumerate(params)],
            temperature=params[0].temperature,
            max_new_tokens=params[0].max_tokens,
            stop_ids=stop_ids(self.model, self.tokenizer),
            pad_id=0,
        )
        texts = self.tokenizer.batch_decode([one.ids for one in found], skip_special_tokens=True)
        return [
            SimpleNamespace(
                outputs=[
                    SimpleNamespace(
                        text=text,
                        token_ids=tuple(one.ids),
                        logprobs=[{t: SimpleNamespace(logprob=log)} for t, log in zip(one.ids, one.logprobs)],
                        finish_reason="stop" if one.stopped else "length",
                    )
                ]
            )
            for text, one in zip(texts, found)
        ]


def module() -> ModuleType:
    """To stand in `sys.modules`."""
    made: Any = ModuleType("vllm")
    made.LLM, made.SamplingParams = LLM, SimpleNamespace
    LLM.calls.clear()
    return made  # type: ignore[no-any-return]
