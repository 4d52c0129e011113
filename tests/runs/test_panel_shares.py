"""A panel played by several processes is the one that a single process plays."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest

from hgpo.config.load import load
from hgpo.config.stage import open_stage
from hgpo.envs.actors import RandomActor
from hgpo.errors import EnvironmentFailed
from hgpo.policies.scripted import ScriptedPolicy
from hgpo.runs.play import Evaluation, make_panel, run_panel

from ..worlds import FETCH
from .test_rollout import Peer


def play(rank: int, told: list[Any], tasks: int = 7, *words: str) -> Evaluation:
    stage = open_stage(load(FETCH, list(words)))
    policy = ScriptedPolicy(lambda: RandomActor(1), stage.style)
    panel = make_panel(stage, "in-domain", tasks)
    return run_panel(stage, policy, panel, [123, 456], 0.0, peers=Peer(rank, told))


@pytest.mark.parametrize(("size", "tasks"), [(2, 7), (3, 7), (3, 1)])
def test_shares_add_up_to_the_whole(size: int, tasks: int) -> None:
    alone = play(0, [None], tasks)
    told: list[Any] = [None] * size
    for rank in range(size):
        together = play(rank, told, tasks)
    assert [len(share.episodes) for share in told] == [
        len(range(rank, 2 * tasks, size)) for rank in range(size)
    ], "each plays its share, not all"
    assert together.metrics() == alone.metrics()
    left, right = alone.summary(), together.summary()
    assert {**left, "seconds": 0} == {**right, "seconds": 0}
    assert [[asdict(one) for one in row] for row in together.episodes] == [
        [asdict(one) for one in row] for row in alone.episodes
    ]


def test_a_panel_that_nobody_can_play(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> Any:
        raise RuntimeError("the shelf fell down")

    monkeypatch.setattr("tests.worlds.Fetch.reset", broken)
    told: list[Any] = [None, None]
    for rank in range(2):
        with pytest.raises(EnvironmentFailed, match=r"None of 14 episodes.*the shelf fell down"):
            play(rank, told)
