"""Panels: what their digests are made of, and what is said when two differ."""

from __future__ import annotations

import json

import pytest

from hgpo.config.stage import open_stage
from hgpo.envs import make
from hgpo.errors import BadEnv, PanelMismatch
from hgpo.runs import load
from hgpo.runs.panels import Panel, PanelSummary, same_panel
from hgpo.runs.play import make_panel

from ..conftest import ROOT
from ..worlds import FETCH

BASE = Panel("e", "s", ("a", "b"), 10, {"size": "tiny"})


@pytest.mark.parametrize(
    ("other", "part"),
    [
        (Panel("f", "s", ("a", "b"), 10, {"size": "tiny"}), "environment: e and f"),
        (Panel("e", "t", ("a", "b"), 10, {"size": "tiny"}), "split: s and t"),
        (Panel("e", "s", ("a",), 10, {"size": "tiny"}), "number of tasks: 2 and 1"),
        (Panel("e", "s", ("b", "a"), 10, {"size": "tiny"}), "which tasks, or their order"),
        (Panel("e", "s", ("a", "b"), 12, {"size": "tiny"}), "max_steps: 10 and 12"),
        (Panel("e", "s", ("a", "b"), 10, {"size": "big"}), "setting size of the environment: tiny and big"),
        (Panel("e", "s", ("a", "b"), 10), "setting size of the environment: tiny and not given"),
        (Panel("e", "s", ("a", "b"), 10, {"size": "tiny"}, 2), "version of the world: 1 and 2"),
    ],
)
def test_a_mismatch_says_which_part_differs(other: Panel, part: str) -> None:
    same_panel({"one": BASE.summary(), "two": BASE.summary()})
    with pytest.raises(PanelMismatch) as error:
        same_panel({"one": BASE.summary(), "again": BASE.summary(), "two": other.summary()})
    assert f"They differ in {part}." in str(error.value)
    assert "one (panel" in str(error.value)
    assert "two (panel" in str(error.value)


def test_a_summary_survives_json() -> None:
    stored = json.loads(json.dumps(BASE.summary().content()))
    assert PanelSummary.read(stored) == BASE.summary()


def test_the_world_version_is_part_of_the_digest_from_the_second_on() -> None:
    digests = {Panel("e", "s", ("a", "b"), 10, {"size": "tiny"}, version).digest for version in (1, 2, 3)}
    assert len(digests) == 3
    assert BASE.digest == "23ee9dfd11951ed1"


def test_recorded_digests_are_those_of_first_versions() -> None:
    """Records that were made before worlds had versions stay comparable with new results."""
    record = json.loads((ROOT / "experiments" / "alfworld" / "results.json").read_text())
    panels = [PanelSummary.read(one) for run in record["runs"] for one in run["panels"].values()]
    evaluated = [
        PanelSummary.read(one["panel"]) for run in record["runs"] for one in run["evaluations"].values()
    ]
    assert evaluated
    for panel in (*panels, *evaluated):
        assert panel.world_version == 1
        assert panel.settings is None
    two = [
        next(panel for panel in evaluated if panel.split == split) for split in ("in-domain", "out-of-domain")
    ]
    with pytest.raises(PanelMismatch, match="split: in-domain and out-of-domain"):
        same_panel(dict(zip("ab", two)))


def test_old_records_that_differ_in_what_they_do_not_say() -> None:
    one, two = PanelSummary("e", "s", 2, 10, digest="1"), PanelSummary("e", "s", 2, 10, digest="2")
    with pytest.raises(PanelMismatch, match="one record does not say"):
        same_panel({"one": one, "two": two})


def test_built_in_worlds_state_their_version() -> None:
    for name in ("household", "shop"):
        assert make(name).world_version == 1


def test_a_panel_takes_the_version_from_its_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = open_stage(load(FETCH, []))
    assert make_panel(stage, "in-domain").world_version == 1, "an environment that says nothing"
    monkeypatch.setattr(type(stage.task_source), "world_version", 4, raising=False)
    newer = make_panel(stage, "in-domain")
    assert newer.world_version == 4
    monkeypatch.setattr(type(stage.task_source), "world_version", "new", raising=False)
    with pytest.raises(BadEnv, match="world_version"):
        make_panel(stage, "in-domain")
