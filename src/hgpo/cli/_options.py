"""What several verbs share: a preset with settings, the column map, the settings of the estimators."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from ..envs.registry import is_address
from ..errors import BadSetting
from ..estimators.table import ESTIMATORS
from ..settings import Setting, settings_of

T = TypeVar("T", int, float)


def add_words(parser: argparse.ArgumentParser, default: str = "") -> None:
    """Declare `PRESET key=value ...`."""
    shown = f"a preset (default: {default}) or an environment (FILE.py:Class), then settings"
    parser.add_argument("words", nargs="*", metavar="PRESET|ENV|key=value", help=shown)


def split_preset(words: Sequence[str]) -> tuple[str | None, list[str]]:
    """The preset, None where none is named, and the settings; an environment may stand for a preset or after it."""
    if words and "=" not in words[0]:
        return words[0], named_envs(words[1:])
    return None, named_envs(words)


def named_envs(words: Sequence[str]) -> list[str]:
    """Settings in which an environment may stand alone by its address: `FILE.py:Class` means `env=FILE.py:Class`."""
    return [word if "=" in word or not is_address(word) else f"env={word}" for word in words]


def add_allow_env(parser: argparse.ArgumentParser) -> None:
    """Declare `--allow-env`."""
    parser.add_argument(
        "--allow-env",
        action="append",
        default=[],
        metavar="MODULE:CLASS",
        help="an environment outside this package that the folder may name; it is code that will run",
    )


def path_word(text: str) -> str:
    """The `type` of an option that names a file or folder: an empty word (an unset variable, say) names none."""
    if not text:
        raise argparse.ArgumentTypeError("it is empty; expected a path")
    return text


def number(kind: type[T], low: float = 0, high: float | None = None) -> Callable[[str], T]:
    """The `type` of an option that is a number: read and checked as a setting is."""
    one = Setting("", kind, low=low, high=high)

    def read(text: str) -> T:
        try:
            value: T = one.check(one.parse(text), "")
        except BadSetting:
            raise argparse.ArgumentTypeError(f"{text!r} was given; expected {one.expected()}") from None
        return value

    return read


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
    mapped = {theirs.strip(): ours.strip() for theirs, _, ours in pairs}
    if len(mapped) < len(pairs):
        raise BadSetting(f"--columns {text!r} names a column twice; expected each once.")
    return mapped


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
    """Sentence and estimators of every setting that some estimator has."""
    known: dict[str, tuple[str, list[str]]] = {}
    for estimator, entry in ESTIMATORS.items():
        for name, one in settings_of(entry.settings).items():
            known.setdefault(name, (one.sentence, []))[1].append(estimator)
    return known


def given_settings(args: argparse.Namespace) -> dict[str, str]:
    """The settings that were given on the command line, as text."""
    return {n[4:]: v for n, v in vars(args).items() if n.startswith("set_") and v is not None}


def parsed_settings(estimator: str, given: dict[str, str]) -> dict[str, Any]:
    """The given settings, parsed by the estimator's field types."""
    known = settings_of(ESTIMATORS[estimator].settings) if estimator in ESTIMATORS else {}
    return {name: known[name].parse(text) if name in known else text for name, text in given.items()}
