"""How situations in the shop are written: in sentences (the style `webshop`), or for little computation (`env`)."""

from __future__ import annotations

import functools
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from ..prompt import PromptWords, Situation
from .pages import BACK, NEXT, PREVIOUS, SEPARATOR

_INSTRUCTION = re.compile(r"(?:WebShop \[SEP\] )?Instruction: \[SEP\] .+? \[SEP\] ")
_RESULTS = re.compile(r"Page (\d+) \(Total results: (\d+)\)")
_CLICK = re.compile(r"click\[(.+)\]")
_PRICE = "Price: "
BRIEF, LONG = 80, 600
"""So many characters are shown of a title or text that is remembered, and of a description that is seen now."""


def without_instruction(page: str) -> str:
    """A page without the instruction, which every page repeats."""
    return _INSTRUCTION.sub("", page)


def _tidy(situation: Situation) -> Situation:
    """The prompt has given the instruction as the task already."""
    history = [
        replace(entry, observation=without_instruction(entry.observation)) for entry in situation.history
    ]
    return replace(situation, observation=without_instruction(situation.observation), history=history)


PROMPT = PromptWords(
    opening="You are shopping on a web page: you can search for words and click on what the page offers.",
    tidy=_tidy,
    chinese=False,
)


def pages_in_short(situation: Situation) -> str:
    """Every page as short as it can be: of those behind what they were, of the present one each thing once.

    In other styles a page of forty options stands in the prompt three times over: remembered, listed as commands, and
    seen. Here a name on the present page, in lower case, is what can be clicked; only buttons are listed. The page
    comes right after the task: all steps of all rollouts that stand on it begin alike, which is computed once.
    """
    lines = [f"task : {situation.task}"] if situation.task else []
    clicks = [_CLICK.sub(r"\1", one) for one in situation.admissible if _CLICK.fullmatch(one)]
    page = _read(situation.observation)
    lines += page.written(frozenset(clicks))
    offered = [one for one in situation.admissible if not _CLICK.fullmatch(one)]
    offered += [f"click[{one}]" for one in clicks if one not in page.names()]
    if offered:
        lines.append("can : " + " ; ".join(offered))
    lines += [f"{_read(entry.observation).brief()} > {entry.action}" for entry in situation.history]
    if situation.status:
        lines.append(f"step {situation.step + 1} , {situation.status}")
    return "\n".join([*lines, f"{page.brief()} >"])


@dataclass(frozen=True)
class _Read:
    """A page taken apart; `parts` are those between its head and its end."""

    kind: str
    """`search`, `results`, `item` or `text` (a description, features, reviews)."""
    head: str
    """What it is in a few words."""
    parts: tuple[str, ...] = ()
    note: str = ""
    """What the shop says of a query that it does not understand."""

    def brief(self) -> str:
        """For a page that is remembered."""
        return " ".join(f"{self.note[:BRIEF]} {self.head[:BRIEF]}".split())

    def names(self) -> frozenset[str]:
        """What the page names, as clicks have it."""
        return frozenset(part.lower() for part in self.parts) if self.kind != "text" else frozenset()

    def written(self, clicks: Collection[str]) -> list[str]:
        """For the present page, of which `clicks` can be clicked: a line a product, or a line an option."""
        head = [" ".join(one.split()) for one in (self.note, self.head) if one]
        if self.kind == "text":
            return [*head, " ".join(" ".join(self.parts).split())[:LONG]]
        if self.kind == "item":
            return [*_grouped(self.parts, clicks, first_only=False), *head]
        return [*head, *_grouped(self.parts, clicks, first_only=True)]


def _grouped(parts: Sequence[str], clicks: Collection[str], *, first_only: bool) -> Iterator[str]:
    """Lines that begin at a part that can be clicked (a product), or at one that cannot (the name of an option)."""
    line: list[str] = []
    for part in parts:
        if line and (part.lower() in clicks) == first_only:
            yield " | ".join(line)
            line = []
        line.append(part.lower() if part.lower() in clicks else part)
    if line:
        yield " | ".join(line)


@functools.lru_cache(4096)  # every page is written K + 1 times
def _read(observation: str) -> _Read:
    """What an observation of the shop says."""
    parts = without_instruction(observation).split(SEPARATOR)
    if BACK not in parts:
        return _Read("search", "search page", note=" ".join(parts[:-1]))
    start = parts.index(BACK)
    note, parts = " ".join(parts[:start]), parts[start + 1 :]
    found = _RESULTS.fullmatch(parts[0]) if parts else None
    if found:
        products = [part for part in parts[1:] if part not in (NEXT, PREVIOUS)]
        return _Read("results", f"results , page {found[1]} , {found[2]} found", tuple(products), note)
    if parts and parts[0] == PREVIOUS:
        parts = parts[1:]
    prices = [number for number, part in enumerate(parts) if part.startswith(_PRICE)]
    if prices and prices[-1] > 0:
        at = prices[-1]
        return _Read(
            "item", f"{parts[at - 1]} | {parts[at].removeprefix(_PRICE)}", tuple(parts[: at - 1]), note
        )
    return _Read("text", "text of the product", tuple(parts), note)
