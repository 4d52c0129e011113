"""Going on after a stop, and the same weights from the same seed, on a GPU. `python -m pytest -m gpu` runs these."""

from __future__ import annotations

import pytest
import torch

from hgpo.config.schema import Config, ModelConfig, UpdateConfig
from hgpo.learn.distributed import Processes
from hgpo.learn.learner import Learner
from hgpo.models.device import DTYPES
from hgpo.models.tiny import make_tiny

from .test_learner import rows
from .tokens import Row, batch_of

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


def learner(dtype: str, rank: int) -> Learner:
    shape = ModelConfig(hidden=64, layers=2, heads=2, intermediate=64, dtype=dtype, lora_rank=rank)
    model = make_tiny(shape, 20, 0, seed=3, positions=64).to("cuda", DTYPES[dtype])
    return Learner(
        model, Config(model=shape, update=UpdateConfig(lr=1e-3)), Processes(torch.device("cuda")), 0
    )


@pytest.mark.parametrize(("dtype", "rank"), [("float32", 0), ("bfloat16", 0), ("bfloat16", 4)])
def test_a_restored_learner_goes_on_as_if_it_had_not_stopped(dtype: str, rank: int) -> None:
    one = learner(dtype, rank)
    one.update(rows(), 0)
    two = learner(dtype, rank)
    two.restore(one.state(), one.updates)
    for part in (one, two):
        part.update(rows(), 1)
    for name, value in one.state().items():
        torch.testing.assert_close(two.state()[name], value, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_same_rows_give_the_same_weights_bit_for_bit(dtype: str) -> None:
    # Long rows, many heads: without a fixed order their attention's gradients differ from pass to pass.
    many = batch_of([Row(list(range(2, 18)) * 60, [5, 6, 7, 0], [-1.0] * 4, (-1.0) ** i) for i in range(8)])
    found = []
    for _ in range(3):
        shape = ModelConfig(hidden=512, layers=2, heads=8, intermediate=512, dtype=dtype)
        model = make_tiny(shape, 20, 0, seed=3, positions=1024).to("cuda", DTYPES[dtype])
        settings = Config(model=shape, update=UpdateConfig(lr=1e-3, kl_coef=0.0))
        one = Learner(model, settings, Processes(torch.device("cuda")), 0)
        for seed in range(3):
            one.update(many, seed)
        found.append(one.state())
    for other in found[1:]:
        assert all(torch.equal(other[name], value) for name, value in found[0].items())
