"""Model cards: from the run's own record, harmless whatever that holds, and never over somebody else's."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from hgpo.models import packages
from hgpo.models.card import compose, is_ours, licence_of, lineage
from hgpo.models.folder import CARD, check_model, write_model
from hgpo.runs.folder import Description, RunFolder
from hgpo.runs.folder.card import run_card, start_card
from hgpo.runs.panels import PanelSummary

HOSTILE = "x`|</td><script>alert(1)</script>\n---\nlicense: mit\n[click](javascript:alert(1))\u202e"
CONFIG = {
    "env": {"name": "cave", "settings": {"size": "tiny", "data": "/home/somebody/data"}, "split": "train"},
    "agent": {"history_length": 4, "prompt": "plain", "max_steps": 9},
    "model": {"path": "tiny", "lora_rank": 0},
    "rollout": {"tasks": 16, "group_size": 8, "temperature": 1.0},
    "estimator": {"name": "hgpo"},
    "update": {"lr": 1e-3, "loss": "ppo"},
    "eval": {"temperature": 0.4, "seed": 123},
    "warm": {"episodes": 30},
    "seed": 7,
}
ROWS = [
    {"iteration": 0, "eval/in-domain/success": 0.25},
    {"iteration": 1, "success": 0.3},
    {"iteration": 2, "eval/in-domain/success": 0.75},
    {"iteration": 3, "eval/in-domain/success": 1.0},
]


def described(**changes: object) -> Description:
    panel = PanelSummary(env="cave", split="in-domain", tasks=40, digest="0123456789abcdef")
    return Description(
        "k4", {**CONFIG, **changes}, {"name": "hgpo"}, {"in-domain": panel}, 300, "fedcba9876543210"
    )


def test_the_card_says_what_the_record_says() -> None:
    card = run_card("cave", described(), ROWS, 2)
    assert "| `in-domain` | 40 | 25.0 | 75.0 (iteration 2) | +50.0 | `0123456789abcdef` |" in card
    for said in (
        "`cave`",
        "`hgpo`",
        "2 iterations",
        "300 training tasks",
        "`30` demonstrations",
        "`size=tiny`",
    ):
        assert said in card
    assert "| `agent.history_length` | `4` |" in card
    assert "random weights" in card
    assert "somebody" not in card
    assert "license" not in card
    assert is_ours(card)


def test_a_run_that_was_not_evaluated_claims_nothing() -> None:
    assert "was not evaluated" in run_card("cave", described(), ROWS[1:2], 1)


def test_hostile_values_stay_text() -> None:
    config = {
        **CONFIG,
        "env": {"name": HOSTILE, "settings": {HOSTILE: HOSTILE}},
        "model": {"path": HOSTILE},
        "agent": {"prompt": HOSTILE, "history_length": HOSTILE},
    }
    description = Description(HOSTILE, config, {"name": HOSTILE}, {}, 1, HOSTILE)
    for card in (run_card(HOSTILE, description, ROWS, 2), start_card(HOSTILE, config, 1, 2, HOSTILE)):
        front, _, body = card.removeprefix("---\n").partition("---\n")
        assert "license" not in front
        assert "base_model" not in front
        outside = re.sub(r"`[^`\n]*`", "", re.sub(r"```.*?```", "", body, flags=re.S))
        for markup in ("<script", "javascript:", "\u202e", "\n---"):
            assert markup not in outside
        assert "\nlicense" not in body
        for row in (line for line in body.splitlines() if line.startswith("| `")):
            assert len(re.findall(r"(?<!\\)\|", row)) == 3


def test_the_licence_comes_from_the_base_and_is_handed_on(tmp_path: Path) -> None:
    base = tmp_path / "base"
    base.mkdir()
    (base / CARD).write_text(compose("base", {"": "A model."}, licence="apache-2.0"))
    assert licence_of(str(base)) == "apache-2.0"
    warm = tmp_path / "warm"
    config = {**CONFIG, "model": {"path": str(base)}}
    write_model(warm, save, config, card=start_card("warm", config, 3, 9, "expert"))
    assert licence_of(str(warm)) == "apache-2.0"
    assert lineage(str(warm)) == ["warm", "base"]
    card = run_card("cave", described(model={"path": str(warm)}), ROWS, 2)
    assert "license: apache-2.0\n" in card.partition("---\n\n")[0]
    assert "`warm` < `base`" in card
    assert str(tmp_path) not in card
    (base / CARD).write_text("---\nlicense: 'a: b\n---\n")
    assert licence_of(str(base)) == ""
    assert "was not found" in start_card("warm", config, 3, 9, "expert")


def test_a_model_of_the_hub_is_named_as_the_hub_does(monkeypatch: pytest.MonkeyPatch) -> None:
    described_with = described(model={"path": "models/warm-1.5B"})
    text = run_card("cave", described_with, ROWS, 2)  # a folder that is not here any more
    assert "base_model" not in text
    assert "`warm-1.5B`" in text
    monkeypatch.setattr("hgpo.models.card.is_cached", lambda name: name == "models/warm-1.5B")
    assert "base_model: models/warm-1.5B\n" in run_card("cave", described_with, ROWS, 2)


def save(folder: Path) -> None:
    (folder / "config.json").write_text("{}")


def test_a_card_that_somebody_edited_is_kept(tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "run")
    model = run.export(save, CONFIG, 2)
    assert is_ours((model / CARD).read_text())
    (model / "config.json").write_text("[]")
    run.export(save, CONFIG, 5)
    assert "5 iterations" in (model / CARD).read_text()
    edited = (model / CARD).read_text().replace("5 iterations", "five iterations")
    (model / CARD).write_text(edited)
    check_model(model)  # a card may be edited
    run.export(save, CONFIG, 6)
    assert (model / CARD).read_text() == edited
    (model / CARD).write_bytes(b"\xff mine")
    run.export(save, CONFIG, 7)
    assert (model / CARD).read_bytes() == b"\xff mine"
    assert json.loads((model / "hgpo.json").read_text())["iteration"] == 7


@pytest.mark.parametrize("text", ["", "mine", "mine\n", "<!-- written by hgpo, 0; kept -->\n"])
def test_other_texts_are_not_ours(text: str) -> None:
    assert not is_ours(text)


def test_a_fetched_model_says_its_licence_where_its_packages_do(tmp_path: Path) -> None:
    for name, licence in {"smollm2-135m-instruct": "apache-2.0", "qwen2.5-coder-1.5b-instruct": ""}.items():
        folder = tmp_path / name
        folder.mkdir()
        (folder / CARD).write_text(packages.card(packages.MODELS[name]))
        assert licence_of(str(folder)) == licence
        assert name in (folder / CARD).read_text()
