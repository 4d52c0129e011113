"""Links from a page to files of the repository outside docs/: they work on GitHub, and here as pages of their own."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

LINK = re.compile(r"(?<=\]\()(?P<target>[^)#\s]+)(?=(?:#[^)\s]*)?\))")
FOLDER = "code"
"""The folder of the site in which those pages are."""
LANGUAGES = {".py": "python", ".toml": "toml", ".json": "json", ".yml": "yaml", ".cff": "yaml"}


def linked_files(root: Path) -> list[str]:
    """The files outside docs/ that pages link to, and those that these link to; paths from the root."""
    waiting = [path.relative_to(root).as_posix() for path in sorted((root / "docs").rglob("*.md"))]
    found: set[str] = set()
    while waiting:
        page = waiting.pop()
        for match in LINK.finditer((root / page).read_text(encoding="utf-8")):
            path = leads_to(match["target"], page)
            if path and not path.startswith("docs/") and path not in found and (root / path).is_file():
                found.add(path)
                waiting += [path] * path.endswith(".md")
    return sorted(found)


def leads_to(target: str, page: str) -> str:
    """Where a link of `page` leads, both from the root of the repository; empty where it leads elsewhere."""
    if re.match(r"[a-z]+:", target):
        return ""
    path = posixpath.normpath(posixpath.join(posixpath.dirname(page), target))
    return "" if path.startswith("..") else path


def page_of(path: str) -> str:
    """The page of a file outside docs/, from docs/."""
    return f"{FOLDER}/{path}" if path.endswith(".md") else f"{FOLDER}/{path}.md"


def as_page(root: Path, path: str) -> str:
    """A file as a page: Markdown as it is, code in a block."""
    text = (root / path).read_text(encoding="utf-8")
    if path.endswith(".md"):
        return text
    fence = "`" * max(4, 1 + max(map(len, re.findall("`+", text)), default=0))
    return f"# `{path}`\n\n{fence}{LANGUAGES.get(Path(path).suffix, 'text')}\n{text}{fence}\n"


def point_inside(markdown: str, root: Path, uri: str) -> str:
    """The page at `uri` of the site with links to files of the repository as links to their pages."""
    source = uri[len(FOLDER) + 1 :] if uri.startswith(f"{FOLDER}/") else f"docs/{uri}"

    def pointed(match: re.Match[str]) -> str:
        path = leads_to(match["target"], source)
        if not path or not (root / path).is_file():
            return match["target"]
        inside = path[len("docs/") :] if path.startswith("docs/") else page_of(path)
        return posixpath.relpath(inside, posixpath.dirname(uri) or ".")

    return LINK.sub(pointed, markdown)
