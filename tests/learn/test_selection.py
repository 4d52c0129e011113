"""Which steps are trained on."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from hgpo.config.schema import UpdateConfig
from hgpo.learn.batching import TrainRow
from hgpo.learn.selection import distinct_share, train_rows


def step(task: str, trajectory: str, reward: float, reply: tuple[int, ...] = (1,)) -> dict[str, Any]:
    return {
        "task": task,
        "trajectory": trajectory,
        "reward": reward,
        "prompt_ids": (5, 6),
        "response_ids": reply,
        "logprobs": (-1.0,) * len(reply),
    }


STEPS = [
    step("a", "a0", 0.0),
    step("a", "a0", 1.0),
    step("a", "a1", 0.0),
    step("b", "b0", 1.0),
    step("b", "b1", 0.5),
    step("b", "b1", 0.5),
    step("c", "c0", 0.0, ()),
    step("c", "c1", 1.0),
]
ADVANTAGES = np.array([1.0, 2.0, -3.0, 0.0, 0.0, 0.0, 4.0, 5.0])


def test_steps_without_a_reply_teach_nothing() -> None:
    rows, groups = train_rows(STEPS, ADVANTAGES, UpdateConfig())
    assert [row.advantage for row in rows] == [1.0, 2.0, -3.0, 0.0, 0.0, 0.0, 5.0]
    assert groups == 3


def test_groups_that_earned_the_same_are_left_out() -> None:
    """Group b earned 1 in both rollouts, in one step or in two."""
    rows, groups = train_rows(STEPS, ADVANTAGES, UpdateConfig(filter_groups=True))
    assert [row.advantage for row in rows] == [1.0, 2.0, -3.0, 5.0]
    assert groups == 2


def test_scaling() -> None:
    rows, _ = train_rows(STEPS[:3], ADVANTAGES[:3], replace(UpdateConfig(), normalise_advantages=True))
    assert np.mean(np.square([row.advantage for row in rows])) == pytest.approx(1.0)
    assert rows[1].advantage == pytest.approx(2 * rows[0].advantage)


def test_share_of_distinct_prompts() -> None:
    rows = [TrainRow(prompt, (1,), (0.0,), 0.0) for prompt in ((1, 2, 3), (1, 2, 3), (1, 2), (1, 2))]
    assert distinct_share(rows) == pytest.approx(5 / 10)
    assert distinct_share([]) == 0.0
