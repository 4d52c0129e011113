"""What a run says about its own iterations."""

from __future__ import annotations

import io
import json
from pathlib import Path

from hgpo.runs import load, train

from ..worlds import FETCH

# A model that knows little fails nearly everywhere, so the penalty is about all there is to learn from.
UNTAUGHT = ["warm.epochs=2", "iterations=2", "eval.every=0", "estimator=hgpo", "estimator.depth=1"]


def run(folder: Path, *words: str) -> tuple[str, list[dict[str, float]]]:
    said = io.StringIO()
    train(load(FETCH, [*UNTAUGHT, *words]), folder, stream=said)
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return said.getvalue(), [row for row in rows if row["iteration"] > 0]


def test_a_penalty_that_makes_the_advantages_is_named_once(tmp_path: Path) -> None:
    said, rows = run(tmp_path / "run", "invalid_penalty=0.1")
    assert rows[0]["inadmissible_share"] > 0
    assert rows[0]["estimator/advantage/std"] > 0
    assert not [key for key in rows[0] if key.startswith("advantage/")], "the estimate's metrics, once each"
    assert max(row["estimator/advantage/penalty_share"] for row in rows) > 0.4
    assert said.count("of the advantages come from the penalty for invalid actions") == 1
    assert "agent.inadmissible_is_invalid=false" in said


def test_without_a_penalty_there_is_nothing_to_say(tmp_path: Path) -> None:
    said, rows = run(tmp_path / "run", "invalid_penalty=0")
    assert [row["estimator/advantage/penalty_share"] for row in rows] == [0.0, 0.0]
    assert "come from the penalty" not in said
