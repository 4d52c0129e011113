"""The reference, made from the code: settings, presets, commands, metrics. Needs what `import hgpo` needs, and no more.

python docs/theme/reference.py settings      # prints one part as Markdown
"""

from __future__ import annotations

import argparse
import functools
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from hgpo.cli import build_parser
from hgpo.config import as_dict, load, preset_description, preset_names
from hgpo.config.describe import show
from hgpo.config.schema import Config
from hgpo.config.tree import OPEN, SHORT_NAMES, section
from hgpo.envs.registry import BUILT_IN, described, settings_of_env
from hgpo.estimators.table import ESTIMATORS
from hgpo.runs.glossary import GROUPS
from hgpo.settings import Setting, settings_of

WIDTH = 82
"""Columns of the help texts."""


def settings() -> str:
    """Every setting of a run by section, then those of each estimator and environment."""
    known = settings_of(Config)
    general = [one for name, one in known.items() if section(name) is None]
    lines = ["## The run", "", *_table((one.name, one) for one in general)]
    for name, one in known.items():
        if section(name) is None:
            continue
        own = settings_of(section(name)).values()
        lines += ["", f"## `{name}`", "", one.sentence, ""]
        lines += _table((f"{name}.{inner.name}", inner) for inner in own if not _holds_others(name, inner))
    lines += ["", "## Settings of each estimator", "", "Given as `estimator.NAME=VALUE`."]
    for name, estimator in ESTIMATORS.items():
        lines += ["", f"### `estimator={name}`", ""]
        own = settings_of(estimator.settings).items()
        lines += _table((f"estimator.{key}", one, f"estimator={name}/{key}") for key, one in own)
    lines += ["", "## Settings of each environment", "", "Given as `env.NAME=VALUE`."]
    sentences = dict(described())
    for name in BUILT_IN:
        lines += ["", f"### `env={name}`", "", sentences[name], ""]
        own_env = (settings_of_env(name) or {}).items()
        lines += _table((f"env.{key}", one, f"env={name}/{key}") for key, one in own_env)
    lines += [
        "",
        "## Short names",
        "",
        "These work without their section; most are those of the published scripts.",
        "",
    ]
    lines += ["| short | setting |", "| --- | --- |"]
    lines += [f"| `{short}` | `{whole}` |" for short, whole in SHORT_NAMES.items()]
    return "\n".join(lines)


def presets() -> str:
    """What every preset sets, where it differs from the defaults."""
    lines: list[str] = []
    defaults = _flat(as_dict(Config()))
    for name in preset_names():
        values = _flat(as_dict(load(name)))
        lines += [
            "",
            f"## `{name}`",
            "",
            preset_description(name),
            "",
            "| setting | value | default |",
            "| --- | --- | --- |",
        ]
        for key, value in values.items():
            if defaults.get(key) != value:
                default = _code(defaults[key]) if key in defaults else ""
                lines.append(f"| `{key}` | {_code(value)} | {default} |")
    return "\n".join(lines)


def commands() -> str:
    """The help of every verb, and of the verbs below it."""
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = str(WIDTH)  # argparse asks for the terminal's width
    try:
        return "\n".join(_helped(build_parser(), 2))
    finally:
        if before is None:
            del os.environ["COLUMNS"]
        else:
            os.environ["COLUMNS"] = before


def metrics(group: str) -> str:
    """The metrics of one group of the glossary; docs/metrics.md holds these tables, and a test compares them."""
    lines = ["| name | meaning |", "| --- | --- |"]
    for one in GROUPS[group]:
        meaning = one.meaning.replace("|", "\\|")
        lines.append(f"| `{one.name}` | {meaning} |")
    return "\n".join(lines)


PARTS: Mapping[str, Callable[[], str]] = {
    "settings": settings,
    "presets": presets,
    "commands": commands,
    **{f"{group}_metrics": functools.partial(metrics, group) for group in GROUPS},
}


def _holds_others(place: str, one: Setting) -> bool:
    """Whether a field holds the settings of the estimator or environment that is chosen."""
    return place in OPEN and one.name == "settings"


def _table(rows: Iterable[tuple[str, Setting] | tuple[str, Setting, str]]) -> list[str]:
    """Settings by name: default, what it may be, meaning. The last of a row is its anchor, if not its name."""
    lines = ["| setting | default | meaning |", "| --- | --- | --- |"]
    for name, one, *anchor in rows:
        expected = one.expected() if one.kind is not Any else ""
        follows = f"follows `{one.follows}`" if one.follows else ""
        about = "; ".join(part for part in (_text(expected), follows) if part)
        meaning = f"{_text(one.sentence)} <span class='may'>{about}</span>" if about else _text(one.sentence)
        lines.append(f"| <a id='{(anchor or [name])[0]}'></a>`{name}` | {_code(one.default)} | {meaning} |")
    return lines


def _flat(tree: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """A nested dict with dotted names, as settings are written."""
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, above if key == "settings" else f"{above}{key}.")
        else:
            flat[f"{above}{key}"] = value
    return flat


def _code(value: Any) -> str:
    """A value as it is written on the command line, for a table's cell."""
    return f"`{show(value)}`".replace("|", "\\|")


def _text(sentence: str) -> str:
    """A sentence for a table's cell, with what looks like HTML as text."""
    parts = sentence.replace("|", "\\|").split("`")
    return "`".join(
        part if place % 2 else part.replace("<", "&lt;").replace(">", "&gt;").replace("*", "\\*")
        for place, part in enumerate(parts)
    )


def _helped(parser: argparse.ArgumentParser, level: int) -> Iterator[str]:
    yield from ("", f"{'#' * level} `{parser.prog}`", "", "```text", parser.format_help().rstrip(), "```")
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for child in action.choices.values():
                yield from _helped(child, min(level + (parser.prog != "hgpo"), 4))


if __name__ == "__main__":
    print(PARTS[sys.argv[1]]())
