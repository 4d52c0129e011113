"""What the adapters do without the packages they adapt."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

from hgpo.envs import make
from hgpo.envs.contract import Observation
from hgpo.envs.others.gold import GoldActor
from hgpo.envs.others.gymnasium import readable
from hgpo.envs.others.scienceworld import ordered
from hgpo.envs.others.seeds import SeedTasks
from hgpo.errors import BadSetting, MissingExtra, UnknownName, UnknownTask

WORLDS = {
    "gym": "gymnasium",
    "babyai": "minigrid",
    "scienceworld": "scienceworld",
    "textworld": "textworld",
    "textworld-express": "textworld_express",
}


@pytest.mark.parametrize(("name", "package"), WORLDS.items())
def test_a_missing_package_is_named_with_its_extra(
    name: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda one, *rest: None if one == package else find(one, *rest)
    )
    with pytest.raises(MissingExtra, match=r"\[envs\]"):
        make(name)


def test_a_picture_keeps_what_its_colours_say() -> None:
    assert readable("\x1b[41mS\x1b[0mFF\n") == "[S red]FF"
    assert readable("|\x1b[43m \x1b[0m:\x1b[34;1mR\x1b[0m|") == "|[_ yellow]:[R blue]|"


def test_lists_of_the_science_world_are_in_order() -> None:
    assert ordered("Here:\n\tb\n\ta\nThere:\n\td\n\tc") == "Here:\n\ta\n\tb\nThere:\n\tc\n\td"


def test_seeds_of_splits_never_meet() -> None:
    tasks = SeedTasks({"train": 3, "in-domain": 2}, "a world")
    seeds = [tasks.seed(task) for split in ("train", "in-domain") for task in tasks.tasks(split)]
    assert len(set(seeds)) == 5
    for wrong in ("train", "train/x", "test/1", "train/-1", "no such name anywhere"):
        with pytest.raises(UnknownTask):
            tasks.seed(wrong)
    with pytest.raises(UnknownName):
        tasks.tasks("test")
    with pytest.raises(BadSetting):
        SeedTasks({"train": 0}, "a world")


def test_a_gold_path_is_that_of_its_task() -> None:
    actor = GoldActor({"a": ["go", "take"], "b": []}.__getitem__)
    seen = Observation("here", (), {"task": "a"})
    actor.reset(seen)
    assert [actor.act(seen) for _ in range(3)] == ["go", "take", "take"]
    with pytest.raises(BadSetting, match="no solution"):
        actor.reset(Observation("here", (), {"task": "b"}))


def test_a_view_is_written_from_near_to_far(monkeypatch: pytest.MonkeyPatch) -> None:
    from hgpo.envs.others import babyai

    names = (
        {0: "unseen", 1: "empty", 2: "wall", 4: "door", 6: "ball"},
        {0: "red", 1: "green"},
        {0: "open", 2: "locked"},
    )
    monkeypatch.setattr(babyai, "_names", lambda: names)
    image = np.ones((7, 7, 3), int)
    image[3, 4] = (6, 0, 0)
    image[1, 6] = (4, 1, 2)
    image[3, 1] = (2, 0, 0)
    expected = "You see a locked green door 2 left, a red ball 2 forward, a wall 5 forward."
    assert babyai.view(image) == expected
