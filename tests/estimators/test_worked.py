"""Cases worked by hand, one per rule."""

from __future__ import annotations

import numpy as np
import pytest

from hgpo import HgpoError, StepBatch, estimate


def batch(*trajectories: tuple[str, float], task: str = "t") -> StepBatch:
    """Trajectories given as a word of one-letter observations and a final reward."""
    rows = [
        {
            "task": task,
            "trajectory": number,
            "step": step,
            "observation": letter,
            "action": "a",
            "reward": reward if step == len(word) - 1 else 0.0,
        }
        for number, (word, reward) in enumerate(trajectories)
        for step, letter in enumerate(word)
    ]
    return StepBatch.from_rows(rows)


def test_weights_of_the_paper_and_of_the_released_code() -> None:
    # Three rollouts end in "c". Level 0 holds all three, level 1 those through "b", level 2 those through "ab".
    steps = batch(("abc", 6.0), ("abc", 0.0), ("xbc", 3.0), ("yzc", 1.0))
    last = [2, 5, 8, 11]
    level = [
        np.array([6, 0, 3, 1]) - 2.5,
        np.array([6, 0, 3, np.nan]) - 3,
        np.array([6, 0, np.nan, np.nan]) - 3,
    ]
    plain = {"depth": 2, "mode": "mean_norm", "gamma": 1.0}
    paper = estimate(steps, "hgpo", variant="paper", **plain).advantages[last]
    # The third step sits exactly at the mean of its level 1: the paper keeps that zero, the released code drops it.
    expected = [
        (1 * level[0][0] + 2 * level[1][0] + 3 * level[2][0]) / 6,
        (1 * level[0][1] + 2 * level[1][1] + 3 * level[2][1]) / 6,
        (1 * level[0][2] + 2 * 0.0) / 3,
        level[0][3],
    ]
    np.testing.assert_allclose(paper, expected)
    released = estimate(steps, "hgpo", variant="released", **plain).advantages[last]
    expected[0] = (2 * level[0][0] + 3 * level[1][0] + 4 * level[2][0]) / 9
    expected[1] = (2 * level[0][1] + 3 * level[1][1] + 4 * level[2][1]) / 9
    expected[2] = level[0][2]
    np.testing.assert_allclose(released, expected, rtol=1e-6)


def test_a_step_without_peers_gets_zero_or_the_episodes_advantage() -> None:
    steps = batch(("ab", 4.0), ("cd", 0.0))
    assert not estimate(steps, "hgpo").advantages.any()
    fallback = estimate(steps, "hgpo", variant="paper", mode="mean_norm", fallback="episode")
    np.testing.assert_allclose(fallback.advantages, [2.0, 2.0, -2.0, -2.0])


def test_a_loop_is_its_own_peer_only_where_asked() -> None:
    steps = batch(("aa", 1.0), ("b", 0.0))
    looped = estimate(steps, "hgpo", depth=0, mode="mean_norm", gamma=0.5)
    np.testing.assert_allclose(looped.advantages, [-0.25, 0.25, 0.0], rtol=1e-5)
    assert not estimate(steps, "hgpo", depth=0, gamma=0.5, peers="other_trajectory").advantages.any()


def test_leave_one_out_takes_the_mean_of_other_trajectories() -> None:
    steps = batch(("a", 3.0), ("a", 1.0), ("a", 2.0))
    found = estimate(steps, "hgpo", depth=0, mode="mean_norm", variant="paper", baseline="leave_one_out")
    np.testing.assert_allclose(found.advantages, [1.5, -1.5, 0.0])


def test_min_peers_asks_for_more_members() -> None:
    steps = batch(("a", 3.0), ("a", 1.0))
    assert estimate(steps, "hgpo", depth=0, min_peers=1).advantages.any()
    assert not estimate(steps, "hgpo", depth=0, min_peers=2).advantages.any()


def test_the_penalty_hits_the_step_alone_or_is_discounted_back() -> None:
    rows = [
        {"task": "t", "trajectory": 0, "step": s, "observation": "o", "reward": 0.0, "valid": s != 1}
        for s in range(3)
    ]
    steps = StepBatch.from_rows(rows)
    after = estimate(steps, "hgpo", gamma=0.5, invalid_penalty=1.0, penalty="after_discount").returns
    before = estimate(steps, "hgpo", gamma=0.5, invalid_penalty=1.0, penalty="before_discount").returns
    np.testing.assert_allclose(after, [0.0, -1.0, 0.0])
    np.testing.assert_allclose(before, [-0.5, -1.0, 0.0])


def test_a_floor_keeps_small_gaps_small() -> None:
    steps = batch(("a", 1.0), ("a", 1.01))
    plain = estimate(steps, "hgpo", depth=0).advantages
    floored = estimate(steps, "hgpo", depth=0, std_floor=1.0).advantages
    np.testing.assert_allclose(plain, [-1, 1], rtol=1e-3)
    assert np.abs(floored).max() < 0.01


def test_actions_in_the_history_split_what_observations_join() -> None:
    rows = [
        {"task": "t", "trajectory": i, "step": s, "observation": o, "action": a, "reward": float(i)}
        for i, action in enumerate("pq")
        for s, (o, a) in enumerate([("hall", action), ("hall", "x")])
    ]
    steps = StepBatch.from_rows(rows)
    by_observation = estimate(steps, "hgpo", depth=1, key="observation").levels[1]
    by_both = estimate(steps, "hgpo", depth=1, key="observation_action").levels[1]
    assert by_observation[1] == by_observation[3] >= 0
    assert by_both[1] != by_both[3]


def test_other_estimators_by_hand() -> None:
    steps = batch(("ab", 4.0), ("a", 0.0), ("abc", 2.0))
    of = [0, 0, 1, 2, 2, 2]
    scores = np.array([4.0, 0.0, 2.0])
    grpo = estimate(steps, "grpo", epsilon=0.0).advantages
    np.testing.assert_allclose(grpo, ((scores - 2) / 2.0)[of])
    rows = scores[of]
    by_rows = estimate(steps, "grpo", epsilon=0.0, normalise_over="steps").advantages
    np.testing.assert_allclose(by_rows, (rows - rows.mean()) / rows.std(ddof=1))
    np.testing.assert_allclose(estimate(steps, "dr_grpo").advantages, (scores - 2)[of])
    np.testing.assert_allclose(estimate(steps, "rloo").advantages, np.array([3.0, -3.0, 0.0])[of])
    plus = estimate(steps, "reinforce_plus_plus", epsilon=0.0).advantages
    np.testing.assert_allclose(plus, (rows - rows.mean()) / rows.std())
    based = estimate(steps, "reinforce_plus_plus", epsilon=0.0, baseline="group").advantages
    np.testing.assert_allclose(based, plus)  # one task: its baseline is a constant


def test_metrics_count_what_is_there() -> None:
    found = estimate(
        batch(("ab", 4.0), ("ab", 0.0), ("cb", 2.0), ("d", 1.0)), "hgpo", depth=1, gamma=1.0
    ).metrics
    assert found["steps"] == 7
    assert found["trajectories"] == 4
    assert found["tasks"] == 1
    # Level 0: a a | b b b | c | d. Level 1: ab ab | cb.
    assert found["level/0/groups"] == 4
    assert found["level/0/size/1"] == 2
    assert found["level/0/size/2"] == 1
    assert found["level/0/size/3-4"] == 1
    assert found["level/0/singleton_share"] == 2 / 7
    assert found["level/1/steps"] == 3
    assert found["level/1/groups"] == 2
    assert found["level/1/constant_share"] == 0
    assert found["level/1/sign_agreement"] == 1
    # Same state: one pair at "a", three at "b"; agreeing histories: "a" (both start there) and "ab".
    assert found["context/inconsistency"] == 1 - 2 / 4
    # "cb" is at the mean of its level 0 and alone at level 1; c and d are alone.
    assert found["context/coverage"] == 4 / 7


def test_constant_groups_are_counted() -> None:
    found = estimate(batch(("a", 1.0), ("a", 1.0), ("b", 0.0), ("b", 1.0)), "hgpo", depth=0).metrics
    assert found["level/0/constant_share"] == 0.5
    assert found["level/0/signal_share"] == 0.5


@pytest.mark.parametrize(
    ("name", "settings", "words"),
    [
        ("hgop", {}, ["'hgop'", "Did you mean 'hgpo'"]),
        ("hgpo", {"dpeth": 2}, ["'dpeth'", "Did you mean 'depth'"]),
        ("hgpo", {"depth": -1}, ["depth=-1", "from 0"]),
        ("hgpo", {"depth": 1.5}, ["depth=1.5", "whole number"]),
        ("hgpo", {"mode": "std"}, ["mode='std'", "mean_std_norm"]),
        ("hgpo", {"gamma": 1.5}, ["gamma=1.5", "from 0 to 1"]),
        ("hgpo", {"gamma": float("nan")}, ["gamma=nan"]),
        ("hgpo", {"base_group": "yes"}, ["base_group='yes'", "true or false"]),
        ("hgpo", {"key": "prompt"}, ["'prompt'", "Add it"]),
        ("grpo", {"depth": 2}, ["'depth'", "Known"]),
    ],
)
def test_wrong_names_and_settings_are_explained(name: str, settings: dict, words: list[str]) -> None:
    with pytest.raises(HgpoError) as error:
        estimate(batch(("a", 1.0)), name, **settings)
    for word in words:
        assert word in str(error.value)
