"""The learning rate by warm-up and schedule."""

from __future__ import annotations

import pytest

from hgpo.config.schema import UpdateConfig
from hgpo.learn.schedule import rate

from .test_learner import learner, rows


def test_warm_up_rises_by_updates_and_the_rest_falls_by_iterations() -> None:
    risen = UpdateConfig(lr=1.0, warmup=4)
    assert [rate(risen, updates, 0.5) for updates in range(5)] == [0.25, 0.5, 0.75, 1.0, 1.0]
    linear = UpdateConfig(lr=0.8, schedule="linear", lr_end=0.5)
    assert [rate(linear, 9, progress) for progress in (0.0, 0.5, 1.0)] == pytest.approx([0.8, 0.6, 0.4])
    cosine = UpdateConfig(lr=1.0, schedule="cosine", lr_end=0.2)
    assert [rate(cosine, 9, progress) for progress in (0.0, 0.5, 1.0)] == pytest.approx([1.0, 0.6, 0.2])


def test_the_learner_follows_the_schedule() -> None:
    one = learner(UpdateConfig(lr=1e-3, schedule="linear", kl_coef=0.0))
    rates = [one.update(rows(), seed, progress)["lr"] for seed, progress in enumerate((0.0, 0.25, 0.75))]
    assert rates == pytest.approx([1e-3, 7.5e-4, 2.5e-4])
