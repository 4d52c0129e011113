"""A transformers model as a policy, in this process: what training samples from."""

from __future__ import annotations

import functools
import time
from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

from ...errors import BadSetting
from ...play.policy import Reply, Request
from ..batched import BatchedPolicy
from .budget import Budget
from .decoder import Decoder, supported
from .sampling import Sampled, sample


@dataclass(frozen=True)
class Sampling:
    """How replies are sampled."""

    temperature: float = 1.0
    """Divides the logits; 0 takes the most likely token every time."""
    max_new_tokens: int = 512
    """Limit of each reply."""
    batch_tokens: int = 65536
    """At most this many token positions (prompt and reply, padding included) are in flight at once; fewer when
    the device has no memory for them."""

    def __post_init__(self) -> None:
        if self.temperature < 0:
            raise BadSetting(f"temperature is {self.temperature}; expected 0 or more.")
        if self.max_new_tokens < 1:
            raise BadSetting(f"max_new_tokens is {self.max_new_tokens}; expected 1 or more.")


@dataclass
class Counters:
    """What generation did; the benchmark and the metrics read it."""

    requests: int = 0
    batches: int = 0
    prompt_tokens: int = 0
    new_tokens: int = 0
    padded_tokens: int = 0
    seconds: float = 0.0
    """Spent generating; the results are on the host by then."""


class HFPolicy(BatchedPolicy):
    """Batches whatever is waiting, sorted by length so that little is padding."""

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        sampling: Sampling,
        executor: Executor | None = None,
        decoder: Decoder | None = None,
    ) -> None:
        super().__init__(tokenizer, executor)
        self.model, self.sampling = model, sampling
        self.decoder = decoder
        self.stop_ids = stop_ids(model, tokenizer)
        self.counters = Counters()
        self.budget = Budget(sampling.batch_tokens, "rollout.batch_tokens")

    def answer(self, requests: Sequence[Request]) -> list[Reply]:
        """Answer all requests, in batches of similar length within the token budget."""
        order = sorted(range(len(requests)), key=lambda i: len(requests[i].prompt_ids))
        replies: dict[int, Reply] = {}
        while len(replies) < len(order):
            some = functools.partial(self._first, requests, order[len(replies) :])
            replies |= self.budget.spend(some, self._clean)
        return [replies[index] for index in range(len(requests))]

    def _first(self, requests: Sequence[Request], rest: Sequence[int]) -> dict[int, Reply]:
        """Replies to as many of the requests numbered `rest`, shortest first, as the budget holds."""
        widths = [len(requests[index].prompt_ids) + self.sampling.max_new_tokens for index in rest]
        end = 1
        while end < len(rest) and (end + 1) * widths[end] <= self.budget.tokens:
            end += 1
        self.budget.used = end * widths[end - 1]
        chunk = rest[:end]
        return dict(zip(chunk, self._sample([requests[index] for index in chunk])))

    def _clean(self) -> None:
        if self.decoder is not None:
            self.decoder.drop()

    def _sample(self, requests: Sequence[Request]) -> list[Reply]:
        start, before = time.perf_counter(), 0 if self.decoder is None else self.decoder.padded
        sampled = self._replies([r.prompt_ids for r in requests], [r.seed for r in requests])
        self.counters.seconds += time.perf_counter() - start
        lengths = [len(request.prompt_ids) for request in requests]
        self.counters.requests += len(requests)
        self.counters.batches += 1
        self.counters.prompt_tokens += sum(lengths)
        if self.decoder is None:
            self.counters.padded_tokens += len(lengths) * max(lengths) - sum(lengths)
        else:
            self.counters.padded_tokens += self.decoder.padded - before
        self.counters.new_tokens += sum(len(one.ids) for one in sampled)
        texts = self.tokenizer.batch_decode([one.ids for one in sampled], skip_special_tokens=True)
        return [
            Reply(text, one.ids, one.logprobs, truncated=not one.stopped) for text, one in zip(texts, sampled)
        ]

    def _replies(self, prompts: Sequence[Sequence[int]], seeds: Sequence[int]) -> list[Sampled]:
        if self.decoder is not None:
            return self.decoder.sample(prompts, seeds, self.sampling.temperature)
        was_training = self.model.training
        self.model.eval()
        sampled = sample(
            self.model,
            prompts,
            seeds,
            temperature=self.sampling.temperature,
            max_new_tokens=self.sampling.max_new_tokens,
            stop_ids=self.stop_ids,
            pad_id=self.stop_ids[0],
        )
        self.model.train(was_training)
        return sampled


def fast_decoder(model: Any, tokenizer: Any, max_new_tokens: int) -> Decoder | None:
    """A static-cache decoder where one helps (on a GPU) and the model's shape allows it."""
    if next(model.parameters()).device.type != "cuda" or not supported(model):
        return None
    return Decoder(model, stop_ids(model, tokenizer), max_new_tokens)


def stop_ids(model: Any, tokenizer: Any) -> list[int]:
    """The ids that end a reply: the model's own list and the tokenizer's end token."""
    found: list[int] = []
    settings = getattr(model, "generation_config", None)
    for value in (getattr(settings, "eos_token_id", None), tokenizer.eos_token_id):
        if value is not None:
            found += [int(one) for one in (value if isinstance(value, list | tuple) else [value])]
    if not found:
        raise BadSetting(
            f"The tokenizer of {getattr(tokenizer, 'name_or_path', 'the model')!r} has no end token, so no "
            "reply could ever end. Set eos_token in its tokenizer_config.json."
        )
    return sorted(set(found), key=found.index)
