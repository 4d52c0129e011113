"""One product as the shop shows it, and its form on disk.

`normalise` turns a row of the official product file into a `Product` by the rules of the original
environment: lower-case option names and values, `/` in values written as ` | `, prices read from the price
text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from ...errors import BadFile

DEFAULT_PRICE = 100.0
NO_ATTRIBUTES = ("DUMMY_ATTR",)
"""What a product without mined attributes carries, so that it can still be scored."""


@dataclass(frozen=True)
class Review:
    """A customer's review."""

    title: str
    score: str
    body: str


@dataclass(frozen=True)
class Product:
    """What can be seen, searched and bought."""

    asin: str
    """The shop's identifier, at most ten characters."""
    title: str
    description: str
    features: Sequence[str]
    """The bullet points."""
    prices: Sequence[float]
    """One price, or the two ends of a range."""
    price_tag: str
    """The price as shown."""
    options: Mapping[str, Sequence[str]]
    """Option name to its values, in the order shown."""
    attributes: Sequence[str]
    category: str
    query: str
    """The search that found the product when the catalogue was collected."""
    product_category: str
    """The path of categories, joined by `›`."""
    instruction: str | None = None
    """The sentence of the synthetic goals about this product, if there are any."""
    instruction_attributes: Sequence[str] = ()
    rating: str = "N.A."
    reviews: Sequence[Review] = ()

    def encode(self) -> bytes:
        """A JSON row, values in field order."""
        values = [getattr(self, name) for name in FIELDS]
        values[-1] = [[review.title, review.score, review.body] for review in self.reviews]
        # A lone surrogate is legal in JSON but not in UTF-8; ASCII escapes carry it.
        return json.dumps(values, separators=(",", ":")).encode("ascii")

    @classmethod
    def decode(cls, row: bytes) -> Product:
        """The inverse of `encode`."""
        values = json.loads(row)
        values[-1] = tuple(Review(*review) for review in values[-1])
        return cls(*values)

    @property
    def contents(self) -> str:
        """The text the search index holds: title, description, first feature and options, in lower case."""
        options = ", and ".join(f"{name}: {', '.join(values)}" for name, values in self.options.items())
        first = self.features[0] if self.features else ""
        return f"{self.title} {self.description} {first} {options}".lower()


FIELDS = tuple(field.name for field in fields(Product))


def normalise(
    row: Mapping[str, Any], attributes: Mapping[str, Any], reviews: Mapping[str, Any], place: str
) -> Product:
    """A product from a row of the official file.

    Args:
        row: the product's JSON object.
        attributes: what the attribute file says about the product (`attributes`, `instruction`, ...).
        reviews: what the review file says about it (`reviews`, `average_rating`), or nothing.
        place: where the row comes from, for messages.
    """
    try:
        features = row["small_description"]
        prices, tag = _prices(row.get("pricing"))
        return Product(
            asin=row["asin"],
            title=_text(row["name"]),
            description=_text(row["full_description"]),
            features=[_text(line) for line in (features if isinstance(features, list) else [features])],
            prices=prices,
            price_tag=tag,
            options=_options(row["customization_options"]),
            attributes=attributes.get("attributes", NO_ATTRIBUTES),
            category=row["category"],
            query=row["query"].lower().strip(),
            product_category=row["product_category"],
            instruction=attributes.get("instruction"),
            instruction_attributes=attributes.get("instruction_attributes") or (),
            rating=str(reviews.get("average_rating", "N.A.")),
            reviews=tuple(_review(review) for review in reviews.get("reviews", ())),
        )
    except KeyError as error:
        raise BadFile(
            f"{place} has no field {error}. Expected a row of WebShop's product file (items_shuffle*.json)."
        ) from error
    except (TypeError, AttributeError, ValueError) as error:
        raise BadFile(f"{place} cannot be read as a product: {error}.") from error


def _text(value: Any) -> str:
    # An absent text is null or NaN in some copies of the files.
    return value if isinstance(value, str) else ""


def _review(review: Mapping[str, Any]) -> Review:
    score = review["score"] if "score" in review else review["stars"]
    return Review(title=str(review.get("title", "")), score=str(score), body=str(review.get("review", "")))


def _prices(text: str | None) -> tuple[list[float], str]:
    """Prices and price tag: `"$5.00 - $7.50"` gives `[5.0, 7.5]`, `"$5.0 to $7.5"`."""
    if not text:
        return [DEFAULT_PRICE], f"${DEFAULT_PRICE}"
    prices = [float(re.sub(r"[^\d.]", "", part)) for part in text.split("$")[1:]][:2]
    if not prices:
        return [DEFAULT_PRICE], f"${DEFAULT_PRICE}"
    return prices, " to ".join(f"${price}" for price in prices)


def _options(rows: Any) -> dict[str, list[str]]:
    options: dict[str, list[str]] = {}
    for name, values in (rows or {}).items():
        if values is not None:
            options[name.lower()] = [value["value"].strip().replace("/", " | ").lower() for value in values]
    return options
