"""Every metric that a run writes is explained, and nothing is explained that no run writes."""

from __future__ import annotations

import io
import json
from pathlib import Path

from hgpo.runs import load, train
from hgpo.runs.glossary import ESTIMATE_PREFIX, GROUPS, meaning

from ..worlds import FETCH

# What this run on a CPU does not write: verl's own.
ELSEWHERE = {"engine/logprob_gap_max"}


def test_the_metrics_of_a_run_are_those_of_the_glossary(tmp_path: Path) -> None:
    words = ["iterations=2", "eval.every=1", "update.kl_coef=0.01", "update.entropy_coef=0.001"]
    train(load(FETCH, words), tmp_path / "run", stream=io.StringIO())
    rows = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    written = {name for row in rows for name in row}
    assert sorted(name for name in written if meaning(name) is None) == []
    said = {meaning(name) for name in written}
    unsaid = [one.name for group in GROUPS.values() for one in group if one.meaning not in said]
    assert set(unsaid) == ELSEWHERE


def test_names_are_explained_once_and_others_not_at_all() -> None:
    for group, metrics in GROUPS.items():
        assert len({one.name for one in metrics}) == len(metrics), group
    assert meaning(f"{ESTIMATE_PREFIX}level/12/size/65+") == meaning(f"{ESTIMATE_PREFIX}level/0/size/1")
    assert meaning("level/0/groups") is None, "the estimate's metrics have a prefix in a run"
    assert meaning("sucess") is None
