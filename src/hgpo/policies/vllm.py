"""vLLM as an engine: fast replies on a GPU, with the sampled tokens kept; from a saved model or beside a training run.

In a training run vLLM lives in the same process. After every update it takes over the present weights in place,
adapters folded in as the trainer folds them, and forgets what it remembers of prompts. Its memory is a fixed share of
the GPU (`rollout.memory_share`), or is given back while the policy is updated (`rollout.sleep`). Its probabilities are
not quite the trainer's: `engine/logprob_gap` says by how much, `update.importance_cap` corrects for it.
"""

from __future__ import annotations

import functools
import os
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
        seeds: give every request a seed of its own; vLLM is faster without, and replies then depend on their batch.
        sleeps: give the memory back between `pause` and `load`.
        settings: further arguments of `vllm.LLM`, for example `gpu_memory_utilization`.
    """

    def __init__(
        self, model: str, max_new_tokens: int, *, seeds: bool = True, sleeps: bool = False, **settings: Any
    ) -> None:
        # Weights are handed over in memory, which another process would not see; read when vLLM starts.
        os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
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
            **({"enable_sleep_mode": True} if sleeps else {}),
        }
        self.llm: Any = LLM(model=model, **{**ours, **settings})
        self.max_new_tokens, self.seeds, self.sleeps, self.asleep = max_new_tokens, seeds, sleeps, False
        super().__init__(self.llm.get_tokenizer(), beside=True)

    @classmethod
    def open(cls, source: Source) -> VllmEngine:
        """An engine on the model's folder or hub id, with the weights of the model in training if there is one."""
        check_model(Path(source.path))
        config = source.config
        if source.model is None:
            return cls(source.path, config.agent.max_response_tokens)
        engine = cls(
            source.path,
            config.agent.max_response_tokens,
            seeds=config.rollout.request_seeds,
            sleeps=config.rollout.sleep,
            gpu_memory_utilization=config.rollout.memory_share,
            max_model_len=config.agent.max_prompt_tokens + config.agent.max_response_tokens,
            dtype=config.model.dtype,
            seed=config.seed,
        )
        engine.load(source.model)
        return engine

    @classmethod
    def check(cls, source: Source) -> None:
        """Complain about a share of the GPU that the weights alone would fill, before anything is loaded.

        Raises:
            BadSetting: it would.
        """
        import torch

        from ..models.memory import GIB
        from ..models.shape import find_shape

        share = source.config.rollout.memory_share
        shape = find_shape(source.path)
        if shape is None or not torch.cuda.is_available():
            return
        held = torch.cuda.get_device_properties(0).total_memory
        needed = shape.weights * (2 if source.config.model.dtype == "bfloat16" else 4)
        if held * share < 1.2 * needed:
            raise BadSetting(
                f"rollout.memory_share={share} was given, which is {held * share / GIB:.1f} GiB of this GPU, but the "
                f"model's weights alone take {needed / GIB:.1f} GiB of it. Give {min(0.9, 2 * needed / held):.2f} or "
                "more, or train with rollout.engine=hf."
            )

    def pause(self) -> None:
        """Give the memory back, where that is asked for."""
        if self.sleeps and not self.asleep:
            # Level 2: the weights are not kept either, for new ones come.
            self.llm.sleep(level=2)
            self.asleep = True

    def load(self, model: Any) -> None:
        """Take over the present weights of `model`, adapters folded in."""
        from ..models.packed import played_weights

        if self.asleep:
            self.llm.wake_up()
            self.asleep = False
        self.llm.apply_model(functools.partial(_take, weights=list(played_weights(model))))
        # What it remembers of prompts was computed with other weights.
        self.llm.reset_prefix_cache()

    def answer(self, requests: Sequence[Request], temperature: float) -> list[Reply]:
        """Answer all requests in one call of vLLM."""
        from vllm import SamplingParams

        settings = [
            SamplingParams(
                temperature=temperature,
                max_tokens=self.max_new_tokens,
                seed=request.seed if self.seeds else None,
                logprobs=0,
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


def _take(model: Any, weights: Sequence[tuple[str, Any]]) -> None:
    """Run inside vLLM, on its own model, which knows where each weight of the transformers model goes."""
    model.load_weights(iter(weights))
