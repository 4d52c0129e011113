"""What HGPO-lambda promises: its limits, its treatment of ends, and that exact values leave no bias."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hgpo import HgpoError, StepBatch, estimate
from hgpo.estimators.base import Record
from hgpo.estimators.cuts import find_cuts
from hgpo.estimators.hgpo_lambda import generalised_advantages, next_values
from hgpo.estimators.shrinkage import partitions
from hgpo.lab.sampling import as_batch, sample
from hgpo.lab.situations import first_logits, probabilities, situations
from hgpo.lab.truth import truth
from hgpo.lab.worlds import generator_for, make_world
from tests import oracle
from tests.strategies import Rows, step_rows

common = settings(max_examples=60, deadline=None, derandomize=True)
RAW: dict[str, Any] = {"mode": "mean_norm", "pool_actions": False}

LAMBDA_SETTINGS = st.fixed_dictionaries(
    {
        "depth": st.integers(0, 4),
        "lam": st.sampled_from([0.0, 0.5, 1.0]),
        "value_lam": st.sampled_from([None, 0.0, 0.9, 1.0]),
        "prior": st.sampled_from([0.0, 0.5, 3.0]),
        "gamma": st.sampled_from([1.0, 0.95, 0.5, 0.0]),
        "sweeps": st.integers(0, 6),
        "shrinkage": st.sampled_from(["empirical", "none"]),
        "pool_actions": st.booleans(),
        "baseline": st.sampled_from(["group", "leave_one_out"]),
        "mode": st.sampled_from(["mean_std_norm", "mean_norm"]),
        "normalise_over": st.sampled_from(["batch", "task"]),
        "invalid_penalty": st.sampled_from([0.0, 0.1]),
        "key": st.sampled_from(["observation", "observation_action"]),
    }
)


def with_ends(rows: Rows, seed: int) -> Rows:
    """The same rows, each trajectory ended or cut, with what came next, a state of the task or not."""
    rng = random.Random(seed)
    last: dict[Any, int] = {}
    for row in rows:
        last[row["task"], row["trajectory"]] = row["step"]
    ended = {name: rng.random() < 0.5 for name in last}
    names = [(row["task"], row["trajectory"]) for row in rows]
    after = {name: rng.choice(["hall", "kitchen", "attic", None]) for name in last}
    return [
        {**row, "done": row["step"] == last[n] and ended[n], "next_observation": after[n]}
        for row, n in zip(rows, names)
    ]


def chain(rewards: list[float], name: str, done: bool, seen: str = "room {}") -> Rows:
    """One trajectory through numbered rooms."""
    return [
        {
            "task": "t",
            "trajectory": name,
            "step": step,
            "observation": seen.format(step),
            "action": "go",
            "reward": reward,
            "done": done and step == len(rewards) - 1,
        }
        for step, reward in enumerate(rewards)
    ]


@common
@given(step_rows(), LAMBDA_SETTINGS, st.integers(0, 2**32))
def test_any_order_of_the_rows_gives_the_same_bits(rows: Rows, chosen: dict[str, Any], seed: int) -> None:
    rows = with_ends(rows, seed)
    order = list(range(len(rows)))
    random.Random(seed).shuffle(order)
    plain = estimate(StepBatch.from_rows(rows), "hgpo_lambda", **chosen)
    mixed = estimate(StepBatch.from_rows([rows[i] for i in order]), "hgpo_lambda", **chosen)
    assert mixed.advantages.tolist() == plain.advantages[order].tolist()
    assert mixed.metrics == plain.metrics


@common
@given(step_rows(), LAMBDA_SETTINGS, st.integers(0, 2**32))
def test_padding_rows_change_nothing(rows: Rows, chosen: dict[str, Any], seed: int) -> None:
    rows = with_ends(rows, seed)
    rng = random.Random(seed)
    padded = [{**row, "padding": False} for row in rows]
    for _ in range(3):
        copy = {**rng.choice(rows), "padding": True, "reward": 999.0, "done": True}
        padded.insert(rng.randrange(len(padded) + 1), copy)
    real = [i for i, row in enumerate(padded) if not row["padding"]]
    plain = estimate(StepBatch.from_rows(rows), "hgpo_lambda", **chosen)
    found = estimate(StepBatch.from_rows(padded), "hgpo_lambda", **chosen)
    assert found.advantages[real].tolist() == plain.advantages.tolist()
    assert found.metrics == plain.metrics


@common
@given(step_rows(), st.integers(0, 3), st.sampled_from([1.0, 0.9]))
def test_lambda_one_is_the_return_minus_a_baseline_of_the_context(
    rows: Rows, depth: int, gamma: float
) -> None:
    batch = StepBatch.from_rows(rows)
    found = estimate(batch, "hgpo_lambda", depth=depth, lam=1.0, gamma=gamma, **RAW)
    baseline = found.returns - found.advantages
    scale = 1e-9 * max(1.0, float(np.abs(found.returns).max()))
    contexts: dict[Any, list[float]] = {}
    for row, value in enumerate(baseline):
        contexts.setdefault(tuple(found.levels[:, row].tolist()), []).append(float(value))
    for values in contexts.values():
        assert max(values) - min(values) <= scale
    # At depth 0 the baseline is the mean return of the state.
    if depth == 0:
        for label in set(found.levels[0].tolist()):
            members = found.levels[0] == label
            assert baseline[members] == pytest.approx(found.returns[members].mean(), abs=scale)


@common
@given(step_rows(), st.integers(0, 5), st.integers(0, 2**32))
def test_depth_zero_and_lambda_zero_are_plain_one_step_state_values(
    rows: Rows, sweeps: int, seed: int
) -> None:
    rows = with_ends(rows, seed)
    chosen = {"depth": 0, "lam": 0.0, "gamma": 0.9, "sweeps": sweeps, **RAW}
    found = estimate(StepBatch.from_rows(rows), "hgpo_lambda", **chosen)
    following = {(r["task"], r["trajectory"], r["step"] - 1): r for r in rows}
    state = [(r["task"], r["observation"]) for r in rows]

    def next_value(row: dict[str, Any], values: dict[Any, float]) -> float:
        after = following.get((row["task"], row["trajectory"], row["step"]))
        if after is not None:
            return values[after["task"], after["observation"]]
        stand_in = values[row["task"], row["observation"]]
        return 0.0 if row["done"] else values.get((row["task"], row["next_observation"]), stand_in)

    def means(targets: list[float]) -> dict[Any, float]:
        return {s: float(np.mean([y for y, other in zip(targets, state) if other == s])) for s in set(state)}

    values = means(found.returns.tolist())
    for _ in range(sweeps):
        values = means([r["reward"] + 0.9 * next_value(r, values) for r in rows])
    expected = [r["reward"] + 0.9 * next_value(r, values) - values[s] for r, s in zip(rows, state)]
    np.testing.assert_allclose(found.advantages, expected, rtol=1e-9, atol=1e-9 * 1e6)


@common
@given(
    step_rows(),
    st.integers(0, 4),
    st.sampled_from([0.0, 0.4, 1.0]),
    st.sampled_from([0.0, 0.9, 1.0]),
    st.sampled_from([0.0, 0.5, 2.0]),
)
def test_values_with_a_lambda_of_their_own_and_a_prior_are_as_written_out(
    rows: Rows, sweeps: int, lam: float, value_lam: float, prior: float
) -> None:
    chosen = {"depth": 0, "gamma": 0.9, "sweeps": sweeps, "lam": lam, "value_lam": value_lam, **RAW}
    found = estimate(StepBatch.from_rows(rows), "hgpo_lambda", prior=prior, **chosen)
    at = {(r["task"], r["trajectory"], r["step"]): i for i, r in enumerate(rows)}
    state = [(r["task"], r["observation"]) for r in rows]
    before = [at.get((r["task"], r["trajectory"], r["step"] - 1)) for r in rows]
    after = [at.get((r["task"], r["trajectory"], r["step"] + 1)) for r in rows]

    def values(targets: list[float], old: list[float] | None) -> list[float]:
        by_state = {}
        for s in set(state):
            visits = [i for i, other in enumerate(state) if other == s]
            mean = sum(targets[i] for i in visits) / len(visits)
            left = mean
            if old is not None:
                steps = [before[i] for i in visits]
                left = sum(mean if b is None else old[b] - rows[b]["reward"] for b in steps) / len(visits)
            m = len({rows[i]["trajectory"] for i in visits})
            by_state[s] = (m * mean + prior * left) / (m + prior)
        return [by_state[s] for s in state]

    def lambda_returns(value: list[float], mix: float) -> list[float]:
        returns = [0.0] * len(rows)
        for i in sorted(range(len(rows)), key=lambda i: -rows[i]["step"]):
            n = after[i]
            rest = 0.0 if n is None else (1.0 - mix) * value[n] + mix * returns[n]
            returns[i] = rows[i]["reward"] + 0.9 * rest
        return returns

    targets, value = found.returns.tolist(), None
    for _ in range(sweeps):
        value = values(targets, value)
        targets = lambda_returns(value, value_lam)
    value = values(targets, value)
    score = lambda_returns(value, lam)
    baseline = value if lam == value_lam else values(score, value)
    scale = 1e-9 * max(1.0, float(np.abs(found.returns).max()))
    np.testing.assert_allclose(found.advantages, np.subtract(score, baseline), rtol=1e-9, atol=scale)


def test_a_state_that_one_rollout_saw_is_worth_what_the_step_before_left_to_come() -> None:
    # From the hall two rollouts go on in equal rooms and win once; a third sees a room of its own and wins.
    rows = chain([0.0, 0.0], "a", True) + chain([0.0, 9.0], "b", True) + chain([0.0, 9.0], "c", True)
    rows[5]["observation"] = "a room that nobody else saw"
    chosen = {"depth": 0, "lam": 0.0, "gamma": 1.0, "sweeps": 30, **RAW}
    alone = estimate(StepBatch.from_rows(rows), "hgpo_lambda", **chosen).advantages
    np.testing.assert_allclose(alone[4:], [3.0, 0.0])  # all the credit for entering the room
    shared = estimate(StepBatch.from_rows(rows), "hgpo_lambda", prior=1.0, **chosen).advantages
    assert shared[4] < 2.5
    assert shared[5] > 0.5


def test_values_that_look_alike_need_a_lambda_of_their_own_near_one() -> None:
    # Only who takes the key wins, but the hall looks the same with and without it: one step of bootstrapping through
    # the hall forgets the key, the returns of whoever took it do not.
    rows: Rows = []
    for number in range(8):
        took = number % 2 == 0
        steps = [
            ("door", "take key" if took else "look", 0.0),
            ("You take the key." if took else "You see a key.", "go", 0.0),
            ("hall", "open", 9.0 if took else 0.0),
        ]
        rows += [
            {
                "task": "t",
                "trajectory": number,
                "step": i,
                "observation": seen,
                "action": act,
                "reward": reward,
            }
            for i, (seen, act, reward) in enumerate(steps)
        ]
    chosen = {"depth": 0, "lam": 0.0, "gamma": 1.0, **RAW}
    forgets = estimate(StepBatch.from_rows(rows), "hgpo_lambda", **chosen).advantages
    np.testing.assert_allclose(forgets[0::3], 0.0, atol=1e-9)
    knows = estimate(StepBatch.from_rows(rows), "hgpo_lambda", value_lam=1.0, **chosen).advantages
    np.testing.assert_allclose(knows[0::3], [4.5, -4.5] * 4)


def test_many_sweeps_solve_the_bellman_equation_of_the_batch() -> None:
    places = situations(make_world("maze", 3))
    policy = probabilities(first_logits(places))
    batch = as_batch(places, sample(places, policy, 8, generator_for("bellman")))
    chosen = {"depth": 0, "lam": 0.0, "sweeps": 600, "shrinkage": "none", **RAW}
    advantages = estimate(batch, "hgpo_lambda", **chosen).advantages
    states = batch.encoded("observation").codes
    means = np.bincount(states, advantages) / np.maximum(np.bincount(states), 1)
    # V solves V(s) = mean of r + gamma V(s'), so the mean one-step advantage of every state is zero.
    assert np.abs(means).max() < 1e-9


def test_cut_trajectories_bootstrap_and_ended_ones_do_not() -> None:
    # One room, reward 1 a step, forever: worth 1 / (1 - 0.9) = 10 at every step.
    cut = chain([1.0] * 4, "a", False, "room") + chain([1.0] * 6, "b", False, "room")
    ended = chain([1.0] * 4, "a", True, "room") + chain([1.0] * 6, "b", True, "room")
    chosen = {"depth": 0, "gamma": 0.9, "sweeps": 400, **RAW}
    for lam in (0.0, 0.5, 1.0):
        found = estimate(StepBatch.from_rows(cut), "hgpo_lambda", lam=lam, **chosen)
        assert np.abs(found.advantages).max() < 1e-6
    found = estimate(StepBatch.from_rows(ended), "hgpo_lambda", lam=1.0, **chosen)
    last = [3, 9]
    # Their last step earns 1 and nothing more; the mean return over all ten steps is the value.
    np.testing.assert_allclose(found.advantages[last], 1.0 - found.returns.mean())
    assert (found.advantages[last] < -1.0).all()


def test_only_the_end_of_the_cut_trajectory_is_treated_as_cut() -> None:
    both = chain([0.0, 0.0], "a", True) + chain([0.0, 0.0], "b", False) + chain([0.0, 10.0], "c", True)
    found = estimate(StepBatch.from_rows(both), "hgpo_lambda", depth=0, lam=0.0, gamma=1.0, sweeps=0, **RAW)
    value = 10.0 / 3.0
    np.testing.assert_allclose(found.advantages, [0.0, -value, 0.0, 0.0, 0.0, 10.0 - value])
    record = Record.of(StepBatch.from_rows(both))
    assert record.unfinished.tolist() == [False] * 3 + [True] + [False] * 2


def test_what_came_after_a_cut_is_worth_what_was_recorded() -> None:
    # Cut on the way back to room 0, which is worth 10 / 3 to the group; the room it was cut in is worth 10 / 3 as well
    # only by its own share.
    rows = chain([0.0, 0.0], "a", True) + chain([0.0, 0.0], "b", False) + chain([0.0, 9.0], "c", True)
    rows[3]["next_observation"] = "room 0"
    rows[2]["reward"] = 3.0
    chosen = {"depth": 0, "lam": 0.0, "gamma": 1.0, "sweeps": 0, **RAW}
    found = estimate(StepBatch.from_rows(rows), "hgpo_lambda", **chosen)
    np.testing.assert_allclose(found.advantages, [-1.0, -3.0, 2.0, 4.0 - 3.0, -1.0, 6.0])
    for unknown in (None, "a room that nobody acted in"):
        rows[3]["next_observation"] = unknown
        found = estimate(StepBatch.from_rows(rows), "hgpo_lambda", **chosen)
        np.testing.assert_allclose(found.advantages, [-1.0, -3.0, 2.0, 0.0, -1.0, 6.0])


def test_a_step_limit_is_an_end_unless_it_is_said_to_be_a_cut() -> None:
    rows = chain([0.0, 0.0], "a", False) + chain([0.0, 9.0], "b", True)
    chosen = {"depth": 0, "lam": 0.0, "gamma": 1.0, "sweeps": 0, **RAW}
    cut = estimate(StepBatch.from_rows(rows), "hgpo_lambda", **chosen).advantages
    np.testing.assert_allclose(cut, [0.0, 0.0, 0.0, 4.5])
    limited = StepBatch.from_rows([{**row, "truncated": i == 1} for i, row in enumerate(rows)])
    ended = estimate(limited, "hgpo_lambda", **chosen).advantages
    np.testing.assert_allclose(ended, [0.0, -4.5, 0.0, 4.5])
    asked = estimate(limited, "hgpo_lambda", time_limit="cut", **chosen).advantages
    assert asked.tolist() == cut.tolist()


@common
@given(
    step_rows(),
    st.integers(0, 3),
    st.sampled_from(["observation", "observation_action"]),
    st.integers(0, 2**32),
)
def test_what_came_next_is_found_in_the_deepest_group_that_fits(
    rows: Rows, depth: int, key: Any, seed: int
) -> None:
    rows = with_ends(rows, seed)
    record = Record.of(StepBatch.from_rows(rows))
    parts = partitions(record.levels(key, 1.0, depth), record.trajectories.trajectory_ids)
    cuts = find_cuts(record, parts, key, 1.0, "cut")
    order = record.trajectories.order.tolist()
    for at, level, place in zip(cuts.rows.tolist(), cuts.level.tolist(), cuts.place.tolist()):
        last = rows[order[at]]
        after = {**last, "step": last["step"] + 1, "observation": last["next_observation"], "action": "?"}
        *known, asked = oracle.contexts([*rows, after], depth, key)
        agreeing = [next((k for k in range(depth + 1) if one[k] != asked[k]), depth + 1) - 1 for one in known]
        if max(agreeing) < 0:
            assert (level, place) == (depth, at)
        else:
            assert level == max(agreeing)
            assert agreeing[order[place]] == level


def test_without_a_done_column_every_trajectory_has_ended() -> None:
    rows = chain([0.0, 0.0], "a", True) + chain([0.0, 10.0], "b", True)
    bare = [{name: value for name, value in row.items() if name != "done"} for row in rows]
    with_column = estimate(StepBatch.from_rows(rows), "hgpo_lambda").advantages
    assert estimate(StepBatch.from_rows(bare), "hgpo_lambda").advantages.tolist() == with_column.tolist()


@pytest.mark.parametrize("lam", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("name", ["maze", "slips", "aliased"])
def test_with_exact_values_the_bias_is_zero_within_its_interval(name: str, lam: float) -> None:
    places = situations(make_world(name, 1))
    policy = probabilities(first_logits(places))
    exact = truth(places, policy)
    rollouts = sample(places, policy, 4000, generator_for("bias", name))
    record = Record.of(as_batch(places, rollouts))
    values = exact.values[rollouts.step, rollouts.situation]
    true = exact.advantages[rollouts.step, rollouts.situation, rollouts.action]
    cells = (rollouts.step * len(places.context) + rollouts.situation) * 4 + rollouts.action
    signs = generator_for("signs").choice([-1.0, 1.0], size=(20, int(cells.max()) + 1))

    parts = partitions(record.levels("observation", 1.0, 0), record.trajectories.trajectory_ids)
    cuts = find_cuts(record, parts, "observation", 1.0, "cut")

    def scores(baseline: np.ndarray) -> np.ndarray:
        """Mean error in standard errors over rollouts, added up over the cells with random signs, 20 times."""
        following = next_values(baseline, record.trajectories, cuts, [baseline])
        found = generalised_advantages(record.rewards, baseline, following, record.trajectories, 0.95, lam)
        sums = np.array([np.bincount(rollouts.rollout, sign[cells] * (found - true)) for sign in signs])
        # With lambda = 0 and sure moves the error has no spread at all: rounding is its measure then.
        spread: np.ndarray = np.maximum(sums.std(axis=1) / np.sqrt(sums.shape[1]), 1e-9)
        return sums.mean(axis=1) / spread

    assert np.abs(scores(values)).max() < 4.0
    # The test can tell: values that are off by a state-dependent amount show, in every world and for every lambda.
    assert np.abs(scores(values + 2.0 * np.sin(rollouts.situation))).max() > 6.0


def test_steps_with_the_same_action_in_the_same_context_share_their_advantage() -> None:
    # Pressing the button leads to the prize or to the pit by luck: the press is worth the mean of the two.
    rows: Rows = []
    for name, (action, reward) in enumerate([("press", 10.0), ("press", 0.0), ("wait", 2.0), ("wait", 2.0)]):
        row = {"task": "t", "trajectory": name, "step": 0, "observation": "button", "done": True}
        rows.append({**row, "action": action, "reward": reward})
    pooled = estimate(StepBatch.from_rows(rows), "hgpo_lambda", mode="mean_norm").advantages
    np.testing.assert_allclose(pooled, [1.5, 1.5, -1.5, -1.5])
    alone = estimate(StepBatch.from_rows(rows), "hgpo_lambda", **RAW).advantages
    np.testing.assert_allclose(alone, [6.5, -3.5, -1.5, -1.5])
    bare = [{name: value for name, value in row.items() if name != "action"} for row in rows]
    without = estimate(StepBatch.from_rows(bare), "hgpo_lambda", mode="mean_norm").advantages
    assert without.tolist() == alone.tolist()


@common
@given(step_rows(max_tasks=3), st.integers(0, 3))
def test_tasks_do_not_mix(rows: Rows, depth: int) -> None:
    chosen = {"depth": depth, "shrinkage": "none", **RAW}
    together = estimate(StepBatch.from_rows(rows), "hgpo_lambda", **chosen).advantages
    for task in {row["task"] for row in rows}:
        members = [i for i, row in enumerate(rows) if row["task"] == task]
        alone = estimate(StepBatch.from_rows([rows[i] for i in members]), "hgpo_lambda", **chosen)
        np.testing.assert_allclose(together[members], alone.advantages, atol=1e-6)


def test_a_floor_in_reward_units_keeps_tiny_gaps_tiny() -> None:
    rows = chain([0.0, 10.0], "a", True) + chain([0.0, 10.001], "b", True)
    found = estimate(StepBatch.from_rows(rows), "hgpo_lambda", pool_actions=False, lam=1.0)
    assert 0.0 < np.abs(found.advantages).max() < 0.01
    blown_up = estimate(StepBatch.from_rows(rows), "hgpo_lambda", pool_actions=False, lam=1.0, std_floor=0.0)
    assert np.abs(blown_up.advantages).max() > 0.9


@pytest.mark.parametrize(
    "chosen",
    [{"lam": 1.5}, {"lam": -0.1}, {"sweeps": -1}, {"value_lam": 1.1}, {"prior": -1.0}, {"lambda_": 0.5}],
)
def test_settings_out_of_range_are_an_error(chosen: dict[str, Any]) -> None:
    with pytest.raises(HgpoError):
        estimate(StepBatch.from_rows(chain([1.0], "a", True)), "hgpo_lambda", **chosen)


@common
@given(step_rows(), st.integers(0, 3), st.sampled_from(["group", "leave_one_out"]), st.integers(0, 2**32))
def test_hgpo_with_shrinkage_is_order_free_and_covers_all_steps(
    rows: Rows, depth: int, baseline: str, seed: int
) -> None:
    chosen: dict[str, Any] = {"weight_type": "shrinkage", "depth": depth, "baseline": baseline}
    order = list(range(len(rows)))
    random.Random(seed).shuffle(order)
    plain = estimate(StepBatch.from_rows(rows), "hgpo", **chosen)
    mixed = estimate(StepBatch.from_rows([rows[i] for i in order]), "hgpo", **chosen)
    assert mixed.advantages.tolist() == plain.advantages[order].tolist()
    assert np.isfinite(plain.advantages).all()


def test_shrinkage_falls_back_to_the_task_where_no_state_is_shared() -> None:
    rows = chain([0.0, 10.0], "a", True, "a{}") + chain([0.0, 0.0], "b", True, "b{}")
    found = estimate(StepBatch.from_rows(rows), "hgpo", weight_type="shrinkage", mode="mean_norm", gamma=1.0)
    np.testing.assert_allclose(found.advantages, [5.0, 5.0, -5.0, -5.0])
    released = estimate(StepBatch.from_rows(rows), "hgpo", mode="mean_norm", gamma=1.0)
    assert not released.advantages.any()
