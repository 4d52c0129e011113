"""Putting the page together: template, style, script, numbers and the packed steps.

All text of the rollouts travels as data: JSON in which every `<` is written \\u003c, or base64. The script puts it
on the page as text nodes only, and the page's content policy allows no other script and no connection.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import Iterator
from importlib import resources
from typing import Any

from ...files import atomic_path
from ..report import Report
from .chunks import BUDGET, Packed, pack

SCRIPTS = (
    "text.js",
    "data.js",
    "charts.js",
    "report.js",
    "graph.js",
    "lanes.js",
    "step.js",
    "browser.js",
    "main.js",
)


def write_page(report: Report, path: str | os.PathLike[str], budget: int = BUDGET) -> None:
    """Write the page, atomically."""
    with atomic_path(path) as temporary, open(temporary, "w", encoding="utf-8", newline="\n") as stream:
        for part in render(report, budget):
            stream.write(part)


def render(report: Report, budget: int = BUDGET) -> Iterator[str]:
    """The page in pieces; `budget` is the number of bytes the packed steps may take."""
    packed = pack(report.shown, budget)
    style, script = _style_and_script()
    head, data, tail = (
        asset("page.html").split("<!-- data -->")[0],
        _data(report, packed),
        "</body>\n</html>\n",
    )
    yield head.replace("{{policy}}", policy()).replace("{{style}}", style)
    yield from data
    yield f"<script>{script}</script>\n{tail}"


def policy() -> str:
    """The content policy of the page: its own script and style, nothing else, and no connection."""
    style, script = _style_and_script()
    return (
        f"default-src 'none'; script-src '{_digest(script)}'; style-src '{_digest(style)}'; base-uri 'none'; "
        "form-action 'none'"
    )


def _style_and_script() -> tuple[str, str]:
    return asset("page.css"), "\n".join(asset(name) for name in SCRIPTS)


def _data(report: Report, packed: Packed) -> Iterator[str]:
    content: dict[str, Any] = {**report.content, "browser": packed.index}
    yield f'<script type="application/json" id="report">{escaped(content)}</script>\n'
    for number, chunk in enumerate(packed.chunks):
        yield f'<script type="text/plain" id="chunk-{number}">{base64.b64encode(chunk).decode("ascii")}</script>\n'


def escaped(content: Any) -> str:
    """JSON that cannot end or change the element it stands in: pure ASCII without `<`, `>` and `&`."""
    text = json.dumps(content, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def asset(name: str) -> str:
    """A file of this folder."""
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")
