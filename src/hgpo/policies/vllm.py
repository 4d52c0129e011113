"""vLLM as a policy: fast replies from a saved model on a GPU, with the sampled tokens kept."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ..errors import MissingExtra
from ..play.policy import Reply, Request
from .batched import BatchedPolicy
from .hf.policy import Sampling


class VllmPolicy(BatchedPolicy):
    """A vLLM engine in this process; one batch of whatever is waiting at a time.

    Args:
        model: folder or name of the model.
        sampling: temperature and reply length.
        settings: further arguments of `vllm.LLM`, for example `gpu_memory_utilization`.
    """

    def __init__(self, model: str, sampling: Sampling, **settings: Any) -> None:
        try:
            from vllm import LLM
        except ImportError as error:
            raise MissingExtra("vllm", "vllm", "The vllm policy") from error
        # By default vLLM reports log-probabilities before the temperature is applied; ours are those sampled from.
        self.engine: Any = LLM(model=model, **{"logprobs_mode": "processed_logprobs", **settings})
        self.sampling = sampling
        super().__init__(self.engine.get_tokenizer(), ThreadPoolExecutor(1, "hgpo-vllm"))

    def answer(self, requests: Sequence[Request]) -> list[Reply]:
        """Answer all requests in one call of the engine, each with its own seed."""
        from vllm import SamplingParams

        settings = [
            SamplingParams(
                temperature=self.sampling.temperature,
                max_tokens=self.sampling.max_new_tokens,
                seed=request.seed,
                logprobs=0,
            )
            for request in requests
        ]
        prompts = [{"prompt_token_ids": list(request.prompt_ids)} for request in requests]
        outputs = self.engine.generate(prompts, settings, use_tqdm=False)
        replies = []
        for output in outputs:
            best = output.outputs[0]
            logs = [entry[token].logprob for token, entry in zip(best.token_ids, best.logprobs)]
            replies.append(Reply(best.text, list(best.token_ids), logs, best.finish_reason == "length"))
        return replies
