"""Rollout text is untrusted: make it safe to print and short enough to read."""

from __future__ import annotations

import unicodedata
from typing import Any


def as_text(value: Any) -> str:
    """Any recorded value as text."""
    return value if isinstance(value, str) else "" if value is None else str(value)


def printable(value: Any, limit: int = 60) -> str:
    """One line without control characters, direction marks or terminal escapes, at most `limit` long.

    >>> printable("a\\x1b[31mred\\u202e\\nb")
    'a\\\\x1b[31mred\\\\u202e b'
    """
    text = " ".join(as_text(value)[: 4 * limit].split())
    shown = "".join(_visible(character) for character in text)
    return shown if len(shown) <= limit else shown[: limit - 3] + "..."


def _visible(character: str) -> str:
    if unicodedata.category(character)[0] != "C" and character not in "\u2028\u2029":
        return character
    code = ord(character)
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}" if code < 65536 else f"\\U{code:08x}"
