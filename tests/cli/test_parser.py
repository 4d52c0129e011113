"""The command line as people type it."""

from __future__ import annotations

import argparse

from hgpo.cli import build_parser, take_settings


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
