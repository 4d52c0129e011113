"""The page of the lab: made from the records that lie beside it, whichever command wrote them last."""

from __future__ import annotations

import textwrap
from pathlib import Path

from ..errors import BadSetting
from ..files import write_text
from . import games_report, report
from .records import WORLDS_RECORD, Document, dump, records

TITLE = "# The estimator lab"
WIDTH = 120
"""Columns of the page's source."""


def write_page(folder: Path, document: Document, name: str | None = None) -> None:
    """Write a record with its plots to `folder`/lab, and `folder`/lab.md from all records there."""
    from .plots import draw, draw_games

    place = folder / "lab"
    place.mkdir(parents=True, exist_ok=True)
    if document["kind"] == "games":
        stem = name or unlike_the_worlds(games_report.record_name(document))
        write_text(place / f"{stem}.json", dump(document))
        draw_games(document, place, stem)
    else:
        write_text(place / WORLDS_RECORD, dump(document))
        draw(document, place)
    write_text(folder / "lab.md", page(place))


def unlike_the_worlds(stem: str) -> str:
    """A record's name, refused where it is that of the small worlds' record."""
    if stem == Path(WORLDS_RECORD).stem:
        raise BadSetting(f"A record cannot be called {stem!r}: that is the small worlds'. Give --name.")
    return stem


def page(place: Path) -> str:
    """The whole page, from the records and plots in the folder `place`."""
    worlds, games = records(place)
    plots = {path.name for path in place.glob("*.svg")}
    parts = [TITLE, report.opening(worlds, games)]
    if games:
        parts += ["## In real engines", games_report.INTRODUCTION]
        parts += [games_report.section(name, one, f"{name}.svg" in plots) for name, one in games.items()]
    if worlds is not None:
        parts += report.sections(worlds, plots)
    return wrapped("\n\n".join(part for part in parts if part)) + "\n"


def wrapped(text: str) -> str:
    """Markdown with its sentences in lines of at most `WIDTH`; tables, code and pictures stay as they are.

    >>> print(wrapped("- " + "word " * 30).replace(" ", "."))
    -.word.word.word.word.word.word.word.word.word.word.word.word.word.word.word.word.word.word.word.word.word.word.word
    ..word.word.word.word.word.word.word
    """
    blocks = []
    for block in text.split("\n\n"):
        if block.startswith("- "):
            items = block[2:].split("\n- ")
            blocks.append("\n".join(_fill(item, "- ") for item in items))
        else:
            blocks.append(block if block.startswith(("|", "#", "!", "```")) else _fill(block))
    return "\n\n".join(blocks)


def _fill(sentences: str, bullet: str = "") -> str:
    return textwrap.fill(
        sentences,
        WIDTH,
        initial_indent=bullet,
        subsequent_indent=" " * len(bullet),
        break_long_words=False,
        break_on_hyphens=False,
    )
