"""In training an estimator keeps its published settings; only the penalty and what follows the run are told to it."""

from __future__ import annotations

import dataclasses

import pytest

from hgpo.config import Config, estimator_settings, load, resolved_estimator
from hgpo.estimators.table import ESTIMATORS

FOLLOWS_K = {"hgpo", "hgpo_lambda"}


@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.parametrize("preset", ["quickstart", "alfworld-qwen2.5-1.5b", "webshop-qwen2.5-1.5b", "shop"])
def test_a_name_without_settings_is_the_published_setting(name: str, preset: str) -> None:
    chosen = load(preset).estimator
    asked = (
        chosen.settings if chosen.name == name else {}
    )  # by the preset: WebShop's runs of HGPO use mean_norm
    for memory in (1, 2, 4):
        config = load(preset, [f"estimator={name}", f"history_length={memory}"])
        published = ESTIMATORS[name].settings()
        told = {"invalid_penalty": 0.1, **({"depth": memory} if name in FOLLOWS_K else {}), **asked}
        assert estimator_settings(config) == told
        assert resolved_estimator(config) == dataclasses.replace(published, **told)


def test_what_was_silently_changed_is_not() -> None:
    graph = resolved_estimator(load("quickstart", ["estimator=graphgpo"]))
    assert (graph.depth, graph.gamma) == (0, 0.1)
    assert resolved_estimator(load("quickstart", ["estimator=g2po"])).depth == 0
    assert resolved_estimator(load("quickstart", ["estimator=reinforce_plus_plus"])).gamma == 1.0


@pytest.mark.parametrize("name", ESTIMATORS)
def test_what_is_given_is_passed(name: str) -> None:
    config = load("quickstart", [f"estimator={name}", "gamma=0.5", "invalid_penalty=0"])
    assert (resolved_estimator(config).gamma, resolved_estimator(config).invalid_penalty) == (0.5, 0.0)
    assert load("quickstart", ["estimator.invalid_penalty=0.3"]).estimator.invalid_penalty == 0.3


def test_the_penalty_of_training_is_the_published_one() -> None:
    assert Config().estimator.invalid_penalty == 0.1
    assert all(entry.settings().invalid_penalty == 0.0 for entry in ESTIMATORS.values())
