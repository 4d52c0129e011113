"""Formulas read the same on GitHub and on the site."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from .pages import PAGES, name, prose

BLOCK = re.compile(r"^\$\$(.+)\$\$$", flags=re.MULTILINE)
INLINE = re.compile(r"(?<![\w$\\])\$(?! )([^$\n]+?)(?<! )\$(?![\d$])")


def formulas(page: Path) -> list[str]:
    """The TeX of a page."""
    text = re.sub(r"`[^`\n]*`", "", prose(page))
    return BLOCK.findall(text) + INLINE.findall(BLOCK.sub("", text))


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_formulas_are_plain_enough_for_github(page: Path) -> None:
    """GitHub takes a backslash before punctuation for Markdown's own, also within a formula."""
    assert [tex for tex in formulas(page) if re.search(r"\\[^A-Za-z]", tex)] == []


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_dollar_belongs_to_a_formula(page: Path) -> None:
    text = re.sub(r"`[^`\n]*`", "", prose(page))
    assert "$" not in INLINE.sub("", BLOCK.sub("", text))


def test_pages_on_the_method_have_formulas() -> None:
    found = {page.name: len(formulas(page)) for page in PAGES}
    assert found["hgpo.md"] >= 10
    assert found["hgpo-lambda.md"] >= 40
    assert found["estimators.md"] >= 15
