"""Formulas: from TeX, as GitHub also reads it, to MathML, at build time."""

from __future__ import annotations

import html
import re
import xml.etree.ElementTree

from latex2mathml.converter import convert

_MARKED = re.compile(
    r'<(?P<tag>span|div) class="arithmatex">\\[(\[](?P<tex>.*?)\\[)\]]</(?P=tag)>', flags=re.DOTALL
)


def set_formulas(page: str) -> str:
    """The page with each formula that Markdown found as MathML."""
    return _MARKED.sub(lambda found: mathml(html.unescape(found["tex"]), block=found["tag"] == "div"), page)


def mathml(tex: str, *, block: bool) -> str:
    """One formula.

    Raises:
        ValueError: the TeX was not understood.
    """
    made = convert(tex.strip(), display="block" if block else "inline")
    try:
        tree = xml.etree.ElementTree.fromstring(made)
    except xml.etree.ElementTree.ParseError as error:
        raise ValueError(f"The formula {tex.strip()!r} cannot be set: {error}.") from error
    unknown = [text for text in tree.itertext() if "\\" in text]
    if unknown:
        raise ValueError(
            f"The formula {tex.strip()!r} has commands that cannot be set: {', '.join(unknown)}."
        )
    return f'<div class="formula">{made}</div>' if block else made
