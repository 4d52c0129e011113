"""`hgpo train PRESET --settings`: every setting, explained."""

from __future__ import annotations

import subprocess
import sys

import pytest

from hgpo.cli import main
from hgpo.config import Config, describe_settings, load, preset_names
from hgpo.estimators.table import ESTIMATORS
from hgpo.settings import settings_of
from hgpo.verl.translation import fields


@pytest.mark.parametrize("name", preset_names())
def test_every_setting_is_printed_with_its_sentence(name: str) -> None:
    config = load(name)
    text = describe_settings(config, name)
    assert all(len(line) <= 100 for line in text.splitlines())
    flat = " ".join(text.split())
    own = {
        f"estimator.{key}": one
        for key, one in settings_of(ESTIMATORS[config.estimator.name].settings).items()
    }
    for key in [*fields(), *own]:
        if key not in ("env.settings", "estimator.settings"):
            assert f" {key} = " in flat, key
    for one in own.values():
        if one.name != "invalid_penalty":
            assert one.sentence in flat


def test_values_defaults_and_bounds(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "quickstart", "update.lr=0.5", "env.size=small", "--settings"]) == 0
    flat = " ".join(capsys.readouterr().out.split())
    assert "* update.lr = 0.5 a number from 0 to 1; default 1e-06 Learning rate of AdamW." in flat
    assert "* estimator.name = hgpo_lambda one of 'hgpo', 'hgpo_lambda'" in flat
    assert "estimator.depth = 2 a whole number from 0 to 1000; follows history_length" in flat
    assert "env.size = small text" in flat
    assert "update.grad_clip = 1 a number from 1e-06 Largest gradient norm." in flat
    assert main(["train", "--settings"]) == 0
    plain = capsys.readouterr().out
    assert "*" not in plain.replace("* marks", "")
    assert plain.startswith("The defaults")
    assert describe_settings(Config()) in plain


def test_presets_are_listed_with_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == preset_names()
    assert all(line.endswith(".") for line in lines)


def test_no_torch_is_needed_to_explain() -> None:
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "from hgpo.cli import main\nmain(['train', 'shop', '--settings'])\nmain(['train', '--list'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "rollout.group_size" in done.stdout
