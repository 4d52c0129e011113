"""Episodes as a batch of steps, and the one set of episode metrics, against literal arithmetic."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from hgpo.play import Episode, Step, episode_metrics, record
from hgpo.play.metrics import panel_metrics


def episode(group: str, index: int, length: int, seed: int) -> Episode:
    random = np.random.default_rng(seed)
    steps = tuple(
        Step(
            index=number,
            observation=f"room {random.integers(3)}",
            admissible=("look", "go"),
            prompt="what now",
            prompt_ids=tuple(random.integers(1, 9, random.integers(1, 5)).tolist()),
            response="go",
            response_ids=tuple(random.integers(1, 9, random.integers(0, 3)).tolist()),
            logprobs=(),
            action="go",
            outcome=("ok", "malformed", "inadmissible")[random.integers(3)],
            reward=float(random.random()),
            next_observation="room",
            terminated=number == length - 1,
            truncated=False,
            shortened=bool(random.integers(2)),
            info={"state_key": number} if group == "b" else {},
        )
        for number in range(length)
    )
    return Episode(group, group, index, seed, steps, bool(random.integers(2)), float(random.random()), "kind")


EPISODES = [
    episode(group, index, 2 + 3 * index, 7 * index + len(group))
    for group in ("b", "aa")
    for index in range(3)
]


def test_every_step_is_a_row_in_episode_order() -> None:
    batch = record(EPISODES)
    pairs = [(one, step) for one in EPISODES for step in one.steps]
    assert batch["trajectory"].tolist() == [one.name for one, _ in pairs]
    assert batch["task"].tolist() == [one.group for one, _ in pairs]
    for name in (
        "prompt",
        "observation",
        "action",
        "reward",
        "outcome",
        "shortened",
        "truncated",
        "admissible",
    ):
        assert batch[name].tolist() == [getattr(step, name) for _, step in pairs]
    for name in ("prompt_ids", "response_ids", "logprobs"):
        assert batch[name].tolist() == [list(getattr(step, name)) for _, step in pairs]
    assert batch["done"].tolist() == [step.terminated for _, step in pairs]
    assert batch["state_key"].tolist() == [step.info.get("state_key") for _, step in pairs]
    assert batch["episode_seed"].tolist() == [one.seed for one, _ in pairs]
    assert "state_key" not in record(EPISODES[3:])


@pytest.mark.parametrize("strict", [False, True])
def test_what_counts_as_valid(strict: bool) -> None:
    batch = record(EPISODES, inadmissible_is_invalid=strict)
    bad = {"malformed", "inadmissible"} if strict else {"malformed"}
    assert batch["valid"].tolist() == [outcome not in bad for outcome in batch["outcome"]]
    assert 0 < batch["valid"].sum() < len(batch)


def test_episode_metrics_are_those_of_the_episodes() -> None:
    steps = [step for one in EPISODES for step in one.steps]

    def mean(values: list[float]) -> float:
        return float(np.mean(values))

    expected = {
        "success": mean([one.success for one in EPISODES]),
        "return": mean([sum(step.reward for step in one.steps) for one in EPISODES]),
        "score": mean([one.score for one in EPISODES]),
        "episodes": 6.0,
        "steps": float(len(steps)),
        "episode_length": mean([len(one.steps) for one in EPISODES]),
        "malformed_share": mean([step.outcome == "malformed" for step in steps]),
        "inadmissible_share": mean([step.outcome == "inadmissible" for step in steps]),
        "shortened_share": mean([step.shortened for step in steps]),
        "response_tokens": float(sum(len(step.response_ids) for step in steps)),
        "prompt_tokens": float(sum(len(step.prompt_ids) for step in steps)),
        "groups": 2.0,
        "action_disagreement": 0.0,  # all of them go
    }
    batch = record(EPISODES)
    assert episode_metrics(batch) == expected, "to the last digit"
    shuffled = batch.take(np.random.default_rng(0).permutation(len(batch)))
    assert episode_metrics(shuffled) == pytest.approx(expected)
    assert panel_metrics(EPISODES) == {
        "success": expected["success"],
        "return": expected["return"],
        "score": expected["score"],
        "steps": expected["episode_length"],
    }


def test_one_long_episode_counts_as_one() -> None:
    long = dataclasses.replace(episode("x", 0, 40, 1), success=True, score=1.0)
    short = dataclasses.replace(episode("x", 1, 1, 2), success=False, score=0.0)
    metrics = episode_metrics(record([long, short]))
    assert metrics["success"] == metrics["score"] == 0.5
    assert metrics["episode_length"] == 20.5


def test_disagreement_is_the_share_of_pairs_that_act_differently_where_they_see_the_same() -> None:
    def acting(group: str, index: int, actions: str) -> Episode:
        one = episode(group, index, len(actions), 1)
        steps = [
            dataclasses.replace(step, observation="hall" if number else "door", action=action)
            for number, (step, action) in enumerate(zip(one.steps, actions))
        ]
        return dataclasses.replace(one, steps=tuple(steps))

    # Door of task a: x, x, y, three pairs of which two differ; halls: z, z, one pair that agrees.
    alike = [acting("a", 0, "xz"), acting("a", 1, "xz"), acting("a", 2, "y")]
    assert episode_metrics(record(alike))["action_disagreement"] == 0.5
    # The same door in another task is another place: no pairs, no number.
    alone = record([acting("a", 0, "x"), acting("b", 0, "y")])
    assert "action_disagreement" not in episode_metrics(alone)
