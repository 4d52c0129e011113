"""How unsolved episodes went."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hgpo.play import Episode
from hgpo.play.episode import Step
from hgpo.runs.failures import WAYS, sentence, way, ways

STEP = Step(0, "", (), "", (), "", (), (), "", "ok", 0.0, "", False, False, False)


def episode(
    *steps: tuple[str, str], success: bool = False, outcome: str = "ok", ended: bool = False
) -> Episode:
    """An episode of (observation, action) pairs."""
    made = [
        replace(STEP, index=i, observation=place, action=deed, outcome=outcome)  # type: ignore[arg-type]
        for i, (place, deed) in enumerate(steps)
    ]
    if made and ended:
        made[-1] = replace(made[-1], terminated=True)
    return Episode("task", "task", 0, 0, tuple(made), success, float(success))


@pytest.mark.parametrize(
    ("played", "expected"),
    [
        (episode(), "unplayed"),
        (episode(("hall", "north"), ("shop", "buy"), ended=True), "ended"),
        (episode(("hall", "fly"), ("hall", "fly"), outcome="inadmissible"), "refused"),
        (episode(("hall", "fly"), ("hall", "fly"), outcome="malformed"), "refused"),
        (episode(("hall", "wait"), ("hall", "wait"), ("hall", "wait")), "circles"),
        (episode(("hall", "north"), ("attic", "south"), ("hall", "north"), ("attic", "south")), "circles"),
        (episode(("hall", "north"), ("attic", "south"), ("hall", "east"), ("attic", "west")), "back"),
        (episode(("hall", "north"), ("attic", "up"), ("roof", "jump"), ("hall", "north")), "new"),
    ],
)
def test_each_way_is_told_from_the_others(played: Episode, expected: str) -> None:
    assert way(played) == expected


def test_only_unsolved_episodes_count_and_the_most_frequent_way_comes_first() -> None:
    lost = [episode(("hall", "wait"), ("hall", "wait"))] * 2 + [episode(("hall", "north"))]
    found = ways([*lost, episode(("hall", "wait"), ("hall", "wait"), success=True)])
    assert found == {"circles": 2, "new": 1}
    assert list(found) == ["circles", "new"]
    assert sentence(found) == f"3 not solved: 2 {WAYS['circles']}, 1 {WAYS['new']}"
    assert ways([episode(("hall", "north"), success=True)]) == {}
