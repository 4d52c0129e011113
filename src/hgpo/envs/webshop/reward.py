"""How well a purchase meets a goal: the original's score.

    score = type * (attributes met + options met + price met) / (attributes + options + 1)

`type` is 1 for the right kind of product, 0.5, 0.1 or 0 for less and less alike ones. Texts are compared as
the original's library does it (token sets, more than 85 of 100), with one trait of it that shows in scores:
an option of a synthetic goal is compared together with its name, so `("color", "navy blue")` is met by any
value whose words are all among `color`, `navy` and `blue`.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

from ...errors import MissingExtra
from .colours import COLOURS, plain_colour
from .product import Product
from .taggers import Tagger

try:
    from rapidfuzz import fuzz
except ImportError as _error:  # pragma: no cover
    raise MissingExtra("rapidfuzz", "webshop", "Scoring a purchase") from _error

_LEAST = 86
_LATIN = dict.fromkeys(range(128, 256))
_COLOUR_SET = frozenset(COLOURS)


@dataclass(frozen=True)
class Purchase:
    """The score of a purchase and its parts."""

    score: float
    type: float
    query_match: bool
    category_match: bool
    title_score: float
    """Share of the wanted title's nouns that the bought title has."""
    attributes_met: int
    attributes_wanted: int
    options_met: int
    options_wanted: int
    price_met: bool

    def parts(self) -> dict[str, Any]:
        """All of it as JSON-like values."""
        return asdict(self)


@lru_cache(maxsize=1 << 13)
def _tokens(text: str) -> frozenset[str]:
    """The words that are compared: no Latin-1 accents, no punctuation, lower case."""
    return frozenset(re.sub(r"\W", " ", text.translate(_LATIN)).lower().split())


@lru_cache(maxsize=1 << 15)
def alike(one: str, other: str) -> bool:
    """Whether the token-set ratio of two texts, rounded, is above 85.

    The ratio is the best of: common words against all words of one, against all words of the other, and all
    words of one against all of the other, each list sorted and joined.
    """
    first, second = _tokens(one), _tokens(other)
    common = first & second
    if not first or not second:
        return False
    if common and common in (first, second):
        return True
    shared = " ".join(sorted(common))
    left = f"{shared} {' '.join(sorted(first - common))}".strip()
    right = f"{shared} {' '.join(sorted(second - common))}".strip()
    return _ratio(shared, left) or _ratio(shared, right) or _ratio(left, right)


def _ratio(one: str, other: str) -> bool:
    # The original measures with difflib, which is slow and never above the length of the longest common
    # subsequence; so that quick measure is asked first.
    if fuzz.ratio(one, other) < _LEAST - 0.5 - 1e-6:
        return False
    return round(100 * difflib.SequenceMatcher(None, one, other).ratio()) >= _LEAST


def score(
    product: Product,
    price: float,
    options: Mapping[str, str],
    goal: Mapping[str, Any],
    tagger: Tagger,
) -> Purchase:
    """Score the purchase of `product` at `price` with the chosen `options` (name to value)."""
    kind, query_match, category_match, title_score = _type(product, goal, tagger)
    attributes: Sequence[str] = goal["attributes"]
    attributes_met = sum(_has_attribute(product, attribute) for attribute in attributes)
    wanted = goal["goal_options"]
    texts = [_option_text(option) for option in (wanted.items() if isinstance(wanted, dict) else wanted)]
    chosen = [plain_colour(value) for value in options.values()]
    options_met = sum(any(alike(value, text) for value in chosen) for text in texts)
    price_met = price <= goal["price_upper"]
    total = (attributes_met + options_met + price_met) / (len(attributes) + len(texts) + 1)
    return Purchase(
        score=total * kind,
        type=kind,
        query_match=query_match,
        category_match=category_match,
        title_score=title_score,
        attributes_met=attributes_met,
        attributes_wanted=len(attributes),
        options_met=options_met,
        options_wanted=len(texts),
        price_met=price_met,
    )


def _type(product: Product, goal: Mapping[str, Any], tagger: Tagger) -> tuple[float, bool, bool, float]:
    query_match = product.query == goal["query"]
    category_match = len(_levels(product.product_category) & _levels(goal["product_category"])) >= 2
    wanted = _nouns(tagger, goal["name"])
    shared = len(set(_nouns(tagger, product.title)) & set(wanted))
    title_score = shared / len(wanted) if wanted else 0.2
    kind = 1.0 if query_match or category_match or title_score > 0.2 else 0.5
    if title_score < 0.1:
        kind = 0.1
    if title_score == 0.0:
        kind = 0.0
    return kind, query_match, category_match, title_score


def _levels(category: str) -> set[str]:
    return {level.strip() for level in category.split("›")}


@lru_cache(maxsize=1 << 12)
def _nouns(tagger: Tagger, title: str) -> tuple[str, ...]:
    return tuple(token.lower() for token, noun in tagger(title) if noun)


def _has_attribute(product: Product, attribute: str) -> bool:
    return (
        any(alike(known, attribute) for known in product.attributes)
        or attribute in product.title.lower()
        or attribute in " ".join(product.features).lower()
        or attribute in product.description.lower()
    )


def _option_text(option: str | tuple[str, str]) -> str:
    """What a wanted option is compared as: a colour if it is one, else its text (with its name)."""
    if isinstance(option, str):
        return plain_colour(option)
    colours = _COLOUR_SET.intersection(option)
    return min(colours) if colours else str(option)
