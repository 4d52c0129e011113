"""Episodes are played in a program and in a notebook, whose cells run inside an event loop."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from hgpo.config import load
from hgpo.config.stage import open_stage
from hgpo.play import Job
from hgpo.play.loops import complete
from hgpo.policies.scripted import ExploringPolicy


async def doubled(number: int) -> int:
    await asyncio.sleep(0)
    if number < 0:
        raise KeyError(number)
    return 2 * number


def inside(call: Any) -> Any:
    """The result of a plain call that is made inside a running loop, as a notebook makes it."""

    async def cell() -> Any:
        return call()

    return asyncio.run(cell())


def test_a_coroutine_is_completed_with_and_without_a_loop() -> None:
    assert complete(doubled(4)) == 8
    assert inside(lambda: complete(doubled(4))) == 8
    before = threading.active_count()
    for run in (lambda: complete(doubled(-1)), lambda: inside(lambda: complete(doubled(-1)))):
        with pytest.raises(KeyError):
            run()
    assert threading.active_count() == before


def test_the_same_episodes_in_a_notebook() -> None:
    def played() -> list[list[str]]:
        stage = open_stage(load("quickstart"))
        jobs = [Job("tiny/train/00003", "t", index, index) for index in range(3)]
        try:
            episodes = stage.play(ExploringPolicy(stage.style), jobs).episodes
            return sorted([step.action for step in episode.steps] for episode in episodes)
        finally:
            stage.close()

    assert played() == inside(played)
