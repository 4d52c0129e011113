"""GraphGPO's distances and successor values, worked by hand and against literal versions."""

from __future__ import annotations

import random
from collections import deque

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hgpo import StepBatch, estimate
from hgpo.estimators.base import Record
from hgpo.estimators.graphgpo import distances, nearest
from tests.strategies import Rows, step_rows


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
    # a -> b -> c -> success, and a failing rollout that goes a -> b -> x.
    rows = walk("won", "abc", 10.0) + walk("lost", "abx", 0.0) + walk("away", "axx", 0.0)
    batch = StepBatch.from_rows(rows)
    here, there = distances(Record.of(batch), batch.encoded("observation").codes[batch.trajectories.order])
    by_row = dict(zip(batch.trajectories.order.tolist(), zip(here.tolist(), there.tolist())))
    inf = float("inf")
    assert [by_row[i] for i in range(3)] == [(3.0, 2.0), (2.0, 1.0), (1.0, 0.0)]
    assert [by_row[i] for i in range(3, 6)] == [(3.0, 2.0), (2.0, inf), (inf, inf)]
    found = estimate(batch, "graphgpo", gamma=0.5, episode_w=0.0, mode="mean_norm")
    assert found.returns.tolist() == [2.5, 5.0, 10.0, 2.5, 0.0, 0.0, 0.0, 0.0, 0.0]
    assert found.advantages[3] == pytest.approx(2.5 - 5.0 / 3)
    progress = estimate(batch, "graphgpo", gamma=0.5, progress=True)
    assert progress.returns.tolist() == [10.0, 10.0, 10.0, 10.0, 0.0, 0.0, 0.0, 0.0, 0.0]


def test_a_success_column_decides_where_there_is_one() -> None:
    rows = [
        {**row, "success": row["trajectory"] == "b"} for row in walk("a", "xy", 10.0) + walk("b", "xz", 0.0)
    ]
    found = estimate(StepBatch.from_rows(rows), "graphgpo", gamma=0.5)
    assert found.returns.tolist() == [0.0, 0.0, 5.0, 10.0]


def test_a_group_without_success_says_nothing() -> None:
    rows = walk("a", "xyz", 0.0) + walk("b", "xzz", 0.0)
    assert not estimate(StepBatch.from_rows(rows), "graphgpo").advantages.any()


def test_graphs_of_different_tasks_do_not_touch() -> None:
    rows = walk("a", "xy", 10.0, "one") + walk("a", "xy", 0.0, "two")
    assert estimate(StepBatch.from_rows(rows), "graphgpo", gamma=0.5).returns.tolist() == [
        5.0,
        10.0,
        0.0,
        0.0,
    ]


def test_a_step_is_credited_with_the_value_of_its_successor() -> None:
    rows = walk("won", "ab", 10.0) + walk("lost", "ab", 0.0) + walk("away", "ac", 0.0)
    batch = StepBatch.from_rows(rows)
    found = estimate(batch, "g2po", gamma=1.0, mode="mean_norm", episode_w=0.0)
    # b is worth 5 to the group, c nothing: both steps to b are credited alike, whatever followed.
    assert found.returns.tolist() == [5.0, 10.0, 5.0, 0.0, 0.0, 0.0]
    np.testing.assert_allclose(found.advantages, [5 / 3, 5.0, 5 / 3, -5.0, -10 / 3, 0.0])
    cut = StepBatch.from_rows(walk("won", "ab", 10.0) + walk("lost", "ab", 0.0, done=False))
    assert estimate(cut, "g2po", gamma=1.0).returns.tolist() == [5.0, 10.0, 5.0, 5.0]


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    step_rows(),
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
