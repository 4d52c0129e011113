"""Every link leads to a file that is there, and every anchor to a heading."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from .pages import PAGES, ROOT, anchors, links, name


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_and_anchors_lead_somewhere(page: Path) -> None:
    assert broken(page) == []


def broken(page: Path) -> list[str]:
    """What is wrong with the links of a page."""
    wrong = []
    for path, anchor in links(page):
        if re.match(r"[a-z]+:", path):
            continue
        target = (page.parent / path).resolve() if path else page
        if not target.exists():
            wrong.append(f"{path} is not there")
        elif anchor and target.suffix == ".md" and anchor not in anchors(target):
            wrong.append(f"{path}#{anchor}: no such heading")
    return wrong


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("[a](there.md) and [b](there.md#the-end) and ![c](there.md) and [d](#top)", 0),
        ("[a](nowhere.md)", 1),
        ("![a](nowhere.png)", 1),
        ("[a](there.md#the-beginning)", 1),
        ("[a](#bottom)", 1),
        ('<img src="nowhere.png">', 1),
        ("```\n[a](nowhere.md)\n```", 0),
        ("`[a](nowhere.md)`", 0),
        ("[a](https://nowhere.example/#x)", 0),
    ],
)
def test_the_check_sees_what_is_broken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, wrong: int
) -> None:
    monkeypatch.setattr("tests.docs.pages.ROOT", tmp_path)
    (tmp_path / "there.md").write_text("# There\n\n## The end\n")
    (tmp_path / "page.md").write_text(f"# Top\n\n{text}\n")
    assert len(broken(tmp_path / "page.md")) == wrong


def test_every_page_is_in_the_menu() -> None:
    menu = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
    listed = re.findall(r": ([\w/-]+\.md)$", menu, flags=re.MULTILINE)
    assert sorted(listed) == sorted(
        path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")
    )
