"""The stage: every preset finds the tasks it trains and is evaluated on."""

from __future__ import annotations

from pathlib import Path

import pytest

from hgpo.config.stage import open_stage
from hgpo.errors import UnknownName
from hgpo.runs import load, preset_names

DATA = {"alfworld": "alfworld/games_compact.jsonl.xz", "webshop": "webshop"}


@pytest.mark.parametrize("name", preset_names())
def test_every_preset_has_tasks_to_train_and_to_evaluate(name: str, request: pytest.FixtureRequest) -> None:
    config = load(name)
    settings = []
    if config.env.name in DATA:
        shared: Path = request.getfixturevalue("shared")
        settings = [f"env.data={shared / DATA[config.env.name]}"]
    config = load(name, settings)
    stage = open_stage(config)
    training = set(stage.tasks(config.env.split))
    for split in config.eval.splits:
        held_out = stage.tasks(split, config.eval.tasks)
        assert held_out
        assert not training & set(held_out)


def test_an_unknown_split_is_named() -> None:
    config = load("quickstart")
    with pytest.raises(UnknownName, match=r"split of household 'in_domain'.*in-domain"):
        open_stage(config).tasks("in_domain")
