"""BM25 in Lucene's arithmetic, against a plain reckoning, and the ways a search can go wrong."""

from __future__ import annotations

import math
import random
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from hgpo.envs.webshop import index as module
from hgpo.envs.webshop.analysis import analyse
from hgpo.envs.webshop.catalogue import Catalogue
from hgpo.envs.webshop.index import LENGTHS, length_code
from hgpo.envs.webshop.product import Product
from hgpo.errors import BadQuery, BadSetting


def shorten(length: int) -> int:
    """A document length as it comes back from one byte."""
    return int(LENGTHS[length_code(np.array([length]))[0]])


def product(asin: str, title: str) -> Product:
    return Product(asin, title, "", [""], [1.0], "$1.0", {}, ["x"], "c", "q", "p")


def plain_scores(texts: list[str], query: str) -> list[float]:
    """The formula of the module's docstring, a document and a term at a time, in single precision."""
    single = np.float32
    counts = [Counter(analyse(text)) for text in texts]
    lengths = [sum(count.values()) for count in counts]
    filled = sum(length > 0 for length in lengths)
    mean = single(sum(lengths) / filled)
    scores = []
    for count, length in zip(counts, lengths):
        total = 0.0
        for term, boost in Counter(analyse(query)).items():
            having = sum(term in other for other in counts)
            if not count[term]:
                continue
            idf = single(math.log(1 + (filled - having + 0.5) / (having + 0.5)))
            weight = single(boost) * idf
            norm = single(0.9) * ((single(1) - single(0.4)) + single(0.4) * single(shorten(length)) / mean)
            total += float(weight - weight / (single(1) + single(count[term]) * (single(1) / norm)))
        scores.append(float(single(total)))
    return scores


@pytest.fixture(scope="module")
def texts() -> list[str]:
    generator = random.Random(3)
    vocabulary = [f"w{number}" for number in range(60)]
    weights = [1 / (number + 1) for number in range(60)]
    return [" ".join(generator.choices(vocabulary, weights, k=generator.randint(1, 120))) for _ in range(300)]


@pytest.fixture(scope="module")
def made(texts: list[str], tmp_path_factory: pytest.TempPathFactory) -> Catalogue:
    shuffled = random.Random(1).sample(range(300), 300)
    products = [product(f"A{number:03d}", text) for number, text in zip(shuffled, texts)]
    return Catalogue.of(products, tmp_path_factory.mktemp("search") / "store")


@pytest.mark.parametrize("pruned", [False, True])
def test_ranking_is_that_of_the_formula(
    made: Catalogue, texts: list[str], pruned: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_PRUNE_FROM", 0 if pruned else 1 << 60)
    generator = random.Random(4)
    for _ in range(15):
        query = " ".join(f"w{generator.randrange(70)}" for _ in range(generator.randint(1, 12)))
        scores = plain_scores(texts, query)
        wanted = sorted(
            (number for number in range(300) if scores[number] > 0),
            key=lambda number: (-scores[number], made.asin(number)),
        )
        for count in (1, 5, 50):
            assert made.index.search(query, count) == wanted[:count]


def test_equal_scores_are_ordered_by_identifier(tmp_path: Path) -> None:
    names = ["C", "A", "B"]
    made = Catalogue.of([product(name, "same words here") for name in names], tmp_path / "store")
    assert made.search("words") == ["A", "B", "C"]
    assert made.search("words", 2) == ["A", "B"]


def test_lengths_go_through_one_byte() -> None:
    assert [shorten(length) for length in range(41)] == list(range(41))
    assert [shorten(length) for length in (41, 43, 59, 60, 500, 2**31 - 1)] == [
        40,
        42,
        56,
        60,
        472,
        2013265944,
    ]
    assert len(LENGTHS) == 256
    assert (np.diff(LENGTHS) > 0).all()


def test_nothing_to_find(made: Catalogue) -> None:
    for query in ("", "   ", "the of and", "!!!", "nosuchword"):
        assert made.search(query) == []


def test_too_long_a_query_is_refused_in_a_sentence(made: Catalogue) -> None:
    assert made.search(" ".join(f"w{number}" for number in range(1024)), 3)
    assert made.search("w1 " * 100_000, 3) == made.search("w1", 3)
    with pytest.raises(BadQuery, match=r"1,025 different search terms.*1,024.*Shorten"):
        made.search(" ".join(f"w{number}" for number in range(1025)))


def test_a_search_for_nothing_makes_no_sense(made: Catalogue) -> None:
    with pytest.raises(BadSetting, match="search for 0 products"):
        made.search("w1", 0)
