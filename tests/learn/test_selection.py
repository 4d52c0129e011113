"""Which steps are trained on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hgpo import StepBatch
from hgpo.config.schema import UpdateConfig
from hgpo.learn.selection import distinct_prompt_share, select

from .tokens import Row, batch_of


def step(
    task: str, trajectory: str, number: int, reward: float, reply: tuple[int, ...] = (1,)
) -> dict[str, Any]:
    return {
        "task": task,
        "trajectory": trajectory,
        "step": number,
        "observation": "here",
        "reward": reward,
        "prompt_ids": (5, 6),
        "response_ids": reply,
        "logprobs": (-1.0,) * len(reply),
    }


STEPS = [
    step("a", "a0", 0, 0.0),
    step("a", "a0", 1, 1.0),
    step("a", "a1", 0, 0.0),
    step("b", "b0", 0, 1.0),
    step("b", "b1", 0, 0.5),
    step("b", "b1", 1, 0.5),
    step("c", "c0", 0, 0.0, ()),
    step("c", "c1", 0, 1.0),
]
BATCH = StepBatch.from_rows(STEPS).with_columns(advantage=np.array([1.0, 2.0, -3.0, 0.0, 0.0, 0.0, 4.0, 5.0]))


def test_steps_without_a_reply_teach_nothing() -> None:
    trained, left_out = select(BATCH, UpdateConfig())
    assert trained["advantage"].tolist() == [1.0, 2.0, -3.0, 0.0, 0.0, 0.0, 5.0]
    assert left_out == 0


def test_groups_that_earned_the_same_are_left_out() -> None:
    """Group b earned 1 in both rollouts, in one step or in two."""
    trained, left_out = select(BATCH, UpdateConfig(filter_groups=True))
    assert trained["advantage"].tolist() == [1.0, 2.0, -3.0, 5.0]
    assert trained["trajectory"].tolist() == ["a0", "a0", "a1", "c1"]
    assert left_out == 1


def test_a_group_that_is_not_in_the_batch_is_not_left_out() -> None:
    """The names of a batch's parent stay known to it."""
    trained, left_out = select(BATCH.take(np.array([3, 4, 5])), UpdateConfig(filter_groups=True))
    assert len(trained) == 0
    assert left_out == 1


def test_nothing_is_copied_when_all_steps_are_trained_on() -> None:
    whole = BATCH.take(np.array([0, 1, 2]))
    assert select(whole, UpdateConfig())[0] is whole


def test_scaling() -> None:
    trained, _ = select(BATCH.take(np.array([0, 1, 2])), UpdateConfig(normalise_advantages=True))
    advantages = trained["advantage"]
    assert np.mean(np.square(advantages)) == pytest.approx(1.0)
    assert advantages[1] == pytest.approx(2 * advantages[0])


def test_share_of_distinct_prompts() -> None:
    rows = [Row(prompt, (1,), (0.0,), 0.0) for prompt in ((1, 2, 3), (1, 2, 3), (1, 2), (1, 2))]
    assert distinct_prompt_share(batch_of(rows)) == pytest.approx(5 / 10)
    assert distinct_prompt_share(batch_of(rows).take(np.zeros(4, dtype=bool))) == 0.0
