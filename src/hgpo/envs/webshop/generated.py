"""A shop made up from a seed: the same code as WebShop with no data files, for tests, tours and tiny models.

Texts are short and use few words (about 200 and one identifier a product), so that a word-level model can
learn the shop. Products of one kind differ in attributes, options and price; every goal can be met exactly.
Some kinds are never asked for in training: their goals are the out-of-domain split.
"""

from __future__ import annotations

import hashlib
import os
import random
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...errors import BadSetting
from .catalogue import Catalogue, build_store
from .env import WebShop
from .product import Product
from .taggers import Tagger

VERSION = 1
"""Changes when the same seed gives other products."""


@dataclass(frozen=True)
class Kind:
    """A kind of product and what varies in it."""

    name: str
    department: str
    attributes: Sequence[str]
    options: Sequence[tuple[str, Sequence[str]]]
    price: int
    """A usual price in dollars."""


_OPTIONS: dict[str, tuple[str, Sequence[str]]] = {
    "colours": ("color", ("red", "blue", "green", "black", "white", "pink")),
    "sizes": ("size", ("small", "medium", "large", "x-large")),
    "packs": ("size", ("one pack", "two packs", "six packs")),
    "flavours": ("flavor name", ("lemon", "cherry", "vanilla", "mint", "cocoa")),
    "scents": ("scent", ("rose", "cedar", "citrus", "plain")),
    "woods": ("color", ("oak", "walnut", "pine", "birch")),
}
_TABLE = """
socks | clothing | soft wool, no seam, quick dry, arch support | colours sizes | 9
lamp | home | warm light, touch control, long cable, solid wood | woods | 35
tea | grocery | caffeine free, loose leaf, hand picked, low acid | flavours packs | 12
backpack | bags | water proof, laptop pocket, light weight, chest strap | colours | 48
soap | beauty | sea salt, oil free, dry skin, plant based | scents packs | 8
jacket | clothing | wind proof, deep pockets, warm lining, slim fit | colours sizes | 75
cookies | grocery | gluten free, low sugar, whole grain, nut free | flavours packs | 7
desk | home | easy assembly, steel frame, cable tray, height range | woods | 160
mug | kitchen | double wall, leak proof, wide handle, dish washer | colours | 14
shampoo | beauty | sulfate free, daily use, curly hair, dry scalp | scents packs | 11
sandals | shoes | rubber sole, open toe, ankle strap, memory foam | colours sizes | 30
speaker | electronics | long battery, deep bass, fast pairing, shock proof | colours | 55
pillow | home | cooling gel, firm support, machine wash, down fill | sizes | 26
candle | home | soy wax, slow burn, glass jar, cotton wick | scents | 16
gloves | clothing | touch screen, fleece lining, strong grip, knit cuff | colours sizes | 18
shelf | home | wall mount, five tiers, rust proof, open back | woods | 65
"""


def _kind(line: str) -> Kind:
    name, department, attributes, options, price = (part.strip() for part in line.split("|"))
    chosen = [_OPTIONS[option] for option in options.split()]
    return Kind(name, department, attributes.split(", "), chosen, int(price))


KINDS = tuple(_kind(line) for line in _TABLE.strip().splitlines())
_MAKERS = ("alba", "brio", "cora", "dune", "echo", "fern", "gala", "halo", "iris", "juno", "kite", "luma")


def _subsets(kind: Kind, generator: random.Random) -> Iterator[list[str]]:
    """Different sets of two or three attributes, then repeats in another order."""
    names = list(kind.attributes)
    pairs = [[one, two] for i, one in enumerate(names) for two in names[i + 1 :]]
    triples = [[name for name in names if name != left] for left in names]
    while True:
        sets = [list(part) for part in (*pairs, *triples)]
        generator.shuffle(sets)
        yield from sets


def products(count: int, seed: int, values: int) -> Iterator[Product]:
    """The first `count` products of the shop of `seed`, with up to `values` values for each option."""
    generator = random.Random(f"hgpo-shop/{VERSION}/{seed}")
    kinds = list(KINDS[: max(2, min(len(KINDS), count // 3))])
    attributes = {kind.name: _subsets(kind, generator) for kind in kinds}
    for number in range(count):
        kind = kinds[number % len(kinds)]
        own = next(attributes[kind.name])
        options = {
            name: sorted(generator.sample(list(choices), min(values, len(choices))), key=list(choices).index)
            for name, choices in kind.options
        }
        price = round(kind.price * generator.uniform(0.5, 1.6), 2)
        title = f"{generator.choice(_MAKERS)} {own[0]} {kind.name}"
        yield Product(
            asin=f"P{number:03d}",
            title=title,
            description=f"{kind.name} with {' and '.join(own)}",
            features=[*own],
            prices=[price],
            price_tag=f"${price}",
            options=options,
            attributes=own,
            category=kind.department,
            query=kind.name,
            product_category=f"{kind.department} › {kind.name}",
            instruction=f"Find me {', '.join(own)} {kind.name}",
            instruction_attributes=own,
        )


def held_out(catalogue: Catalogue) -> set[str]:
    """The kinds that training never asks for: every fifth, at least one."""
    names: list[str] = catalogue.store.json("query_names")
    return set(names[4::5] or names[-1:])


def shop(
    *,
    products: int = 48,
    seed: int = 0,
    values: int = 3,
    num_goals: int | None = None,
    max_steps: int | None = 12,
    window: int = 5,
    results: int = 10,
    store: str | os.PathLike[str] | None = None,
    tagger: Tagger | str | None = "builtin",
    reward: str = "success",
    show_attributes: bool = False,
) -> WebShop:
    """The generated shop.

    Args:
        products: how many products it sells, at most 999.
        seed: which shop; a seed gives the same shop on every machine.
        values: values of each option, which decides how many goals a product has.
        num_goals: use only this many goals for training, and at most as many in each other split.
        max_steps: cut an episode after this many actions.
        window: products on a page of results.
        results: products a search returns.
        store: a folder for the store; by default the user's cache folder.
        tagger: what finds the nouns in titles; see `taggers.choose_tagger`.
        reward: `"success"` gives 10 for a perfect purchase and 0 otherwise; `"score"` gives the score.
        show_attributes: item pages have a button to the attributes.
    """
    for name, value, most in (
        ("products", products, 999),
        ("values", values, 6),
        ("num_goals", num_goals, None),
    ):
        if value is not None and (value < 1 or (most is not None and value > most)):
            limit = f"1 to {most}" if most else "1 or more"
            raise BadSetting(f"{name}={value} is outside what the generated shop allows ({limit}).")
    catalogue = _catalogue(products, seed, values, Path(store) if store is not None else None)
    strangers = held_out(catalogue)
    known: list[int] = []
    foreign: list[int] = []
    for index, goal in enumerate(catalogue.goals):
        (foreign if goal["query"] in strangers else known).append(index)
    tested = max(1, len(known) // 5)
    splits = {"train": known[tested:], "in-domain": known[:tested], "out-of-domain": foreign}
    if num_goals is not None:
        splits = {name: indices[:num_goals] for name, indices in splits.items()}
    env = WebShop(
        catalogue,
        tagger=tagger,
        reward=reward,
        max_steps=max_steps,
        show_attributes=show_attributes,
        splits=splits,
        window=window,
        results=results,
    )
    # A new version of the pages and a new version of the products both make a new world.
    env.world_version += VERSION - 1
    return env


def _catalogue(count: int, seed: int, values: int, folder: Path | None) -> Catalogue:
    made_from = ["shop", VERSION, count, seed, values]
    key = hashlib.sha256(repr(made_from).encode()).hexdigest()[:12]
    if folder is None:
        folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hgpo"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            usable = os.access(folder, os.W_OK)
        except OSError:
            usable = False
        if not usable:
            folder = Path(tempfile.gettempdir()) / f"hgpo-{os.getuid() if hasattr(os, 'getuid') else 'user'}"

    def build(path: Path) -> None:
        build_store(path, products(count, seed, values), {}, made_from)

    return Catalogue.shared(folder / f"shop-{key}.hgpo-store", made_from, build)
