"""The shop's pages as the text the agent reads, and what can be clicked on each.

The original renders HTML, parses it and joins the visible texts with ` [SEP] `. The pages here give the same
parts directly. One trait of that parsing shows: a text of spaces alone is an empty part, and no text at all
is no part.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .product import Product

SEPARATOR = " [SEP] "
WINDOW = 10
"""Products on a page of results."""
RESULTS = 50
"""Products a search returns."""

BUY, BACK, NEXT, PREVIOUS = "Buy Now", "Back to Search", "Next >", "< Prev"
SUB_PAGES = ("Description", "Features", "Reviews", "Attributes")
_SPACES = " \n\t\f\r"


@dataclass(frozen=True)
class Page:
    """A page: its text and its links."""

    kind: str
    """`search`, `search_results`, `item_page`, `item_sub_page` or `done`."""
    text: str
    links: Mapping[str, Any] = field(default_factory=dict)
    """Text of each clickable to what it is: None (a button), a position (a product), a name (an option)."""

    @property
    def has_search_bar(self) -> bool:
        """Whether a query can be typed."""
        return self.kind == "search"

    def available(self) -> dict[str, Any]:
        """What can be done here, in the original's form."""
        return {"has_search_bar": self.has_search_bar, "clickables": list(self.links)}

    def admissible(self) -> tuple[str, ...]:
        """The same as action templates."""
        clicks = tuple(f"click[{text}]" for text in self.links if text != "search")
        return ("search[...]", *clicks) if self.has_search_bar else clicks


def _join(parts: Sequence[str]) -> str:
    return SEPARATOR.join(part for text in parts for part in _visible(text))


def _visible(text: str) -> Iterator[str]:
    if text and (text.strip(_SPACES) or "\n" not in text):
        yield text.strip()


def _buttons(*names: str) -> dict[str, Any]:
    return dict.fromkeys(name.lower() for name in names)


def search_page(instruction: str) -> Page:
    """Where a session starts."""
    return Page("search", _join(["WebShop", "Instruction:", instruction, "Search"]), {"search": None})


def results_page(instruction: str, products: Sequence[tuple[int, Product]], page: int, total: int) -> Page:
    """One page of search results; `products` are the (position, product) pairs on it."""
    turns = [PREVIOUS, NEXT] if page > 1 else [NEXT]
    parts = ["Instruction:", instruction, BACK, f"Page {page} (Total results: {total})", *turns]
    links = _buttons(BACK, *turns)
    for position, product in products:
        parts += (product.asin, product.title, product.price_tag)
        links[product.asin.lower()] = position
    return Page("search_results", _join(parts), links)


def item_page(instruction: str, product: Product, show_attributes: bool) -> Page:
    """A product with its options."""
    buttons = [*(SUB_PAGES if show_attributes else SUB_PAGES[:3]), BUY]
    parts = ["Instruction:", instruction, BACK, PREVIOUS]
    links = _buttons(BACK, PREVIOUS, *buttons)
    for name, values in product.options.items():
        parts += (name, *values)
        # A value that two options share belongs to the later one, as does a value that reads like a button.
        links.update(dict.fromkeys(values, name))
    parts += (product.title, f"Price: {product.price_tag}", f"Rating: {product.rating}", *buttons)
    return Page("item_page", _join(parts), links)


def sub_page(instruction: str, product: Product, name: str) -> Page:
    """The description, features, reviews or attributes of a product."""
    parts = ["Instruction:", instruction, BACK, PREVIOUS]
    if name == "Description":
        parts.append(product.description)
    elif name == "Features":
        parts += [f" {feature}" for feature in product.features]
    elif name == "Reviews":
        for review in product.reviews:
            parts += (f'"{review.title}"', review.score, review.body)
    else:
        parts += [f" {attribute}" for attribute in product.attributes]
        parts += (product.category, product.query, product.product_category)
    return Page("item_sub_page", _join(parts), _buttons(BACK, PREVIOUS))


def done_page(asin: str, options: Mapping[str, str], score: float) -> Page:
    """The receipt."""
    chosen = json.dumps(dict(options), sort_keys=True)
    for sign in "<>&'":
        chosen = chosen.replace(sign, f"\\u{ord(sign):04x}")
    empty = (
        "asin",
        "options",
        "attrs",
        "price upper",
        "instuction text",
        "category",
        "product category",
        "query",
    )
    parts = [
        *("Thank you for shopping with us!", "Your code:", "None", "(Paste it in your MTurk interface.)"),
        *("Purchased", "asin", asin, "options", chosen, "attrs", "None", "category", "None", "query", "None"),
        *("product category", "None", "Target", *empty, "Goal", "None"),
        *("Reward", "Your score (min 0.0, max 1.0)", str(score), "Reward Details", "None"),
    ]
    return Page("done", _join(parts))
