"""When the device is full, updates and cloning go on in smaller passes and the results stay the same."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from hgpo.config.schema import Config, ModelConfig, UpdateConfig, WarmConfig
from hgpo.learn.clone import clone
from hgpo.learn.distributed import Processes
from hgpo.learn.learner import Learner
from hgpo.models.tiny import make_tiny

from .test_learner import rows

CPU = torch.device("cpu")
SHAPE = ModelConfig(hidden=16, layers=2, heads=2, intermediate=32)


def crowd(model: torch.nn.Module, most: int) -> list[int]:
    """Let the last layer of `model` fail above `most` token positions; the sizes that were tried."""
    tried: list[int] = []

    def look(_: Any, given: Any) -> None:
        size = given[0].shape[0] * given[0].shape[1]
        tried.append(size)
        if size > most:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB.")

    model.model.layers[-1].mlp.register_forward_pre_hook(look)
    return tried


def tiny() -> Any:
    return make_tiny(SHAPE, 20, 0, seed=3, positions=64)


@pytest.mark.parametrize("old_logprobs", ["sampled", "recomputed"])
def test_an_update_in_smaller_passes(old_logprobs: str) -> None:
    update = UpdateConfig(updates=2, micro_tokens=10_000, lr=1e-2, warmup=8, old_logprobs=old_logprobs)
    config = Config(model=SHAPE, update=update)
    free, tight = (Learner(tiny(), config, Processes(CPU), 0) for _ in range(2))
    tried = crowd(tight.model, 100)
    wanted = free.update(rows(), 0)
    with pytest.warns(RuntimeWarning, match=r"going on with \d+\. Set update\.micro_tokens="):
        found = tight.update(rows(), 0)
    assert max(tried) > 100
    assert tight.budget.tokens <= 100
    assert tight.updates == free.updates == 2
    assert found["grad_norm"] == pytest.approx(wanted["grad_norm"], rel=1e-4)
    assert found["lr"] == wanted["lr"]
    for name, value in free.state().items():
        torch.testing.assert_close(tight.state()[name], value, rtol=1e-3, atol=1e-5)


def test_cloning_in_smaller_passes() -> None:
    config = Config(
        model=SHAPE, update=UpdateConfig(micro_tokens=10_000), warm=WarmConfig(epochs=2, batch_rows=12)
    )
    free, tight = tiny(), tiny()
    crowd(tight, 100)
    wanted = [loss for _, _, loss in clone(free, rows(), config, 0, CPU)][-1]
    with pytest.warns(RuntimeWarning, match=r"update\.micro_tokens"):
        found = [loss for _, _, loss in clone(tight, rows(), config, 0, CPU)][-1]
    assert found == pytest.approx(wanted, rel=1e-4)
    for one, other in zip(free.parameters(), tight.parameters()):
        torch.testing.assert_close(other, one, rtol=1e-3, atol=1e-5)
