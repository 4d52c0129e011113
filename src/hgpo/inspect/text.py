"""Rollout text is untrusted: make it safe to print and short enough to read."""

from __future__ import annotations

import hashlib
import unicodedata
from typing import Any


def as_text(value: Any) -> str:
    """Any recorded value as text."""
    return value if isinstance(value, str) else "" if value is None else str(value)


def named(value: Any, limit: int = 300) -> str:
    """A name as text; a very long one is cut and told apart by a digest.

    >>> named("x" * 1000, 5)
    'xxxxx... (1000 characters, 44f83544)'
    """
    text = as_text(value)
    if len(text) <= limit:
        return text
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{text[:limit]}... ({len(text)} characters, {digest})"


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
