"""Fixtures of the shop tests: official files where they are, and a small catalogue written here."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hgpo.envs.webshop.catalogue import Catalogue


def row(asin: str, **changes: Any) -> dict[str, Any]:
    """A product as the official file has it."""
    return {
        "asin": asin,
        "name": f"Thing {asin}",
        "full_description": "A thing.",
        "small_description": ["It is a thing.", ""],
        "pricing": "$12.50",
        "customization_options": "",
        "category": "garden",
        "query": "Things ",
        "product_category": "Home › Things",
        "images": ["none"],
        **changes,
    }


@pytest.fixture
def folder(tmp_path: Path) -> Callable[..., Path]:
    """Writes data files in the official format and returns their folder."""

    def write(products: Any, attributes: Any = None, human: Any = None, suffix: str = "_1000") -> Path:
        place = tmp_path / "data"
        place.mkdir(exist_ok=True)
        if attributes is None:
            attributes = {product["asin"]: {"attributes": ["soft touch"]} for product in products}
        text = products if isinstance(products, str) else json.dumps(products)
        (place / f"items_shuffle{suffix}.json").write_text(text, encoding="utf-8")
        (place / f"items_ins_v2{suffix}.json").write_text(json.dumps(attributes))
        if human is not None:
            (place / "items_human_ins.json").write_text(json.dumps(human))
        return place

    return write


@pytest.fixture(scope="session")
def official(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Settings that open the official small catalogue, its store in a temporary folder."""
    return {"data": shared / "webshop", "store": tmp_path_factory.mktemp("store")}


@pytest.fixture(scope="session")
def catalogue(official: dict[str, Any]) -> Catalogue:
    """The official small catalogue."""
    return Catalogue.open(official["data"], store=official["store"])


@pytest.fixture(scope="session")
def golden(shared: Path) -> dict[str, Any]:
    """What the original environment answered."""
    with gzip.open(shared / "webshop" / "golden.json.gz", "rt") as file:
        found: dict[str, Any] = json.load(file)
    return found


@pytest.fixture(scope="session")
def pattern_tagger() -> Callable[[str], list[tuple[str, bool]]]:
    """The tagger the recorded sessions were scored with."""
    taggers = pytest.importorskip("textblob.taggers")
    tagger = taggers.PatternTagger()

    def tag(text: str) -> list[tuple[str, bool]]:
        tokens = " ".join(re.findall(r"\w+|[^\w\s]", text))
        return [(word, name.startswith("NN")) for word, name in tagger.tag(tokens)]

    return tag
