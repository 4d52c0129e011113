"""Key modes and similarity merging."""

from __future__ import annotations

import random

import numpy as np
import pytest

from hgpo import HgpoError, StepBatch, estimate


def rows_of(texts: list[str], **more: str) -> list[dict]:
    return [
        {"task": "t", "trajectory": i, "step": 0, "observation": text, "reward": float(i), **more}
        for i, text in enumerate(texts)
    ]


def partition(labels: np.ndarray) -> set[frozenset[int]]:
    return {frozenset(np.flatnonzero(labels == label).tolist()) for label in set(labels.tolist())}


def test_similar_texts_merge_whatever_their_order() -> None:
    texts = [
        "You are in the hall. Clock 10:01",
        "You are in the hall. Clock 10:02",
        "A dark cellar",
        "A dark cellar!",
    ]
    rows = rows_of(texts)
    assert len(partition(estimate(StepBatch.from_rows(rows), "gigpo").levels[0])) == 4
    expected = {frozenset({0, 1}), frozenset({2, 3})}
    for seed in range(5):
        order = list(range(4))
        random.Random(seed).shuffle(order)
        levels = estimate(StepBatch.from_rows([rows[i] for i in order]), "gigpo", similarity=0.9).levels[0]
        assert {frozenset(order[i] for i in group) for group in partition(levels)} == expected


def test_similarity_does_not_chain() -> None:
    # Each text is near its neighbour only; the most frequent one leads and the far end stays out.
    texts = ["aaaaaaaaaa", "aaaaaaaaab", "aaaaaaaabb"]
    levels = estimate(
        StepBatch.from_rows(rows_of([*texts, texts[0]])), "hgpo", depth=0, similarity=0.85
    ).levels[0]
    assert levels[0] == levels[1] == levels[3] != levels[2]


def test_similar_texts_of_different_tasks_stay_apart() -> None:
    rows = rows_of(["same text"] * 2)
    rows[1]["task"] = "u"
    levels = estimate(StepBatch.from_rows(rows), "gigpo", similarity=0.5).levels[0]
    assert levels[0] != levels[1]


def test_a_state_key_replaces_the_observation() -> None:
    rows = rows_of(["Nothing happens."] * 3)
    for row, key in zip(rows, ["kitchen", "hall", "kitchen"]):
        row["state_key"] = key
    levels = estimate(StepBatch.from_rows(rows), "hgpo", depth=0, key="state_key").levels[0]
    assert partition(levels) == {frozenset({0, 2}), frozenset({1})}


def test_similarity_needs_text_and_a_share() -> None:
    numbers = rows_of(["x", "y"])
    for row in numbers:
        row["observation"] = (1, 2)
    with pytest.raises(HgpoError, match="needs text"):
        estimate(StepBatch.from_rows(numbers), "gigpo", similarity=0.9)
    with pytest.raises(HgpoError, match="similarity"):
        estimate(StepBatch.from_rows(rows_of(["x"])), "gigpo", similarity=1.5)
    with pytest.raises(HgpoError, match="above 0"):
        estimate(StepBatch.from_rows(rows_of(["x"])), "gigpo", similarity=0.0)
