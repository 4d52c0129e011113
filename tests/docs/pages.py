"""The pages as their readers get them: blocks of code, links and headings of the README and of docs/."""

from __future__ import annotations

import functools
import importlib.util
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[2]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]

_FENCE = re.compile(r"^(?P<indent> *)(?P<fence>`{3,}|~{3,})(?P<language>[\w+-]*)")


def name(page: Path) -> str:
    """A page as test reports name it."""
    return page.relative_to(ROOT).as_posix()


@dataclass(frozen=True)
class Block:
    """A block of code, fenced or indented."""

    page: str
    line: int
    """Of its first line of code."""
    language: str
    """What the fence says; empty for none, and for indented blocks."""
    text: str
    adjacent: bool
    """Nothing but empty lines is between it and the block before."""


def blocks(page: Path) -> list[Block]:
    """The blocks of a page, in order."""
    return _blocks(page.read_text(encoding="utf-8"), name(page))


def _blocks(text: str, page: str) -> list[Block]:
    found: list[Block] = []
    lines = text.splitlines()
    place, prose = 0, True
    while place < len(lines):
        fence = _FENCE.match(lines[place])
        indented = lines[place].startswith("    ") and (place == 0 or not lines[place - 1].strip())
        if fence:
            end = place + 1
            while end < len(lines) and not lines[end].strip().startswith(fence["fence"]):
                end += 1
            code = [line.removeprefix(fence["indent"]) for line in lines[place + 1 : end]]
            found.append(Block(page, place + 2, fence["language"], "\n".join(code) + "\n", not prose))
            place, prose = end + 1, False
        elif indented and not _in_list(lines, place):
            end = place
            while end < len(lines) and (lines[end].startswith("    ") or not lines[end].strip()):
                end += 1
            code = [line[4:] for line in lines[place:end]]
            found.append(Block(page, place + 1, "", "\n".join(code).rstrip() + "\n", not prose))
            place, prose = end, False
        else:
            prose = prose or bool(lines[place].strip())
            place += 1
    return found


def _in_list(lines: list[str], place: int) -> bool:
    """Whether an indented line goes on an item of a list."""
    for line in reversed(lines[:place]):
        if line.strip() and not line.startswith("  "):
            return bool(re.match(r"([-*+]|\d+\.) ", line))
    return False


def prose(page: Path) -> str:
    """A page without its blocks of code: lines of blocks are empty, so that lines keep their numbers."""
    lines = page.read_text(encoding="utf-8").splitlines()
    for block in blocks(page):
        for number in range(block.line - 1, block.line - 1 + len(block.text.splitlines())):
            lines[number] = ""
    return "\n".join("" if _FENCE.match(line) else line for line in lines)


def inline_code(page: Path) -> Iterator[tuple[int, str]]:
    """Code in running text, with its line; it may be broken over two."""
    text = prose(page)
    for found in re.finditer(r"(?<!`)`([^`]+)`(?!`)", text):
        yield text.count("\n", 0, found.start()) + 1, " ".join(found[1].split())


def links(page: Path) -> Iterator[tuple[str, str]]:
    """Links and pictures: where they lead, and the anchor there."""
    text = re.sub(r"(?<!`)`[^`]+`(?!`)", lambda found: "x" * len(found[0]), prose(page))
    for target in re.findall(r"\]\(\s*<?([^)>\s]+)>?(?:\s+\"[^\"]*\")?\s*\)", text):
        path, _, anchor = target.partition("#")
        yield path, anchor
    for target in re.findall(r"(?:src|href)=[\"']([^\"']+)[\"']", text):
        path, _, anchor = target.partition("#")
        yield path, anchor


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub and the site make them, and those it sets itself."""
    found: set[str] = set()
    text = re.sub(r"<!-- made from the code: (\w+) -->", lambda marker: made(marker[1]), prose(page))
    for heading in re.findall(r"^#{1,6} +(.*?)(?: +#+)?$", text, flags=re.MULTILINE):
        slug = slugify(heading)
        count = 0
        while (f"{slug}-{count}" if count else slug) in found:
            count += 1
        found.add(f"{slug}-{count}" if count else slug)
    return found | set(re.findall(r"<a (?:id|name)=[\"']([^\"']+)[\"']", text))


@functools.cache
def reference() -> ModuleType:
    """docs/theme/reference.py, which makes parts of the pages from the code."""
    path = ROOT / "docs" / "theme" / "reference.py"
    spec = importlib.util.spec_from_file_location("reference", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@functools.cache
def made(part: str) -> str:
    """A part of the reference."""
    text: str = reference().PARTS[part]()
    return text


def slugify(heading: str) -> str:
    """The anchor of a heading.

    >>> slugify("Qwen2.5-7B on ALFWorld, 4 GPUs"), slugify("K = 4"), slugify("Official games: `alfworld`")
    ('qwen25-7b-on-alfworld-4-gpus', 'k--4', 'official-games-alfworld')
    """
    words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    return re.sub(r"[^\w\- ]", "", words).strip().lower().replace(" ", "-")
