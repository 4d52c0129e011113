"""`key=value` words: how values are written on every command line.

8   1e-6   true   none   text   "text with spaces"   a,b   [a, b]   {"x": 1}
"""

from __future__ import annotations

import collections.abc
import json
import re
import types
from typing import Any, Literal, Union, get_args, get_origin

from .errors import BadSetting

LISTS = (list, tuple, collections.abc.Iterable, collections.abc.Sequence)
"""The types that are written as several values."""
_NUMBER = re.compile(r"[+-]?(\d[\d_]*\.?[\d_]*|\.\d[\d_]*)([eE][+-]?\d+)?")


def split_word(word: str) -> tuple[str, str]:
    """The two sides of a `key=value` word.

    >>> split_word("name=a=b")
    ('name', 'a=b')
    """
    key, equals, text = word.partition("=")
    if not equals or not key.strip():
        raise BadSetting(f"{word!r} is not a setting; expected key=value, for example group_size=8.")
    return key.strip(), text.strip()


def parse_value(text: str) -> Any:
    """The value that `text` looks like, where no type says what it has to be.

    >>> [parse_value(text) for text in ("8", "1e-6", "true", "none", "tiny", '"8"', "[a, 2]", "a,b")]
    [8, 1e-06, True, None, 'tiny', '8', ['a', 2], 'a,b']
    """
    text = text.strip()
    lowered = text.lower()
    if lowered in ("true", "false", "none", "null"):
        return {"true": True, "false": False}.get(lowered)
    if _NUMBER.fullmatch(text):
        try:
            return float(text) if set("eE.") & set(text) else int(text)
        except ValueError:  # more digits than Python reads
            return text
    if text[:1] in ("{", "["):
        try:
            return json.loads(text)
        except ValueError:
            pass
        except RecursionError:  # nested beyond all sense
            return text
    if text[:1] == "[" and text[-1:] == "]":
        return [parse_value(item) for item in _items(text)]
    return unquoted(text)


def parse_as(text: str, options: tuple[Any, ...]) -> Any:
    """The value that `text` says where it may be one of some types; text that fits none is returned as it looks."""
    text = text.strip()
    lowered = text.lower()
    if type(None) in options and lowered in ("none", "null"):
        return None
    for option in options:
        if option is bool and lowered in ("true", "false", "yes", "no", "1", "0"):
            return lowered in ("true", "yes", "1")
        if option in (int, float):
            try:
                return option(text)
            except ValueError:
                continue
        if get_origin(option) in LISTS:
            inner = options_of(get_args(option)[0])
            return tuple(parse_as(item, inner) for item in _items(text))
    if any(option is str or get_origin(option) is Literal for option in options):
        return unquoted(text)
    return parse_value(text)


def _items(text: str) -> list[str]:
    """`a, "b,c"` or `[a, "b,c"]` in parts."""
    inner = text[1:-1] if text[:1] == "[" and text[-1:] == "]" else text
    return [part.strip() for part in re.findall(r"""(?:"[^"]*"|'[^']*'|[^,])+""", inner) if part.strip()]


def unquoted(text: str) -> str:
    """`text` without the quotes around it."""
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'" else text


def options_of(kind: Any) -> tuple[Any, ...]:
    """The types that a type stands for: those of a union, else itself."""
    return get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)
