"""The score: how texts compare, what a near miss is worth, which tagger is taken."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest

from hgpo.envs.webshop.colours import COLOURS, plain_colour
from hgpo.envs.webshop.product import Product
from hgpo.envs.webshop.reward import alike, score
from hgpo.envs.webshop.taggers import builtin_tagger, choose_tagger
from hgpo.errors import BadSetting


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("machine wash", "machine washable", True),
        ("hand wash", "machine wash", False),
        ("easy care", "easy to care for", True),
        ("gluten free", "free gluten", True),
        ("x-large", "large", True),
        ("blue", "('color', 'navy blue')", True),
        ("3x-large", "('size', 'x-large')", False),
        ("black", "('color', 'black_style_99601')", False),
        ("", "red", False),
        ("!!", "!!", False),
        ("café", "caf", True),
        ("natural ingredients", "natural ingredient", True),
        ("long lasting", "long sleeve", False),
    ],
)
def test_alike(one: str, other: str, same: bool) -> None:
    assert alike(one, other) is same


def test_colours() -> None:
    assert list(COLOURS) == sorted(COLOURS)
    assert plain_colour("heather royal blue") == "blue"
    assert plain_colour("size 7") == "size 7"


CHAIR = Product(
    asin="B1",
    title="Soft Oak Chair",
    description="With a Cotton cover",
    features=["Easy Assembly", "strong legs"],
    prices=[20.0],
    price_tag="$20.0",
    options={},
    attributes=["solid wood"],
    category="home",
    query="chairs",
    product_category="Home › Furniture › Chairs",
)


def goal(**changes: Any) -> dict[str, Any]:
    return {
        "name": "Soft Oak Chair",
        "query": "chairs",
        "product_category": "Home › Furniture › Chairs",
        "attributes": ["solid wood"],
        "price_upper": 30.0,
        "goal_options": {},
        **changes,
    }


def tag(text: str) -> list[tuple[str, bool]]:
    return [(word, True) for word in text.split()]


def value(wanted: dict[str, Any], options: dict[str, str] | None = None, price: float = 20.0) -> float:
    return score(CHAIR, price, options or {}, wanted, tag).score


def test_attributes_are_looked_for_in_every_text() -> None:
    attributes = ["wood solid", "soft", "cotton", "assembly strong", "steel"]
    assert value(goal(attributes=attributes)) == 5 / 6


def test_price() -> None:
    assert value(goal(), price=30.0) == 1.0
    assert value(goal(), price=30.01) == 0.5


def test_options_of_synthetic_goals_are_compared_with_their_names() -> None:
    wanted = goal(goal_options={"color": "navy blue", "size": "large"})
    assert value(wanted, {"color": "navy blue", "size": "large"}) == 1.0
    assert value(wanted, {"color": "sky blue", "size": "large"}) == 1.0
    assert value(wanted, {"size": "large"}) == 0.75
    assert value(wanted, {"color": "red", "size": "small"}) == 0.5
    assert value(goal(goal_options={"color": "blue"}), {"color": "navy blue"}) == 1.0


def test_options_of_human_goals_are_values() -> None:
    assert value(goal(goal_options=["navy blue"]), {"color": "dark sea blue"}) == 1.0
    assert value(goal(goal_options=["large"]), {"size": "small"}) == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({"name": "Chair"}, 1.0),
        ({"query": "x", "product_category": "x"}, 1.0),
        ({"query": "x", "product_category": "x", "name": "a b c d e f Chair"}, 0.5),
        ({"product_category": "x", "name": "a b c d e f Chair"}, 1.0),
        ({"query": "x", "product_category": "Chairs › Furniture", "name": "a b c d e f Chair"}, 1.0),
        ({"query": "x", "product_category": "Garden › Chairs", "name": "a b c d e f Chair"}, 0.5),
        ({"name": "a b c d e f g h i j k Chair"}, 0.1),
        ({"name": "Table"}, 0.0),
        ({"name": "", "query": "x", "product_category": "x"}, 0.5),
    ],
)
def test_the_kind_of_product(changes: dict[str, Any], kind: float) -> None:
    assert value(goal(**changes)) == kind


def test_the_built_in_tagger() -> None:
    nouns = [
        word for word, noun in builtin_tagger("Women's 2 Soft, washable leather Shoes for running") if noun
    ]
    assert nouns == ["Women", "leather", "Shoes", "running"]
    assert [word for word, _ in builtin_tagger("a-b c")] == ["a", "-", "b", "c"]


def test_which_tagger_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    assert choose_tagger(tag) == (tag, f"{__name__}.tag")
    assert choose_tagger("builtin") == (builtin_tagger, "builtin")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert choose_tagger(None) == (builtin_tagger, "builtin")


def test_spacy_without_spacy() -> None:
    with pytest.raises(BadSetting, match="python -m spacy download no_such_model, or use tagger='builtin'"):
        choose_tagger("no_such_model")


def test_a_tagger_that_cannot_be_hashed() -> None:
    class Tagger:
        __hash__ = None  # type: ignore[assignment]

        def __call__(self, text: str) -> list[tuple[str, bool]]:
            return tag(text)

    tagger, name = choose_tagger(Tagger())
    assert name == f"{__name__}.Tagger"
    assert score(CHAIR, 1.0, {}, goal(), tagger).score == 1.0
