"""Model cards: `README.md` beside a model, in the form that model hubs read.

A card of ours ends with a line that holds the digest of all above it. One that somebody wrote or edited does not, and
is never written over. Whatever comes from a run (names, settings, texts of an environment) is data: it stands in the
card as text and can make neither markup nor a line of its front matter.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from .folder import CARD, model_settings
from .hub import is_cached

LONGEST = 200
"""Characters of one value."""
_SEAL = re.compile(r"<!-- written by hgpo, ([0-9a-f]{16}); a card that was edited is kept -->\n")
_LICENCE = re.compile(r"^license:[ \t]*['\"]?([A-Za-z0-9.+-]{1,40})['\"]?[ \t]*$", re.M)
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+-]{0,99}")
_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}")


def compose(title: str, sections: Mapping[str, str], *, licence: str = "", base: str = "") -> str:
    """A card.

    Args:
        title: the name of the model.
        sections: heading -> text in Markdown; values in it must have gone through `code`.
        licence: identifier of the licence; left out where it is not known.
        base: the name on the hub of the model that this one was made from.
    """
    front = ["library_name: transformers", "pipeline_tag: text-generation"]
    if licence and _LICENCE.fullmatch(f"license: {licence}"):
        front.append(f"license: {licence}")
    if _HUB_NAME.fullmatch(base):
        front.append(f"base_model: {base}")
    front.append("tags: [hgpo, reinforcement-learning, agent]")
    parts = ["---", *front, "---", "", f"# {title if _PLAIN.fullmatch(title) else code(title)}", ""]
    for heading, text in sections.items():
        parts += [*([f"## {heading}", ""] if heading else []), text, ""]
    return signed("\n".join(parts))


def code(value: object) -> str:
    """A value as a code span in which nothing is markup: one line, printable, of bounded length.

    >>> code("a|b `c` <script>\\n")
    "`a\\\\|b 'c' <script> `"
    """
    text = "".join(letter if letter.isprintable() else " " for letter in str(value)).replace("`", "'")
    cut = f"{text[:LONGEST]}..." if len(text) > LONGEST else text
    return f"`{cut.replace('|', chr(92) + '|') or ' '}`"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def signed(text: str) -> str:
    """The card with the line that says that it is ours, as it was written."""
    return f"{text}<!-- written by hgpo, {_digest(text)}; a card that was edited is kept -->\n"


def is_ours(text: str) -> bool:
    """Whether a card is as we wrote it."""
    *_, last = text.splitlines(keepends=True) or [""]
    seal = _SEAL.fullmatch(last)
    return seal is not None and seal[1] == _digest(text[: -len(last)])


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:16]


# What is known about the model that another was made from


def lineage(name: str) -> list[str]:
    """The names of a model and of those it was made from, newest first; folders by their last part only.

    A folder that was written by a run or by `hgpo sft` says which model it began with.
    """
    names: list[str] = []
    for _ in range(8):
        folder = Path(name)
        names.append(shown_name(name))
        settings = model_settings(folder) if folder.is_dir() else None
        model = (settings or {}).get("model")
        base = model.get("path") if isinstance(model, dict) else None
        if not isinstance(base, str) or base == name:
            break
        name = base
    return names


def shown_name(name: str) -> str:
    """The name by which others may know a model: what the hub calls it, or the last part of a path.

    `owner/name` could be either; it is a name of the hub where the model came from there to this machine.
    """
    return name if _on_hub(name) else Path(name).name or name


def _on_hub(name: str) -> bool:
    if not _HUB_NAME.fullmatch(name) or Path(name).exists():
        return False
    try:
        return is_cached(name)
    except ImportError:  # nothing comes from a hub where huggingface_hub is not installed
        return False


def licence_of(name: str) -> str:
    """The licence that the card of a model names: of a folder, or of a model in the hub's cache; empty if none does."""
    card = Path(name) / CARD if Path(name).is_dir() else _cached_card(name)
    try:
        text = card.read_text(encoding="utf-8", errors="replace")[:100_000] if card is not None else ""
    except OSError:
        return ""
    front = re.match(r"---\n(.*?\n)---\n", text, re.S)
    named = _LICENCE.search(front[1]) if front else None
    return named[1] if named else ""


def _cached_card(name: str) -> Path | None:
    try:
        from huggingface_hub import try_to_load_from_cache

        path = try_to_load_from_cache(name, CARD)
    except (ImportError, ValueError):  # no such package, no name of the hub
        return None
    return Path(path) if isinstance(path, str) else None
