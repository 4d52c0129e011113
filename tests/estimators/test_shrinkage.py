"""Nested means against literal versions and hand-worked cases."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hgpo import StepBatch, estimate
from hgpo.estimators.shrinkage import Partition, level_weights, means_of_others, nested_means, partitions

common = settings(max_examples=60, deadline=None, derandomize=True)


@st.composite
def nested_case(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    count = draw(st.integers(1, 25))
    coarse = draw(st.lists(st.integers(0, 2), min_size=count, max_size=count))
    fine = draw(st.lists(st.integers(0, 2), min_size=count, max_size=count))
    trajectories = draw(st.lists(st.integers(0, 3), min_size=count, max_size=count))
    values = draw(st.lists(st.sampled_from([0.0, 1.0, 10.0, -3.5]), min_size=count, max_size=count))
    codes = [sorted(set(coarse)).index(c) for c in coarse]
    pairs = list(zip(coarse, fine))
    split = [sorted(set(pairs)).index(p) for p in pairs]
    return np.array([codes, split]), np.array(trajectories), np.array(values)


def literal_pairs(labels: np.ndarray, trajectories: np.ndarray, values: np.ndarray) -> dict[int, list[float]]:
    found: dict[int, list[float]] = {int(label): [] for label in labels}
    for i, j in itertools.combinations(range(len(values)), 2):
        if labels[i] == labels[j] and trajectories[i] != trajectories[j]:
            found[int(labels[i])].append((values[i] - values[j]) ** 2 / 2)
    return found


@common
@given(nested_case())
def test_pairs_are_those_of_different_trajectories(case: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
    levels, trajectories, values = case
    pairs = Partition.of(levels[1], trajectories).pairs(values)
    for label, found in literal_pairs(levels[1], trajectories, values).items():
        assert pairs.count[label] == len(found)
        assert pairs.squares[label] == pytest.approx(sum(found), abs=1e-9)


@common
@given(nested_case())
def test_pairs_need_only_the_steps_that_met_another_trajectory_above(
    case: tuple[np.ndarray, np.ndarray, np.ndarray],
) -> None:
    levels, trajectories, values = case
    coarse, fine = partitions(levels, trajectories)
    whole, some = fine.pairs(values), fine.pairs(values, coarse.pairs(values).met)
    assert some.count.tolist() == whole.count.tolist()
    assert some.squares.tolist() == whole.squares.tolist()
    assert some.met.tolist() == whole.met.tolist()
    assert np.maximum(some.num_trajectories, 1.0).tolist() == whole.num_trajectories.tolist()


@common
@given(nested_case())
def test_weights_follow_the_formula(case: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
    levels, trajectories, values = case
    parts = partitions(levels, trajectories)
    weights = level_weights(parts, None, values)
    assert (weights[0] == 1.0).all()
    inner, outer = (literal_pairs(level, trajectories, values) for level in (levels[1], levels[0]))
    parent = {int(fine): int(coarse) for coarse, fine in levels.T}
    size = np.bincount(levels[0])
    within = [0.0, 0.0]
    for label, found in inner.items():
        within[0] += sum(found) / size[parent[label]]
        within[1] += len(found) / size[parent[label]]
    between = [-within[0], -within[1]]
    for label, found in outer.items():
        between[0] += sum(found) / size[label]
        between[1] += len(found) / size[label]
    if within[1] < 1e-9 or between[1] < 1e-9:
        assert (weights[1] == 0.0).all()
        return
    noise = within[0] / within[1]
    explained = max(between[0] / between[1] - noise, 0.0)
    for label in inner:
        others = len(set(trajectories[levels[1] == label].tolist())) - 1
        total = explained * others + noise
        expected = explained * others / total if total > 1e-12 else 0.0
        assert weights[1][label] == pytest.approx(expected, abs=1e-6)


@common
@given(nested_case())
def test_means_of_others_leave_the_own_trajectory_out(
    case: tuple[np.ndarray, np.ndarray, np.ndarray],
) -> None:
    levels, trajectories, values = case
    parts = partitions(levels, trajectories)
    weights = level_weights(parts, None, values)
    roots = Partition.of(np.zeros(len(values), dtype=np.int64), trajectories)
    found = means_of_others(parts, weights, values, roots).values[-1]
    for row in range(len(values)):
        others = trajectories != trajectories[row]
        expected = values[others].mean() if others.any() else values.mean()
        for level, weight in zip(levels, weights):
            members = others & (level == level[row])
            if members.any():
                w = weight[level[row]]
                expected = w * values[members].mean() + (1 - w) * expected
        assert found[row] == pytest.approx(expected, abs=1e-9)


def test_a_level_that_explains_everything_counts_fully_and_one_that_explains_nothing_not_at_all() -> None:
    trajectories = np.array([0, 1, 2, 3] * 2)
    coarse = np.zeros(8, dtype=np.int64)
    fine = np.array([0] * 4 + [1] * 4)
    parts = partitions(np.array([coarse, fine]), trajectories)
    explained = np.array([1.0] * 4 + [5.0] * 4)
    weights = level_weights(parts, None, explained)
    assert weights[1].tolist() == [1.0, 1.0]
    assert nested_means(parts, weights, explained, explained).values[-1].tolist() == explained.tolist()
    noise = np.array([1.0, 5.0, 1.0, 5.0] * 2)
    weights = level_weights(parts, None, noise)
    assert weights[1].tolist() == [0.0, 0.0]
    assert nested_means(parts, weights, noise, noise).values[-1].tolist() == [3.0] * 8


def test_a_group_that_one_trajectory_visited_leaves_the_estimate_to_its_parent() -> None:
    trajectories = np.array([0, 1, 2, 3, 4, 4])
    fine = np.array([0, 0, 1, 1, 2, 2])
    parts = partitions(np.array([np.zeros(6, dtype=np.int64), fine]), trajectories)
    weights = level_weights(parts, None, np.array([1.0, 2.0, 8.0, 9.0, 4.0, 4.0]))
    assert weights[1][0] > 0.5
    assert weights[1][2] == 0.0


def test_steps_too_early_for_a_level_stay_together() -> None:
    levels = np.array([[0, 0, 0, 1], [-1, -1, 0, -1]])
    parts = partitions(levels, np.array([0, 1, 0, 1]))
    labels = parts[1].labels
    assert labels[0] == labels[1]
    assert len(set(labels.tolist())) == 3


@pytest.mark.parametrize(
    ("name", "chosen"),
    [
        ("rloo", {}),
        ("hgpo", {"baseline": "leave_one_out"}),
        ("hgpo", {"baseline": "leave_one_out", "weight_type": "shrinkage"}),
        ("hgpo_lambda", {"baseline": "leave_one_out"}),
        ("hgpo_lambda", {"baseline": "leave_one_out", "pool_actions": False, "mode": "mean_norm"}),
    ],
)
def test_leaving_one_out_of_one_leaves_nothing_to_say(name: str, chosen: dict[str, Any]) -> None:
    """A task with one rollout gets zero, however often it came by the same place; the other task keeps its own."""

    def walk(task: str, rollout: int, reward: float) -> list[dict[str, Any]]:
        places = ["hall", "kitchen", "hall", "attic"]
        return [
            {"task": task, "trajectory": rollout, "step": step, "observation": place, "action": f"go {rollout}",
             "reward": reward if step == 3 else 1.0}
            for step, place in enumerate(places)
        ]  # fmt: skip

    alone, pair = walk("one", 0, 10.0), walk("two", 0, 10.0) + walk("two", 1, 0.0)
    found = estimate(StepBatch.from_rows(alone + pair), name, **chosen).advantages
    assert not found[:4].any()
    assert found[4:].all()
