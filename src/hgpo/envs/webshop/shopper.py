"""A scripted shopper: an honest reference policy that reads the instruction and the pages, and nothing else.

It searches for the words of the instruction, looks at the first results it can afford until one offers every
option asked for, takes those options and buys. When none does, it buys the one that offered most.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ..contract import Observation, Transition
from .pages import BACK, PREVIOUS, SEPARATOR

_BOUND = re.compile(r"[,\s]*(?:and )?price lower than ([\d.]+) dollars\s*$", re.IGNORECASE)
_OPTIONS = re.compile(r" with ((?:(?! with )[a-z ])+): ")
_NEXT_OPTION = re.compile(r", and (?=[a-z ]+: )")
_OPENING = re.compile(r"^\s*find me ", re.IGNORECASE)
_BUTTONS = (
    "back to search",
    "< prev",
    "next >",
    "description",
    "features",
    "reviews",
    "attributes",
    "buy now",
)


@dataclass(frozen=True)
class Wish:
    """What an instruction asks for."""

    words: str
    """The kind of product and its attributes."""
    options: Sequence[str]
    """The option values, if the instruction names them."""
    bound: float
    """The price to stay under."""

    @classmethod
    def read(cls, instruction: str) -> Wish:
        """Take an instruction apart.

        >>> Wish.read("Find me soft socks with color: red, and size: 7, and price lower than 20.00 dollars")
        Wish(words='soft socks', options=['red', '7'], bound=20.0)
        """
        bound = float("inf")
        if match := _BOUND.search(instruction):
            bound, instruction = float(match[1]), instruction[: match.start()]
        options: list[str] = []
        if match := _OPTIONS.search(instruction):
            listed = instruction[match.start() + len(" with ") :]
            options = [part.partition(": ")[2] for part in _NEXT_OPTION.split(listed)]
            instruction = instruction[: match.start()]
        return cls(_OPENING.sub("", instruction), options, bound)

    @property
    def query(self) -> str:
        """What to search for."""
        return " ".join([self.words, *self.options]).replace("[", " ").replace("]", " ")


class Shopper:
    """The policy; `reset` with the first observation, then `act` on each latest one.

    It finds its way back after a slip, when it is told of it (`slipped`): to its own query, to the product it had
    opened, and through all the options again, because a page does not show which are taken.

    Args:
        visits: how many products to look at before buying the best of them.
    """

    def __init__(self, visits: int = 4) -> None:
        self.visits = visits
        self._begin(Wish("", (), 0.0))

    def _begin(self, wish: Wish) -> None:
        self.wish = wish
        self._links: list[str] = []
        self._queue: list[str] | None = None
        self._plan: list[str] = []
        self._best: tuple[int, str] = (-1, "")
        self._last = False
        self._looking = ""
        """The product that is looked at; empty once it is turned down."""
        self._open = ""
        """The product whose page is open."""
        self._asked = True
        """The results that are shown are those of its own query."""

    def reset(self, observation: Observation) -> None:
        """Read the instruction of a new session."""
        parts = observation.text.split(SEPARATOR)
        self._begin(Wish.read(parts[parts.index("Instruction:") + 1]))

    def act(self, latest: Observation | Transition) -> str:
        """The next action."""
        links = [action[len("click[") : -1] for action in latest.admissible if action.startswith("click[")]
        self._links = links
        if self._plan:
            return self._plan.pop(0)
        if "buy now" in links:
            return self._on_item(links)
        if "next >" in links:
            return self._on_results(links, latest.text)
        # Only a slip leads to the pages below a product.
        return f"click[{PREVIOUS.lower()}]" if PREVIOUS.lower() in links else self._search()

    def slipped(self, action: str) -> None:
        """`action` was done in place of what `act` named last."""
        self._plan = []
        if action.startswith("search["):
            self._asked = False
        elif "next >" in self._links:
            self._open = action[len("click[") : -1]

    def _search(self) -> str:
        self._asked = True
        return f"search[{self.wish.query or 'gift'}]"

    def _on_results(self, links: list[str], text: str) -> str:
        """Look at the next product that can be afforded, or go back to the best one."""
        if not self._asked:
            return f"click[{BACK.lower()}]"
        if self._queue is None:
            products = [link for link in links if link not in _BUTTONS]
            prices = _prices(text, products)
            cheap = [product for product in products if prices.get(product, 0.0) <= self.wish.bound]
            self._queue = (cheap or products)[: self.visits]
            if not products:
                # Nothing was found: one word less may do better.
                self._queue = None
                self.wish = Wish(self.wish.words.partition(" ")[2], (), self.wish.bound)
                return self._search()
        if not self._looking:
            if self._queue:
                self._looking = self._queue.pop(0)
            else:
                self._looking, self._last = self._best[1], True
        if self._looking not in links and PREVIOUS.lower() in links:
            return f"click[{PREVIOUS.lower()}]"
        self._open = self._looking
        return f"click[{self._looking}]"

    def _on_item(self, links: list[str]) -> str:
        """Take the options and buy, or turn back."""
        if self._open != self._looking:
            return f"click[{PREVIOUS.lower()}]"
        offered = [link for link in links if link not in _BUTTONS]
        wanted = [option for option in self.wish.options if option in offered]
        if not self.wish.options:
            words = set(re.findall(r"\w+", self.wish.words.lower()))
            wanted = [value for value in offered if set(re.findall(r"\w+", value)) <= words]
        if len(wanted) > self._best[0]:
            self._best = (len(wanted), self._looking)
        complete = len(wanted) >= len(self.wish.options)
        if complete or self._last or (not self._queue and self._best[1] == self._looking):
            self._plan = [*(f"click[{value}]" for value in wanted[1:]), "click[buy now]"]
            return f"click[{wanted[0]}]" if wanted else self._plan.pop()
        self._looking = ""
        return f"click[{PREVIOUS.lower()}]"


def _prices(text: str, products: list[str]) -> dict[str, float]:
    """The lowest price shown for each product on a page of results."""
    prices: dict[str, float] = {}
    current = ""
    for part in text.split(SEPARATOR):
        if part.lower() in products:
            current = part.lower()
        elif current and (match := re.match(r"\$([\d.]+)", part)):
            prices.setdefault(current, float(match[1]))
    return prices
