"""Options that several verbs share: the column map and the settings of the estimators."""

from __future__ import annotations

import argparse
from typing import Any

from ..errors import BadSetting
from ..estimators.table import ESTIMATORS
from ..settings import descriptions, parse, type_hints


def add_columns(parser: argparse.ArgumentParser) -> None:
    """Declare `--columns`."""
    parser.add_argument(
        "--columns", metavar="THEIRS=OURS,...", help="names of the file's columns where they differ from ours"
    )


def column_map(text: str | None) -> dict[str, str]:
    """`theirs=ours,...` as a dict."""
    pairs = [pair.partition("=") for pair in (text or "").split(",") if pair]
    if not all(theirs.strip() and equals and ours.strip() for theirs, equals, ours in pairs):
        raise BadSetting(f"--columns {text!r} was given; expected pairs such as obs=observation,uid=task.")
    return {theirs.strip(): ours.strip() for theirs, _, ours in pairs}


def add_settings(parser: argparse.ArgumentParser) -> None:
    """Declare an option for every setting of every estimator."""
    group = parser.add_argument_group("settings of the estimator")
    for name, (text, owners) in _settings().items():
        flags = [f"--{name.replace('_', '-')}"] + ([f"--{name}"] if "_" in name else [])
        group.add_argument(
            *flags,
            dest=f"set_{name}",
            metavar="VALUE",
            help=f"{text} ({', '.join(owners)})".replace("%", "%%"),
        )


def _settings() -> dict[str, tuple[str, list[str]]]:
    found: dict[str, tuple[str, list[str]]] = {}
    for estimator, entry in ESTIMATORS.items():
        for name, text in descriptions(entry.settings).items():
            found.setdefault(name, (text, []))[1].append(estimator)
    return found


def given_settings(args: argparse.Namespace) -> dict[str, str]:
    """The settings that were given on the command line, as text."""
    return {n[4:]: v for n, v in vars(args).items() if n.startswith("set_") and v is not None}


def parsed_settings(estimator: str, given: dict[str, str]) -> dict[str, Any]:
    """The given settings, parsed by the estimator's field types."""
    entry = ESTIMATORS.get(estimator)
    hints = type_hints(entry.settings) if entry else {}
    return {name: parse(value, hints.get(name, str)) for name, value in given.items()}
