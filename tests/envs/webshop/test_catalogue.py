"""Reading the official files: how rows become products and goals, and what is said about bad files."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from hgpo.envs.webshop import sources
from hgpo.envs.webshop.catalogue import Catalogue
from hgpo.envs.webshop.goals import choose, combinations
from hgpo.envs.webshop.product import Product
from hgpo.errors import BadFile, BadSetting, UnknownName

from .conftest import row

WANTED = {"attributes": ["soft", "red"], "instruction": "Find me soft", "instruction_attributes": ["soft"]}


def test_a_product_is_normalised(folder: Callable[..., Path]) -> None:
    options = {
        "Color": [{"value": " Navy/White ", "image": "x"}, {"value": "RED", "image": None}],
        "Size": None,
        "Fit Type": [],
    }
    changes = {"pricing": "$5.00 - $1,007.50", "customization_options": options, "small_description": "One."}
    product = Catalogue.open(folder([row("B1", **changes)], {"B1": {}})).product(0)
    assert product == Product(
        asin="B1",
        title="Thing B1",
        description="A thing.",
        features=["One."],
        prices=[5.0, 1007.5],
        price_tag="$5.0 to $1007.5",
        options={"color": ["navy | white", "red"], "fit type": []},
        attributes=["DUMMY_ATTR"],
        category="garden",
        query="things",
        product_category="Home › Things",
        instruction_attributes=[],
    )
    assert product.contents == "thing b1 a thing. one. color: navy | white, red, and fit type: "


def test_products_without_a_price_cost_a_hundred(folder: Callable[..., Path]) -> None:
    catalogue = Catalogue.open(folder([row("B1", pricing=""), row("B2", pricing=None)]))
    assert [catalogue.product(0).price_tag, catalogue.prices.tolist()] == ["$100.0", [100.0, 100.0]]


def test_repeated_and_nameless_products_are_left_out(folder: Callable[..., Path]) -> None:
    rows = [row("B1"), row("nan"), row("B1", name="again"), row("B1234567890"), row("B2")]
    catalogue = Catalogue.open(folder(rows))
    assert [catalogue.asin(position) for position in range(len(catalogue))] == ["B1", "B2"]
    assert catalogue.position("B2") == 1
    with pytest.raises(UnknownName, match="'B3'"):
        catalogue.position("B3")


def test_draws_are_made_in_the_order_of_the_original(folder: Callable[..., Path]) -> None:
    options = {"Size": [{"value": "S"}, {"value": "M"}], "Color": [{"value": "red"}]}
    rows = [
        row("B1", pricing="$10 - $20", customization_options=options),
        row("B2", pricing="$5 - $9"),
        row("B3", pricing="$975.00"),
    ]
    catalogue = Catalogue.open(folder(rows, {"B1": WANTED, "B2": {"attributes": []}, "B3": WANTED}))
    generator = random.Random(233)
    first, second = generator.uniform(10, 20), generator.uniform(5, 9)
    assert catalogue.prices.tolist() == [first, second, 975.0]
    bound = max(generator.sample([20.0, 30.0, 40.0, 50.0], 2))
    high = max(generator.sample([980.0, 990.0], 2))
    texts = [
        f"Find me soft with color: red, and size: s, and price lower than {bound:.2f} dollars",
        f"Find me soft with color: red, and size: m, and price lower than {bound:.2f} dollars",
        f"Find me soft, and price lower than {high:.2f} dollars",
    ]
    random.Random(233).shuffle(texts)
    assert [goal["instruction_text"] for goal in catalogue.goals] == texts


def test_a_product_above_all_bounds_has_none(folder: Callable[..., Path]) -> None:
    goal = Catalogue.open(folder([row("B1", pricing="$985.00")], {"B1": WANTED})).goals[0]
    assert goal["instruction_text"] == "Find me soft"
    assert goal["price_upper"] == 1_000_000
    assert isinstance(goal["price_upper"], int)


def test_human_goals(folder: Callable[..., Path]) -> None:
    told = {
        "instruction": "i want it red.",
        "instruction_attributes": ["red"],
        "instruction_options": ["big"],
    }
    data = folder(
        [row("B1")], {"B1": WANTED}, {"B1": [told, {**told, "instruction_attributes": []}], "B9": []}
    )
    (goal,) = Catalogue.open(data).human_goals
    bound = max(random.Random(233).sample([20.0, 30.0, 40.0, 50.0], 2))
    assert goal["instruction_text"] == f"i want it red, and price lower than {bound:.2f} dollars"
    assert goal["goal_options"] == ["big"]
    assert goal["price_upper"] == bound


def test_goals_are_a_sequence(folder: Callable[..., Path]) -> None:
    goals = Catalogue.open(
        folder([row(f"B{n}") for n in range(5)], {f"B{n}": WANTED for n in range(5)})
    ).goals
    assert len(goals) == len(list(goals)) == 5
    assert goals[-1] == goals[4] == goals[2:][2]
    with pytest.raises(IndexError):
        goals[5]


def test_combinations_come_as_from_nested_loops() -> None:
    options = {"size": ["s", "m"], "color": ["red", "blue", "green"]}
    assert combinations(options) == 6
    assert [tuple(choose(options, number).values()) for number in range(6)] == [
        *(("red", "s"), ("red", "m"), ("blue", "s"), ("blue", "m"), ("green", "s"), ("green", "m")),
    ]
    assert list(choose(options, 0)) == ["color", "size"]
    assert choose({}, 0) == {}


def test_the_full_set_next_to_the_small_one(folder: Callable[..., Path]) -> None:
    folder([row("B1")])
    data = folder([row("B1"), row("B2")], suffix="")
    assert [len(Catalogue.open(data, size=size)) for size in (None, "small", "full")] == [1, 1, 2]
    with pytest.raises(BadSetting, match="size='tiny'"):
        Catalogue.open(data, size="tiny")


def test_a_large_file_is_read_in_pieces(folder: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [row(f"B{number}", name=f"Gerät № {number} “{'x' * number}”") for number in range(50)]
    data = folder(json.dumps(rows, ensure_ascii=False, indent=1), {})
    for size in (1, 7, 1000):
        monkeypatch.setattr(sources, "_CHUNK", size)
        assert list(sources.rows(data / "items_shuffle_1000.json")) == rows


BAD: list[tuple[Any, str]] = [
    ("", "does not start with"),
    ("{}", "does not start with"),
    ("[]", "holds no products"),
    ('[{"asin": "B1", ', "product number 1: it is truncated"),
    (json.dumps([row("B1")])[:-1], "product number 2: it is truncated"),
    ("[1, 2]", "Product number 1 .* has no field 'asin'"),
    ('[{"asin": "B1"}]', "Product number 1 .* has no field 'small_description'"),
    (json.dumps([row("B1", pricing="$x")]), "cannot be read as a product"),
    (json.dumps([row("B1", customization_options=["x"])]), "cannot be read as a product"),
]


@pytest.mark.parametrize(("text", "message"), BAD)
def test_bad_product_files(folder: Callable[..., Path], text: str, message: str) -> None:
    data = folder(text, {})
    with pytest.raises(BadFile, match=message):
        Catalogue.open(data)
    assert not list(data.glob("*.hgpo-store"))


def test_text_that_is_not_utf8(folder: Callable[..., Path]) -> None:
    data = folder([row("B1")])
    (data / "items_shuffle_1000.json").write_bytes(b'[{"asin": "\xff\xfe"}]')
    with pytest.raises(BadFile, match="not UTF-8"):
        Catalogue.open(data)


@pytest.mark.parametrize(
    ("text", "message"), [("{", "not readable JSON"), ("[]", "expected a dict"), ('{"B1": 3}', "about B1")]
)
def test_bad_attribute_files(folder: Callable[..., Path], text: str, message: str) -> None:
    data = folder([row("B1")])
    (data / "items_ins_v2_1000.json").write_text(text)
    with pytest.raises(BadFile, match=message):
        Catalogue.open(data)


def test_bad_human_instructions(folder: Callable[..., Path]) -> None:
    with pytest.raises(BadFile, match="human instructions about B1"):
        Catalogue.open(folder([row("B1")], None, {"B1": [{"instruction_attributes": ["x"]}]}))


def test_an_instruction_without_attributes(folder: Callable[..., Path]) -> None:
    about = {"B1": {**WANTED, "instruction_attributes": []}}
    with pytest.raises(BadFile, match="B1 has an instruction but no instruction attributes"):
        Catalogue.open(folder([row("B1")], about))


def test_missing_files(folder: Callable[..., Path], tmp_path: Path) -> None:
    with pytest.raises(BadFile, match=r"does not exist.*setup\.sh.*make\('shop'\)"):
        Catalogue.open(tmp_path / "nowhere")
    with pytest.raises(BadFile, match=r"No items_shuffle\.json or items_shuffle_1000\.json"):
        Catalogue.open(tmp_path)
    data = folder([row("B1")])
    (data / "items_ins_v2_1000.json").unlink()
    with pytest.raises(BadFile, match=r"items_ins_v2_1000\.json, which belongs to it"):
        Catalogue.open(data)


def test_reviews_are_read_when_there_are_some(folder: Callable[..., Path]) -> None:
    data = folder([row("B1"), row("B2")])
    reviews = [{"title": "Good", "stars": "4", "review": "I like it."}, {"title": "Bad", "score": 1}]
    (data / "reviews.json").write_text(
        json.dumps([{"asin": "B1", "reviews": reviews, "average_rating": 2.5}])
    )
    catalogue = Catalogue.open(data)
    first, second = catalogue.product(0), catalogue.product(1)
    assert first.rating == "2.5"
    assert [(review.title, review.score, review.body) for review in first.reviews] == [
        ("Good", "4", "I like it."),
        ("Bad", "1", ""),
    ]
    assert (second.rating, second.reviews) == ("N.A.", ())


def test_threads_that_start_together_share_the_catalogue(folder: Callable[..., Path]) -> None:
    data = folder([row("B1")])
    with ThreadPoolExecutor(8) as pool:
        opened = list(pool.map(lambda _: Catalogue.open(data), range(8)))
    assert len(set(map(id, opened))) == 1
