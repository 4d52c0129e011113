"""An engine as somebody else would add one: a file, and a line in the table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hgpo.models.device import pick_device
from hgpo.models.load import load_model
from hgpo.play.policy import Policy, Reply, Request
from hgpo.policies.encoding import PromptEncoder
from hgpo.policies.engine import CountedPolicy, Counters, Entry, Source
from hgpo.policies.hf.engine import stop_ids
from hgpo.policies.hf.sampling import sample

ENTRY = Entry("tests.policies.one_by_one:OneByOne", ("torch", "transformers"), "train", trains=True)
calls: list[str] = []
"""What was asked of the engines, in order; whoever looks clears it first."""


class OneByOne:
    """Answers every request alone."""

    def __init__(self, model: Any, tokenizer: Any, limit: int) -> None:
        self.model, self.tokenizer, self.limit = model, tokenizer, limit
        self.counters = Counters()

    @classmethod
    def open(cls, source: Source) -> OneByOne:
        calls.append("open")
        model, tokenizer = source.model, source.tokenizer
        if model is None:
            device = pick_device(source.config.device)
            model, tokenizer = load_model(source.path, source.config.model, device)
        return cls(model, tokenizer, source.config.agent.max_response_tokens)

    def policy(self, temperature: float) -> Policy:
        calls.append(f"policy {temperature}")
        return CountedPolicy(OneByOnePolicy(self, temperature), self)

    def pause(self) -> None:
        calls.append("pause")

    def load(self, model: Any) -> None:
        calls.append("load")
        self.model = model

    def close(self) -> None:
        calls.append("close")


class OneByOnePolicy:
    def __init__(self, engine: OneByOne, temperature: float) -> None:
        self.engine, self.temperature = engine, temperature
        self.encoder = PromptEncoder(engine.tokenizer)

    async def encode(self, prompt: str) -> Sequence[int]:
        return self.encoder(prompt)

    async def generate(self, request: Request) -> Reply:
        stops = stop_ids(self.engine.model, self.engine.tokenizer)
        (one,) = sample(
            self.engine.model.eval(),
            [request.prompt_ids],
            [request.seed],
            temperature=self.temperature,
            max_new_tokens=self.engine.limit,
            stop_ids=stops,
            pad_id=stops[0],
        )
        text = self.engine.tokenizer.decode(one.ids, skip_special_tokens=True)
        return Reply(text, one.ids, one.logprobs, truncated=not one.stopped)

    def finish(self, episode: str) -> None:
        pass
