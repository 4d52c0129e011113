"""Our docstrings as griffe, which reads them for the reference, wants them."""

from __future__ import annotations

import re
from typing import Any

import griffe

_EXAMPLE = re.compile(r"^>>> .*(?:\n.+)*", flags=re.MULTILINE)
_SHARED = re.compile(r"^    (?P<names>\w+(?:, \w+)+): (?P<text>.*(?:\n     .*)*)", flags=re.MULTILINE)


class Docstrings(griffe.Extension):
    """Rewrites each docstring before it is parsed.

    Examples (`>>> ...`) get a fence, for Markdown would take them for quotations. A line that explains several
    parameters (`low, high: the least and the largest.`) becomes one line each.
    """

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Called by griffe for every module, class, function and attribute it has read."""
        if obj.docstring is not None:
            text = _EXAMPLE.sub(r"```pycon\n\g<0>\n```", obj.docstring.value)
            obj.docstring.value = _SHARED.sub(_apart, text)


def _apart(found: re.Match[str]) -> str:
    return "\n".join(f"    {name}: {found['text']}" for name in found["names"].split(", "))
