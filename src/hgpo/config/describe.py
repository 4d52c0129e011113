"""All settings of a config in print: value, what it may be, default, and its sentence."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

from ..settings import Setting, settings_of
from .load import own_settings
from .schema import Config, estimator_settings
from .tree import OPEN, section

WIDTH = 100


def describe_settings(config: Config, title: str = "") -> str:
    """Every setting by section, those of the chosen estimator and environment included.

    One that is not at its default is marked with a star; the default is then said beside it.
    """
    lines = textwrap.wrap(title, WIDTH)
    lines += ["* marks values that differ from the default. Change any with key=value.", ""]
    known = settings_of(Config)
    general = [one for name, one in known.items() if section(name) is None]
    lines += ["the run", ""]
    for one in general:
        lines += _entry(one.name, one, getattr(config, one.name))
    for name in known:
        if section(name) is not None:
            lines += ["", f"{name}: {known[name].sentence}", ""]
            lines += _section(config, name)
    return "\n".join(lines)


def _section(config: Config, name: str) -> Iterator[str]:
    values = getattr(config, name)
    for one in settings_of(type(values)).values():
        if name in OPEN and one.name == "settings":
            continue
        yield from _entry(f"{name}.{one.name}", one, getattr(values, one.name))
    if name not in OPEN:
        return
    given: Mapping[str, Any] = estimator_settings(config) if name == "estimator" else values.settings
    own = own_settings(name, values.name)
    if own is None:
        own = {key: Setting(key, Any) for key in given}
    yield from ("", f"  settings of {values.name}:", "")
    for key, one in own.items():
        if key in settings_of(type(values)):
            continue  # said above: the run's own setting of that name
        note = f"follows {one.follows}" if one.follows and key not in values.settings else ""
        yield from _entry(f"{name}.{key}", one, given.get(key, one.default), note)


def _entry(key: str, one: Setting, value: Any, note: str = "") -> Iterator[str]:
    """One setting: `* key = value    what it may be; default`, then its sentence."""
    differs = value != one.default and not note
    about = [one.expected() if one.kind is not Any else "", note]
    if differs:
        about.append(f"default {show(one.default)}")
    head = f"{'*' if differs else ' '} {key} = {show(value)}"
    facts = "; ".join(part for part in about if part)
    if len(head) + len(facts) + 4 <= WIDTH and len(head) < 52:
        yield f"{head:<52}{facts}".rstrip() if len(facts) + 52 <= WIDTH else f"{head}  {facts}"
    else:
        yield from textwrap.wrap(head, WIDTH, subsequent_indent=" " * 8, break_long_words=False)
        if facts:
            yield from textwrap.wrap(facts, WIDTH, initial_indent=" " * 8, subsequent_indent=" " * 8)
    if one.sentence:
        yield from textwrap.wrap(one.sentence, WIDTH, initial_indent=" " * 6, subsequent_indent=" " * 6)


def show(value: Any) -> str:
    """A value as it is written on the command line."""
    if value is None or isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(show(item) for item in value) + "]"
    if isinstance(value, Mapping):
        return json.dumps(value)
    return '""' if value == "" else f"{value:g}" if isinstance(value, float) else str(value)
