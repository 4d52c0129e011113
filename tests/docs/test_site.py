"""The built site in a real browser: it fits a desk and a phone, it finds words, and it loads nothing from elsewhere.

`make docs` builds it; `make test-browser` and `make test-slow` do so before these tests.
"""

from __future__ import annotations

import functools
import http.server
import os
import re
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from ..inspect.chromium import Chromium
from .pages import ROOT

pytestmark = pytest.mark.browser

SITE = ROOT / "site"
HTML = sorted(path.relative_to(SITE).as_posix() for path in SITE.rglob("*.html") if path.name != "404.html")


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves files and says nothing."""

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Where the site is served."""
    if not HTML:
        message = "needs the built site: make docs"
        if os.environ.get("HGPO_REQUIRE_CHROMIUM"):
            pytest.fail(message)
        pytest.skip(message)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(SITE)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Chromium]:
    with Chromium() as browser:
        yield browser


def visit(browser: Chromium, page: str) -> None:
    """Load a page of the site and wait until all of it is there."""
    browser.run("location.href = arguments[0]", page)
    browser.wait("return location.href === arguments[0] && document.readyState === 'complete'", page)


# What is wider than the window and does not stand in a box that scrolls.
OVERFLOWING = """
    const scrolls = one => !one.matches('.md-content')
        && (/auto|scroll/.test(getComputedStyle(one).overflowX) || scrolls(one.parentElement));
    return [...document.querySelectorAll('.md-content *')]
        .filter(one => one.getBoundingClientRect().right > innerWidth + 1 && !scrolls(one.parentElement))
        .map(one => `${one.tagName}: ${one.textContent.trim().slice(0, 60)}`);
"""


@pytest.mark.parametrize("width", [1280, 390])
def test_pages_fit_the_window(browser: Chromium, address: str, width: int) -> None:
    browser.resize(width, 900)
    wrong = {}
    for page in HTML:
        visit(browser, f"{address}/{page}")
        wide = browser.run("return document.documentElement.scrollWidth")
        found = browser.run(OVERFLOWING)
        if found or wide > width:
            wrong[page] = [wide, *found]
    browser.resize(None, None)
    assert wrong == {}


def test_formulas_are_set(browser: Chromium, address: str) -> None:
    visit(browser, f"{address}/hgpo.html")
    assert browser.run("return document.querySelectorAll('math').length") >= 10
    assert browser.run("return document.querySelector('.formula math').getBoundingClientRect().height") > 15
    assert "$" not in browser.text("article")
    visit(browser, f"{address}/hgpo-lambda.html")
    assert browser.run("return document.querySelectorAll('.formula math').length") >= 8


def test_search_finds_a_setting(browser: Chromium, address: str) -> None:
    visit(browser, f"{address}/index.html")
    browser.click(".md-search__input")
    browser.write(".md-search__input", "length_weight_alpha")
    found = browser.wait(
        "return [...document.querySelectorAll('.md-search-result__link')].map(one => one.href)"
    )
    assert any("reference/settings.html" in link for link in found)


def test_light_and_dark(browser: Chromium, address: str) -> None:
    visit(browser, f"{address}/index.html")
    colour = "return getComputedStyle(document.body).backgroundColor"
    light = browser.run(colour)
    browser.click("label[for=__palette_1]")
    assert browser.wait(f"{colour} !== arguments[0]", light)
    browser.click("label[for=__palette_0]")


def test_nothing_is_loaded_from_elsewhere(browser: Chromium, address: str) -> None:
    for page in HTML:
        text = (SITE / page).read_text(encoding="utf-8")
        outside = re.findall(
            r"<(?:script|link|img|iframe|source)\b[^>]*(?:src|href)=\"?https?://[^\"> ]*", text
        )
        assert [tag for tag in outside if 'rel="canonical"' not in tag] == [], page
    for page in ("index.html", "hgpo.html", "reference/python.html"):
        visit(browser, f"{address}/{page}")
        loaded = browser.run("return performance.getEntriesByType('resource').map(one => one.name)")
        assert loaded
        assert [name for name in loaded if not name.startswith((address, "data:", "blob:"))] == []
    assert [line for line in browser.console() if line.startswith("SEVERE")] == []


def test_every_page_of_docs_is_built() -> None:
    if not HTML:
        pytest.skip("needs the built site: make docs")
    pages = {
        path.relative_to(ROOT / "docs").with_suffix(".html").as_posix()
        for path in Path(ROOT / "docs").rglob("*.md")
    }
    assert pages <= set(HTML)
