"""A rollout server of verl on transformers and the CPU: tokens in, tokens out, weights pushed by the trainer."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import ray
import torch
from verl.workers.rollout.base import BaseRollout
from verl.workers.rollout.replica import RolloutReplica, TokenOutput

from ...errors import EngineFailed
from ...policies.batcher import Batcher
from ...policies.hf.engine import stop_ids
from ...policies.hf.sampling import Sampled, sample
from ..adapters import merged, plain_name


@dataclass(frozen=True)
class Question:
    """One request to the server."""

    prompt_ids: list[int]
    seed: int
    temperature: float
    max_tokens: int


def server_name(rank: int) -> str:
    """Name of the Ray actor that serves a replica."""
    return f"hgpo_cpu_server_{rank}"


class Server:
    """The model behind one replica. Requests that wait together are answered in one batch."""

    def __init__(self, path: str, response_length: int) -> None:
        from ...models.load import load_tokenizer, load_weights

        torch.set_num_threads(1)
        self.model = load_weights(path, torch.float32).eval()
        self.stops = stop_ids(self.model, load_tokenizer(path))
        self.response_length = response_length
        self.version: int | None = None
        self.base: dict[str, torch.Tensor] = {}
        """The weights that adapters belong to."""
        self.batcher = Batcher(self._answer, ThreadPoolExecutor(1, "hgpo-rollout"))

    async def generate(
        self, request_id: str, prompt_ids: list[int], sampling_params: dict[str, Any], **_: Any
    ) -> TokenOutput:
        """Sample a reply with the seed of the request."""
        question = Question(
            list(prompt_ids),
            int(sampling_params.get("seed") or 0),
            float(sampling_params.get("temperature", 1.0)),
            int(sampling_params.get("max_tokens") or self.response_length),
        )
        reply = await self.batcher.ask(question)
        return TokenOutput(
            token_ids=reply.ids,
            log_probs=reply.logprobs,
            stop_reason="completed",
            extra_fields={"global_steps": self.version},
        )

    def _answer(self, questions: Sequence[Question]) -> list[Sampled]:
        alike: dict[tuple[float, int], list[int]] = {}
        for place, one in enumerate(questions):
            alike.setdefault((one.temperature, one.max_tokens), []).append(place)
        answers: dict[int, Sampled] = {}
        for (temperature, max_tokens), places in alike.items():
            replies = sample(
                self.model,
                [questions[place].prompt_ids for place in places],
                [questions[place].seed for place in places],
                temperature=temperature,
                max_new_tokens=max_tokens,
                stop_ids=self.stops,
                pad_id=self.stops[0],
            )
            answers.update(zip(places, replies))
        return [answers[place] for place in range(len(questions))]

    async def load(
        self, weights: list[tuple[str, torch.Tensor]], version: int | None, alpha: float | None = None
    ) -> None:
        """Take the trainer's weights. Names the model does not have are an error, not a shrug.

        With `alpha` they are adapters, which are merged into the weights that came before.
        """
        if alpha is None:
            self.base = {plain_name(name): tensor for name, tensor in weights}
            whole = self.base
        else:
            whole = merged(self.base, dict(weights), alpha)
        missing, unexpected = self.model.load_state_dict(whole, strict=False)
        tied = {"lm_head.weight"} if self.model.config.tie_word_embeddings else set()
        if unexpected or set(missing) - tied:
            raise RuntimeError(f"The pushed weights do not fit: missing {missing}, unexpected {unexpected}.")
        self.version = version

    async def _idle(self, *args: Any, **kwargs: Any) -> None:
        """For calls about GPU memory and caches that do not exist here."""

    wake_up = sleep = abort_all_requests = resume_generation = _idle
    clear_kv_cache = release_kv_cache = resume_kv_cache = start_profile = stop_profile = _idle


class Replica(RolloutReplica):  # type: ignore[misc]
    """One server per replica, as a named Ray actor."""

    async def launch_servers(self) -> None:
        server = (
            ray.remote(num_cpus=0)(Server)
            .options(name=server_name(self.replica_rank), max_concurrency=256)
            .remote(str(self.model_config.path), int(self.config.response_length))
        )
        self.servers = [server]
        self._server_handle, self._server_address = server, server_name(self.replica_rank)


class WeightSender(BaseRollout):  # type: ignore[misc]
    """Lives in the training process and pushes its weights to the server of the same rank."""

    def __init__(self, config: Any, model_config: Any, device_mesh: Any, *_: Any, **__: Any) -> None:
        super().__init__(config, model_config, device_mesh)
        self.rank = int(os.environ["RANK"])

    async def resume(self, tags: list[str]) -> None:
        """Nothing was released."""

    async def release(self) -> None:
        """There is no GPU memory to release."""

    async def update_weights(
        self,
        weights: Iterable[tuple[str, torch.Tensor]],
        wire_format: str = "named_tensors",
        global_steps: int | None = None,
        peft_config: dict[str, Any] | None = None,
        base_sync_done: bool = True,
        **_: Any,
    ) -> None:
        """Send whole tensors, or the adapters alone where the server has the rest already.

        Every process takes part in gathering them.
        """
        if wire_format != "named_tensors":
            raise EngineFailed(
                f"verl sends its weights as {wire_format!r}; a dry run takes 'named_tensors' only. Remove the override "
                "of the weight transfer for the dry run."
            )
        whole = []
        for name, value in weights:
            tensor = value.full_tensor() if hasattr(value, "full_tensor") else value
            whole.append((name, tensor.detach().float().cpu().clone()))
        alpha = float(peft_config["lora_alpha"]) if peft_config and base_sync_done else None
        await ray.get_actor(server_name(self.rank)).load.remote(whole, global_steps, alpha)
