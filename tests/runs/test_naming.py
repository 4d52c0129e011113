"""Runs beside each other are called by what differs between them."""

from __future__ import annotations

from typing import Any

import pytest

from hgpo.config import as_dict, load
from hgpo.runs.naming import differing, flat, titles


def config(**words: Any) -> dict[str, Any]:
    return as_dict(
        load("quickstart", [f"{name.replace('__', '.')}={value}" for name, value in words.items()])
    )


def test_settings_have_the_names_of_the_command_line() -> None:
    words = flat(config(lr=0.001, estimator="gigpo"))
    assert words["lr"] == "0.001"
    assert words["estimator"] == "gigpo"
    assert words["env"] == "household"
    assert words["env.size"] == "tiny"
    assert words["rollout.tasks"] == "16"
    assert "update.lr" not in words


def test_only_what_differs_is_named() -> None:
    runs = [config(), config(lr=0.001), config(estimator="gigpo", lr=0.001)]
    assert titles(runs, ["a", "b", "c"]) == [
        "hgpo_lambda, lr=0.0003",
        "hgpo_lambda, lr=0.001",
        "gigpo, lr=0.001",
    ]
    assert titles(runs[:1], ["alone"]) == ["alone"]
    assert titles([config(), config()], ["one", "two"]) == ["one", "two"]
    assert titles([config(), config()], ["one", "one"], ["", ", verl"]) == ["one", "one, verl"]
    assert titles([config(), config()], ["one", "one"]) == ["one", "one (2)"]


def test_own_names_count() -> None:
    assert titles([config(name="slow"), config(name="fast", lr=0.01)], ["x", "y"]) == ["slow", "fast"]
    assert titles([config(name="slow"), config(lr=0.01)], ["x", "y"]) == ["lr=0.0003", "lr=0.01"]


def test_of_many_settings_as_many_as_tell_the_runs_apart() -> None:
    many = {"rollout__tasks": 4, "group_size": 4, "update__epochs": 2, "update__clip_high": 0.3, "seed": 7}
    assert titles([config(), config(**many), config(**{**many, "seed": 8})], list("abc")) == [
        "group_size=8, seed=0",
        "group_size=4, seed=7",
        "group_size=4, seed=8",
    ]
    assert len(differing([config(), config(**many)])[1]) == len(many)


def test_settings_that_an_older_run_does_not_have_count_with_their_default() -> None:
    older = config()
    del older["update"]["grad_clip"]
    assert differing([older, config()]) == [{}, {}]
    assert differing([older, config(update__grad_clip=0.5)])[0] == {"update.grad_clip": "1"}


def test_models_are_called_by_the_end_of_their_path() -> None:
    runs = [{"model": {"path": f"/far/away/{name}"}, "x": 1} for name in ("one", "two")]
    assert titles(runs, ["a", "b"]) == ["one", "two"]
    alike = [{"model": {"path": f"{name}/model"}} for name in ("one", "two")]
    assert titles(alike, ["a", "b"]) == ["one/model", "two/model"]


@pytest.mark.parametrize("value", [None, [1, 2], {"a": 1}, "x" * 500, 1e300, True])
def test_any_value_has_a_word(value: Any) -> None:
    (word,) = flat({"odd": {"thing": value}}).values() if not isinstance(value, dict) else ("1",)
    assert 0 < len(word) <= 60
