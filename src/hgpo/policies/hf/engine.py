"""A transformers model as an engine, in this process: what training samples from by default."""

from __future__ import annotations

import functools
import time
from collections.abc import Sequence
from typing import Any

from ...errors import BadSetting
from ...models.blueprint import copy_weights, whole_copy
from ...models.out_of_memory import TokenBudget
from ...models.sharded import is_sharded
from ...play.policy import Reply, Request
from ..batched import BatchedEngine
from ..engine import Counters, Source
from .decoder import Decoder, supported
from .sampling import Sampled, sample


class HFEngine(BatchedEngine):
    """Batches whatever is waiting, sorted by length so that little is padding.

    On a GPU, models of a known shape are sampled by a static-cache decoder from a copy of their weights; all others
    by the model itself, so that its present weights are always played with. Of a model that is spread over processes
    every engine has a whole copy, and all processes must make their engines and `load` together.

    Args:
        model: a causal language model of transformers.
        tokenizer: its tokenizer.
        max_new_tokens: limit of each reply.
        batch_tokens: at most this many token positions (prompt and reply, padding included) are in flight at once;
            fewer when the device has no memory for them.
        beside: see `BatchedEngine`.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        *,
        max_new_tokens: int = 512,
        batch_tokens: int = 65536,
        beside: bool = False,
    ) -> None:
        super().__init__(tokenizer, beside=beside)
        if max_new_tokens < 1:
            raise BadSetting(f"max_new_tokens is {max_new_tokens}; expected 1 or more.")
        self.max_new_tokens = max_new_tokens
        self.stop_ids = stop_ids(model, tokenizer)
        self.budget = TokenBudget(batch_tokens, "rollout.batch_tokens")
        self.decoder: Decoder | None = None
        if next(model.parameters()).device.type == "cuda" and supported(model):
            self.decoder = Decoder(model, self.stop_ids, max_new_tokens)
        elif is_sharded(model):
            model = whole_copy(model)
        self.model = model

    @classmethod
    def open(cls, source: Source) -> HFEngine:
        """An engine on the model in training, or on the one loaded from `source.path`."""
        config, model, tokenizer = source.config, source.model, source.tokenizer
        if model is None:
            from ...models.device import pick_device
            from ...models.load import load_model

            model, tokenizer = load_model(source.path, config.model, pick_device(config.device))
            model.eval()
        return cls(
            model,
            tokenizer,
            max_new_tokens=config.agent.max_response_tokens,
            batch_tokens=config.rollout.batch_tokens,
            beside=source.stage.blocking,
        )

    def load(self, model: Any) -> None:
        """Play with the present weights of `model`, adapters merged."""
        if self.decoder is None and is_sharded(model):
            copy_weights(self.model, model)
            return
        self.model = model
        if self.decoder is not None:
            self.decoder.refresh(model)

    def close(self) -> None:
        """Wait for the batch under way and free the decoder's memory."""
        super().close()
        self.decoder = None

    def answer(self, requests: Sequence[Request], temperature: float) -> list[Reply]:
        """Answer all requests: the decoder as many at a time as the token budget holds, the model in batches."""
        if self.decoder is not None:
            return self.budget.spend(
                functools.partial(self._decode, self.decoder, requests, temperature), self._clean
            )
        order = sorted(range(len(requests)), key=lambda i: len(requests[i].prompt_ids))
        replies: dict[int, Reply] = {}
        while len(replies) < len(order):
            some = functools.partial(self._first, requests, order[len(replies) :], temperature)
            replies |= self.budget.spend(some, self._clean)
        return [replies[index] for index in range(len(requests))]

    def _decode(self, decoder: Decoder, requests: Sequence[Request], temperature: float) -> list[Reply]:
        """All replies; rows that end make room for requests that wait."""
        width = max(len(request.prompt_ids) for request in requests) + self.max_new_tokens
        rows = max(1, min(len(requests), self.budget.tokens // width))
        self.budget.used = rows * width
        start = time.perf_counter()
        sampled = decoder.sample(
            [one.prompt_ids for one in requests], [one.seed for one in requests], temperature, rows=rows
        )
        return self._replies(requests, sampled, time.perf_counter() - start, padded=0)

    def _first(
        self, requests: Sequence[Request], rest: Sequence[int], temperature: float
    ) -> dict[int, Reply]:
        """Replies to as many of the requests numbered `rest`, shortest first, as the budget holds."""
        widths = [len(requests[index].prompt_ids) + self.max_new_tokens for index in rest]
        end = 1
        while end < len(rest) and (end + 1) * widths[end] <= self.budget.tokens:
            end += 1
        self.budget.used = end * widths[end - 1]
        chunk = rest[:end]
        return dict(zip(chunk, self._batch([requests[index] for index in chunk], temperature)))

    def _clean(self) -> None:
        if self.decoder is not None:
            self.decoder.drop()

    def _batch(self, requests: Sequence[Request], temperature: float) -> list[Reply]:
        """The model's own replies to one batch."""
        start = time.perf_counter()
        was_training = self.model.training
        self.model.eval()
        sampled = sample(
            self.model,
            [request.prompt_ids for request in requests],
            [request.seed for request in requests],
            temperature=temperature,
            max_new_tokens=self.max_new_tokens,
            stop_ids=self.stop_ids,
            pad_id=self.stop_ids[0],
        )
        self.model.train(was_training)
        lengths = [len(request.prompt_ids) for request in requests]
        padded = len(lengths) * max(lengths) - sum(lengths)
        return self._replies(requests, sampled, time.perf_counter() - start, padded)

    def _replies(
        self, requests: Sequence[Request], sampled: Sequence[Sampled], seconds: float, padded: int
    ) -> list[Reply]:
        """What was sampled as replies, counted."""
        self.counters += Counters(
            requests=len(requests),
            batches=1,
            prompt_tokens=sum(len(request.prompt_ids) for request in requests),
            new_tokens=sum(len(one.ids) for one in sampled),
            padded_tokens=padded,
            seconds=seconds,
        )
        texts = self.tokenizer.batch_decode([one.ids for one in sampled], skip_special_tokens=True)
        return [
            Reply(text, one.ids, one.logprobs, truncated=not one.stopped) for text, one in zip(texts, sampled)
        ]


def stop_ids(model: Any, tokenizer: Any) -> list[int]:
    """The ids that end a reply: the model's own list and the tokenizer's end token."""
    ids: list[int] = []
    settings = getattr(model, "generation_config", None)
    for value in (getattr(settings, "eos_token_id", None), tokenizer.eos_token_id):
        if value is not None:
            ids += [int(one) for one in (value if isinstance(value, list | tuple) else [value])]
    if not ids:
        raise BadSetting(
            f"The tokenizer of {getattr(tokenizer, 'name_or_path', 'the model')!r} has no end token, so no "
            "reply could ever end. Set eos_token in its tokenizer_config.json."
        )
    return sorted(set(ids), key=ids.index)
