"""The command that adds an extra: the package comes from where it came from, since no index has it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hgpo.install import extra_command

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    *ROOT.glob("*.md"),
    *(ROOT / "docs").rglob("*.md"),
    *(ROOT / "docs").rglob("*.ipynb"),
    *(ROOT / "src").rglob("*.py"),
    *(ROOT / "src").rglob("*.toml"),
]


def test_a_checkout_and_a_wheel_are_installed_again_from_their_path(tmp_path: Path) -> None:
    place = tmp_path / "my code"
    place.mkdir()
    url = place.as_uri()
    assert extra_command({"url": url, "dir_info": {}}, "train") == f"pip install '{place}[train]'"
    editable = {"url": url, "dir_info": {"editable": True}}
    assert extra_command(editable, "train") == f"pip install -e '{place}[train]'"
    wheel = tmp_path / "hgpo.whl"
    wheel.touch()
    assert (
        extra_command({"url": wheel.as_uri(), "archive_info": {}}, "data") == f"pip install '{wheel}[data]'"
    )


def test_an_address_is_named_with_its_commit() -> None:
    archive = {"url": "https://example.org/hgpo.whl", "archive_info": {}}
    assert extra_command(archive, "trl") == "pip install 'hgpo[trl] @ https://example.org/hgpo.whl'"


@pytest.mark.parametrize("origin", [{}, {"url": None}, {"url": 7}, {"url": "file:///no/such/place"}])
def test_without_a_known_origin_it_is_a_checkout(origin: dict[str, object]) -> None:
    assert extra_command(origin, "train") == "pip install '.[train]' in a checkout of hgpo"


def test_nothing_promises_an_index_that_does_not_have_us() -> None:
    """`pip install hgpo`, with an extra or without, would fetch somebody else's package, or nothing."""
    promise = re.compile(
        r"pip (?:install|download)(?: -\S+)* ['\"]?hgpo(?:\[[\w,]*\])?(?:['\"`\s),.=<>~]|$)(?!@)"
    )
    assert promise.search("pip install -U hgpo")
    assert promise.search("run pip install 'hgpo[train]' now")
    assert not promise.search("pip install 'hgpo[train] @ git+https://example.org'")
    found = [
        f"{page.relative_to(ROOT)}: {match[0]}"
        for page in PAGES
        for match in promise.finditer(page.read_text(encoding="utf-8"))
    ]
    assert found == []
