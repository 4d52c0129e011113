"""GraphGPO and G2PO, worked by hand and against literal versions."""

from __future__ import annotations

import random
from collections import deque

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hgpo import HgpoError, StepBatch, estimate
from hgpo.estimators.graphgpo import nearest
from tests import oracle
from tests.strategies import Rows, step_rows, with_ends


def walk(name: str, places: str, reward: float, task: str = "t", done: bool = True) -> Rows:
    """One trajectory through single-letter places; the reward comes with the last step."""
    return [
        {
            "task": task,
            "trajectory": name,
            "step": step,
            "observation": place,
            "reward": reward if step == len(places) - 1 else 0.0,
            "done": done and step == len(places) - 1,
        }
        for step, place in enumerate(places)
    ]


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    st.integers(1, 12), st.lists(st.tuples(st.integers(0, 11), st.integers(0, 11)), max_size=40), st.data()
)
def test_distances_are_those_of_a_literal_search(
    count: int, edges: list[tuple[int, int]], data: st.DataObject
) -> None:
    edges = [(tail % count, head % count) for tail, head in edges]
    goals = data.draw(st.lists(st.integers(0, count - 1), max_size=3))
    expected = [float("inf")] * count
    queue: deque[int] = deque()
    for goal in goals:
        if expected[goal] == float("inf"):
            expected[goal] = 1.0
            queue.append(goal)
    while queue:
        at = queue.popleft()
        for tail, head in edges:
            if head == at and expected[tail] == float("inf"):
                expected[tail] = expected[at] + 1
                queue.append(tail)
    tails, heads = (np.array([e[i] for e in edges], dtype=np.int64) for i in (0, 1))
    assert nearest(heads, tails, np.array(goals, dtype=np.int64), count).tolist() == expected


def test_a_good_step_of_a_failing_rollout_gets_credit() -> None:
    # a -> b -> c -> success, and a failing rollout that goes a -> b -> x: x counts as further than a, which is 3 away.
    rows = walk("won", "abc", 10.0) + walk("lost", "abx", 0.0) + walk("away", "axx", 0.0)
    batch = StepBatch.from_rows(rows)
    found = estimate(batch, "graphgpo", gamma=0.5, episode_w=0.0, mode="mean_norm")
    beyond = 10 * 0.5**4
    assert found.returns.tolist() == [2.5, 5.0, 10.0, 2.5, beyond, beyond, beyond, beyond, beyond]
    assert found.advantages[3] == pytest.approx(2.5 - (5.0 + beyond) / 3)
    progress = estimate(batch, "graphgpo", gamma=0.5, progress=True)
    assert progress.returns.tolist() == [10.0, 10.0, 10.0, 10.0, 1.25, 5.0, 2.5, 5.0, 5.0]


def test_the_last_step_of_a_failure_leads_to_its_next_observation() -> None:
    rows = walk("won", "abc", 10.0) + walk("lost", "xx", 0.0)
    rows[-1]["next_observation"] = "b"
    found = estimate(StepBatch.from_rows(rows), "graphgpo", gamma=0.5)
    # x is now three steps away: its last step led to b, which is two away.
    assert found.returns.tolist() == [2.5, 5.0, 10.0, 1.25, 2.5]
    # What a success leads to is success, whatever the environment shows afterwards.
    rows[2]["next_observation"] = "a"
    assert (
        estimate(StepBatch.from_rows(rows), "graphgpo", gamma=0.5).returns.tolist() == found.returns.tolist()
    )
    # A similar text is the same state where texts are merged.
    for row in rows:
        row["observation"] = f"you are in the room called {row['observation'] * 12}"
    rows[-1]["next_observation"] = "You are in the room called " + "b" * 12
    merged = estimate(StepBatch.from_rows(rows), "graphgpo", gamma=0.5, similarity=0.9)
    assert merged.returns.tolist() == found.returns.tolist()
    assert estimate(StepBatch.from_rows(rows), "graphgpo", gamma=0.5).returns[-1] < 2.5


def test_what_cannot_be_hashed_came_next() -> None:
    rows = walk("won", "ab", 10.0) + walk("lost", "ab", 0.0)
    rows[-1]["next_observation"] = ["a", "list"]
    with pytest.raises(HgpoError, match="Row 3 has a next_observation of type list"):
        estimate(StepBatch.from_rows(rows), "graphgpo")


def test_a_success_column_decides_where_there_is_one() -> None:
    rows = [
        {**row, "success": row["trajectory"] == "b"} for row in walk("a", "xy", 10.0) + walk("b", "xz", 0.0)
    ]
    found = estimate(StepBatch.from_rows(rows), "graphgpo", gamma=0.5)
    assert found.returns.tolist() == [1.25, 1.25, 5.0, 10.0]


def test_a_group_without_success_says_nothing() -> None:
    rows = walk("a", "xyz", 0.0) + walk("b", "xzz", 0.0)
    for name in ("graphgpo", "g2po"):
        assert not estimate(StepBatch.from_rows(rows), name).advantages.any()
    assert estimate(StepBatch.from_rows(rows), "graphgpo").returns.tolist() == [1.0] * 6


def test_graphs_of_different_tasks_do_not_touch() -> None:
    rows = walk("a", "xy", 10.0, "one") + walk("a", "xy", 0.0, "two")
    found = estimate(StepBatch.from_rows(rows), "graphgpo", gamma=0.5)
    assert found.returns.tolist() == [5.0, 10.0, 5.0, 5.0]


def test_g2po_by_hand() -> None:
    rows = walk("won", "ab", 8.0) + walk("lost", "ab", 0.0) + walk("away", "ac", 0.0)
    found = estimate(StepBatch.from_rows(rows), "g2po", gamma=0.5, mode="mean_norm", episode_w=0.0)
    # V(a) = 8/4 / 3 = 2/3, V(b) = 8/2 / 2 = 2, V(c) = 0; after the success 8, after the failures 0.
    targets = [2.0, 8.0, 2.0, 0.0, 0.0, 0.0]
    assert found.returns.tolist() == pytest.approx(targets)
    by_state = [2 / 3, 4.0, 2 / 3, -4.0, -4 / 3, 0.0]
    gain = np.array([4 / 3, 6.0, 4 / 3, -2.0, -2 / 3, 0.0])
    np.testing.assert_allclose(found.advantages, by_state + gain - gain.mean())
    # Recorded as cut, or with what came next, it is the same: a failure is worth nothing.
    cut = [{**row, "done": row["done"] and row["reward"] > 0, "next_observation": "a"} for row in rows]
    again = estimate(StepBatch.from_rows(cut), "g2po", gamma=0.5, mode="mean_norm", episode_w=0.0)
    assert again.advantages.tolist() == found.advantages.tolist()


MODES = st.sampled_from(["mean_std_norm", "mean_norm"])


@settings(max_examples=200, deadline=None, derandomize=True)
@given(with_ends(step_rows()), MODES, st.sampled_from([0.0, 0.1]), st.sampled_from([1.0, 0.95, 0.5, 0.0]))
def test_g2po_equals_the_literal_version(rows: Rows, mode: str, penalty: float, gamma: float) -> None:
    chosen = {"mode": mode, "invalid_penalty": penalty, "gamma": gamma, "step_advantage_w": 0.7}
    found = estimate(StepBatch.from_rows(rows), "g2po", **chosen)
    _, _, expected = oracle.g2po(rows, **chosen)
    scale = max(1.0, max(abs(row["reward"]) for row in rows))
    np.testing.assert_allclose(found.advantages, expected, rtol=1e-6, atol=1e-7 * scale)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(with_ends(step_rows()), MODES, st.sampled_from([0.0, 0.1]), st.booleans())
def test_graphgpo_equals_the_literal_version(rows: Rows, mode: str, penalty: float, progress: bool) -> None:
    chosen = {"mode": mode, "invalid_penalty": penalty, "progress": progress}
    found = estimate(StepBatch.from_rows(rows), "graphgpo", **chosen)
    targets, expected = oracle.graphgpo(rows, **chosen)
    scale = max(1.0, max(abs(row["reward"]) for row in rows))
    np.testing.assert_allclose(found.advantages, expected, rtol=1e-6, atol=1e-7 * scale)
    plain = estimate(StepBatch.from_rows(rows), "graphgpo", progress=progress)
    np.testing.assert_allclose(plain.returns, targets, rtol=1e-9)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    with_ends(step_rows()),
    st.sampled_from(["graphgpo", "g2po"]),
    st.integers(0, 2),
    st.booleans(),
    st.integers(0, 2**32),
)
def test_any_order_of_the_rows_gives_the_same_bits(
    rows: Rows, name: str, depth: int, std: bool, seed: int
) -> None:
    order = list(range(len(rows)))
    random.Random(seed).shuffle(order)
    chosen = {"depth": depth, "mode": "mean_std_norm" if std else "mean_norm"}
    plain = estimate(StepBatch.from_rows(rows), name, **chosen)
    mixed = estimate(StepBatch.from_rows([rows[i] for i in order]), name, **chosen)
    assert mixed.advantages.tolist() == plain.advantages[order].tolist()
    assert len(plain.levels) == depth + 1
