"""vLLM as an engine: fast replies from a saved model on a GPU, with the sampled tokens kept."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..errors import BadSetting, MissingExtra
from ..models.folder import check_model
from ..play.policy import Reply, Request
from .batched import BatchedEngine
from .engine import Counters, Source


class VllmEngine(BatchedEngine):
    """vLLM in this process; one batch of whatever is waiting at a time.

    Args:
        model: folder or name of the model.
        max_new_tokens: limit of each reply.
        settings: further arguments of `vllm.LLM`, for example `gpu_memory_utilization`.
    """

    def __init__(self, model: str, max_new_tokens: int, **settings: Any) -> None:
        try:
            from vllm import LLM
        except ImportError as error:
            raise MissingExtra("vllm", "vllm", "The engine 'vllm'") from error
        # By default vLLM reports log-probabilities before the temperature is applied; ours are those sampled from.
        # A model's folder is data: no code of its own, no pickled weights.
        ours = {
            "logprobs_mode": "processed_logprobs",
            "trust_remote_code": False,
            "load_format": "safetensors",
        }
        self.llm: Any = LLM(model=model, **{**ours, **settings})
        self.max_new_tokens = max_new_tokens
        super().__init__(self.llm.get_tokenizer(), beside=True)

    @classmethod
    def open(cls, source: Source) -> VllmEngine:
        """An engine on the model's folder or hub id."""
        check_model(Path(source.path))
        return cls(source.path, source.config.agent.max_response_tokens)

    def load(self, model: Any) -> None:
        """Not there yet: the table says so before a run starts."""
        raise BadSetting("The engine 'vllm' cannot take new weights; train with rollout.engine=hf.")

    def answer(self, requests: Sequence[Request], temperature: float) -> list[Reply]:
        """Answer all requests in one call of vLLM, each with its own seed."""
        from vllm import SamplingParams

        settings = [
            SamplingParams(
                temperature=temperature, max_tokens=self.max_new_tokens, seed=request.seed, logprobs=0
            )
            for request in requests
        ]
        prompts = [{"prompt_token_ids": list(request.prompt_ids)} for request in requests]
        start = time.perf_counter()
        outputs = self.llm.generate(prompts, settings, use_tqdm=False)
        seconds = time.perf_counter() - start
        replies = []
        for output in outputs:
            best = output.outputs[0]
            logs = [entry[token].logprob for token, entry in zip(best.token_ids, best.logprobs)]
            replies.append(Reply(best.text, list(best.token_ids), logs, best.finish_reason == "length"))
        self.counters += Counters(
            requests=len(requests),
            batches=1,
            prompt_tokens=sum(len(request.prompt_ids) for request in requests),
            new_tokens=sum(len(reply.response_ids) for reply in replies),
            seconds=seconds,
        )
        return replies

    def close(self) -> None:
        """Let go of vLLM and with it of the GPU's memory."""
        super().close()
        self.llm = None
