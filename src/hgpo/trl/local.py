"""The policy at play in the trainer's own process: a copy of the model that takes over the trained weights.

For small models, for one GPU without a server, and for the CPU. It is both what plays and what TRL sends weights to.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from typing import Any

import torch

from ..config.schema import Config
from ..errors import EngineFailed
from ..models.device import pick_device
from ..models.load import load_model
from ..play.policy import Reply, Request
from ..policies.batched import BatchedPolicy
from ..policies.hf.engine import HFEngine


class LocalPlayer:
    """Plays with the weights that TRL sends; `AsyncGRPOTrainer(weight_transfer=...)` takes it.

    Args:
        path: folder or hub id of the model that the training starts from.
        config: lengths of prompts and replies, device and type of the weights.
    """

    def __init__(self, path: str, config: Config) -> None:
        self.config = config
        self.model, self.tokenizer = load_model(path, config.model, pick_device(config.device))
        self.engine = _Guarded(
            self.model.eval(),
            self.tokenizer,
            max_new_tokens=config.agent.max_response_tokens,
            batch_tokens=config.rollout.batch_tokens,
        )

    def policy(self) -> BatchedPolicy:
        """What `RolloutWorker` plays with."""
        return self.engine.policy(self.config.rollout.temperature)

    # What TRL calls

    def init_weight_transfer(self) -> None:
        """The weights stay in this process."""

    def pause(self) -> None:
        """Wait for the batch of replies under way; the next one waits for `resume`."""
        self.engine.guard.acquire()

    def send_weights(self, iterator: Iterable[tuple[str, torch.Tensor]]) -> None:
        """Take over the trained weights.

        Raises:
            EngineFailed: they are not those of this model; nothing would be played as it was trained.
        """
        missing = dict(self.model.named_parameters())
        with torch.no_grad():
            for name, tensor in iterator:
                if name not in missing:
                    raise EngineFailed(
                        f"TRL sent weights named {name!r}, which {type(self.model).__name__} does not have."
                    )
                missing.pop(name).copy_(tensor)
        if missing:
            raise EngineFailed(
                f"TRL did not send {len(missing)} of the weights, such as {next(iter(missing))!r}."
            )
        self.engine.load(self.model)

    def resume(self) -> None:
        """Play on."""
        self.engine.guard.release()

    def destroy(self) -> None:
        """Nothing was opened."""


class _Guarded(HFEngine):
    """No reply is sampled while weights are taken over."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.guard = threading.Lock()

    def answer(self, requests: Sequence[Request], temperature: float) -> list[Reply]:
        """As `HFEngine`, with the weights held still."""
        with self.guard:
            return super().answer(requests, temperature)
