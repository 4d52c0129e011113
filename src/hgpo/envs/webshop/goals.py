"""Goals: what a session asks the shopper to buy.

The random draws are those of the original environment with its seed: first a price for every product that
has a range, in file order; then, product by product, an upper bound for the price; then, after the generator
has been seeded again, the order of the goals. A synthetic goal is a product and one value for each of its
options, so the list is kept as pairs (product, combination) and a record is written out when it is asked
for.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from ...errors import BadFile
from .product import Product

SEED = 233
BOUNDS = [10.0 * step for step in range(1, 100)]
NO_BOUND = 1_000_000
"""The upper price of a goal whose product costs too much for any of the bounds."""

Goal = dict[str, Any]


def draw_prices(ranges: Iterable[Sequence[float]], generator: random.Random) -> NDArray[np.float64]:
    """The price each product is sold at: its one price, or a draw from its range."""
    return np.array([prices[0] if len(prices) == 1 else generator.uniform(*prices) for prices in ranges])


def draw_bound(price: float, generator: random.Random) -> float:
    """The larger of two different bounds out of the next four above the price."""
    above = [bound for bound in BOUNDS if bound > price][:4]
    return max(generator.sample(above, 2)) if len(above) >= 2 else NO_BOUND


def bound_text(bound: float) -> str:
    """How an instruction says the bound."""
    return "" if bound == NO_BOUND else f", and price lower than {bound:.2f} dollars"


def combinations(options: Mapping[str, Sequence[str]]) -> int:
    """In how many ways the options of a product can be chosen."""
    return math.prod(len(values) for values in options.values())


def choose(options: Mapping[str, Sequence[str]], number: int) -> dict[str, str]:
    """The options of combination `number`: names sorted, the last name varies fastest."""
    chosen = []
    for name in sorted(options, reverse=True):
        number, index = divmod(number, len(options[name]))
        chosen.append((name, options[name][index]))
    return dict(reversed(chosen))


def synthetic_record(product: Product, number: int, bound: float) -> Goal:
    """The goal that asks for `product` with the options of combination `number`."""
    chosen = choose(product.options, number)
    text = ", and ".join(f"{name}: {value}" for name, value in chosen.items())
    return {
        "asin": product.asin,
        "category": product.category,
        "query": product.query,
        "name": product.title,
        "product_category": product.product_category,
        "instruction_text": f"{product.instruction}{' with ' + text if text else ''}{bound_text(bound)}",
        "attributes": list(product.instruction_attributes),
        "price_upper": NO_BOUND if bound == NO_BOUND else float(bound),
        "goal_options": chosen,
    }


def human_records(
    product: Product, instructions: Sequence[Mapping[str, Any]], price: float, generator: random.Random
) -> list[Goal]:
    """The goals people wrote about a product; those without attributes are left out."""
    goals = []
    for instruction in instructions:
        try:
            attributes = instruction["instruction_attributes"]
            if not attributes:
                continue
            bound = draw_bound(price, generator)
            goals.append(
                {
                    "asin": product.asin,
                    "category": product.category,
                    "query": product.query,
                    "name": product.title,
                    "product_category": product.product_category,
                    "instruction_text": instruction["instruction"].strip(".") + bound_text(bound),
                    "attributes": attributes,
                    "price_upper": bound,
                    "goal_options": instruction["instruction_options"],
                }
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise BadFile(
                f"The human instructions about {product.asin} are not in WebShop's format ({error!r})."
            ) from error
    return goals


class Draft:
    """Collects what goals need while products go by, then makes every draw in the original's order."""

    def __init__(self, human: Mapping[str, Any]) -> None:
        self.human = human
        self.ranges: list[Sequence[float]] = []
        self.asked: list[tuple[int, int]] = []
        self.told: list[tuple[int, Product]] = []

    def add(self, product: Product) -> None:
        """Take note of the next product."""
        number = len(self.ranges)
        self.ranges.append(product.prices)
        if product.instruction is not None:
            if not product.instruction_attributes:
                raise BadFile(
                    f"Product {product.asin} has an instruction but no instruction attributes, so its goals "
                    "could not be scored. Is the attribute file WebShop's items_ins_v2?"
                )
            self.asked.append((number, combinations(product.options)))
        if product.asin in self.human:
            self.told.append((number, product))

    def arrays(self) -> tuple[dict[str, NDArray[Any]], list[Goal]]:
        """The drawn prices, bounds and goal order, and the human goals.

        Returns:
            arrays: `prices`, `bounds` [products], `goal_products`, `goal_choices` [goals]
            human: the records of the human goals, in order.
        """
        generator = random.Random(SEED)
        prices = draw_prices(self.ranges, generator)
        state = generator.getstate()
        bounds = np.zeros(len(prices))
        for number, _ in self.asked:
            bounds[number] = draw_bound(float(prices[number]), generator)
        ways = [ways for _, ways in self.asked]
        order = list(range(sum(ways)))
        random.Random(SEED).shuffle(order)
        shuffled = np.array(order, dtype=np.int64)
        owners = np.repeat(np.array([number for number, _ in self.asked], dtype=np.int32), ways)
        choices = np.fromiter(
            itertools.chain.from_iterable(map(range, ways)), dtype=np.int32, count=len(shuffled)
        )
        generator.setstate(state)
        human: list[Goal] = []
        for number, product in self.told:
            human += human_records(product, self.human[product.asin], float(prices[number]), generator)
        random.Random(SEED).shuffle(human)
        return {
            "prices": prices,
            "bounds": bounds,
            "goal_products": owners[shuffled] if len(shuffled) else owners,
            "goal_choices": choices[shuffled] if len(shuffled) else choices,
        }, human


class Goals(Sequence[Goal]):
    """Goal records by index, each made when it is asked for."""

    def __init__(self, count: int, record: Callable[[int], Goal]) -> None:
        self._count, self._record = count, record

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> Goal: ...

    @overload
    def __getitem__(self, index: slice) -> list[Goal]: ...

    def __getitem__(self, index: int | slice) -> Goal | list[Goal]:
        if isinstance(index, slice):
            return [self._record(number) for number in range(*index.indices(self._count))]
        if not -self._count <= index < self._count:
            raise IndexError(f"Goal {index} of {self._count}")
        return self._record(index % self._count)
