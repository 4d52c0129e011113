"""The command line as people type it."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from hgpo.cli import build_parser, main, take_settings


def test_settings_may_stand_after_options() -> None:
    args, rest = build_parser().parse_known_args(
        ["eval", "runs/x", "--split", "test", "seed=1", "env.data=a b"]
    )
    assert take_settings(args, rest)
    assert args.settings == ["seed=1", "env.data=a b"]
    assert args.split == "test"


def test_other_words_stay_errors() -> None:
    assert not take_settings(argparse.Namespace(settings=[]), ["--splt=test"])
    assert not take_settings(argparse.Namespace(settings=[]), ["word"])
    assert not take_settings(argparse.Namespace(), ["seed=1"])


@pytest.mark.parametrize("value", ["nan", "inf", "-1", "1e300", "x", str(2**63), ""])
@pytest.mark.parametrize(
    "words",
    [
        ["eval", "expert", "--tasks"],
        ["eval", "expert", "--temperature"],
        ["eval", "expert", "--seeds"],
        ["train", "quickstart", "--max-minutes"],
        ["play", "household", "--policy", "expert", "--seed"],
        ["play", "household", "--policy", "expert", "--steps"],
        ["lab", "--quick", "--seeds"],
        ["lab", "--quick", "--first-seed"],
        ["lab", "--quick", "--processes"],
        ["verl", "dry-run", "quickstart", "--run", "never", "--steps"],
        ["verl", "dry-run", "quickstart", "--run", "never", "--processes"],
        *(
            ["verl", "launch", "quickstart", "--print", f"--{name}"]
            for name in (
                "nodes",
                "gpus",
                "tensor-parallel",
                "gpu-memory",
                "workers",
                "rollout-nodes",
                "rollout-gpus",
            )
        ),
    ],
    ids=" ".join,
)
def test_options_that_are_numbers_refuse_what_is_none(
    words: list[str],
    value: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    try:
        status = main([*words[:-1], f"{words[-1]}={value}"])
    except SystemExit as left:
        status = left.code  # type: ignore[assignment]
    assert status == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert words[-1].strip("-") in said
    assert not list(tmp_path.iterdir())
