"""One iteration's play by one process or several."""

from __future__ import annotations

from typing import Any

import pytest

from hgpo.config.load import load
from hgpo.config.stage import open_stage
from hgpo.envs.actors import RandomActor
from hgpo.policies.scripted import ScriptedPolicy
from hgpo.runs.rollout import Rollout, roll_out

from ..worlds import FETCH


class Peer:
    """One of `size` processes; `told` is what all of them gather."""

    def __init__(self, rank: int, told: list[Any]) -> None:
        self.rank, self.size, self.told = rank, len(told), told

    def gather(self, value: Any) -> list[Any]:
        self.told[self.rank] = value
        return [one for one in self.told if one is not None]


def play(rank: int, told: list[Any]) -> Rollout:
    config = load(FETCH, ["rollout.tasks=5", "rollout.group_size=3"])
    stage = open_stage(config)
    policy = ScriptedPolicy(lambda: RandomActor(1), stage.style)
    return roll_out(stage, policy, config, Peer(rank, told), stage.tasks("train", 3), 0, 1)


@pytest.mark.parametrize("size", [2, 3])
def test_several_processes_gather_what_one_would_have_played(size: int) -> None:
    alone = play(0, [None])
    told: list[Any] = [None] * size
    for rank in range(size):
        together = play(rank, told)
    assert together.metrics == alone.metrics
    assert alone.metrics["groups"] == 5
    assert alone.metrics["episodes"] == 15
    assert together.batch.column_names == alone.batch.column_names
    assert list(together.batch.rows()) == list(alone.batch.rows())
    for name in ("task", "trajectory", "observation"):
        assert together.batch.encoded(name).codes.tolist() == alone.batch.encoded(name).codes.tolist()
