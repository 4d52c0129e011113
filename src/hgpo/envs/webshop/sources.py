"""The official data files: where they are and how to read them a product at a time.

A folder holds `items_shuffle.json` (all products), or `items_shuffle_1000.json` (the small set), with the
matching `items_ins_v2*.json` (attributes and instructions), `items_human_ins*.json` (instructions written by
people, optional) and `reviews.json` (optional).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from ...errors import BadFile, BadSetting
from ...progress import Progress
from .product import Product, normalise

HELP = (
    "The files come with WebShop (princeton-nlp/WebShop on GitHub, setup.sh): items_shuffle_1000.json, "
    "items_ins_v2_1000.json for the small set, items_shuffle.json and items_ins_v2.json for the full one, "
    "and items_human_ins.json. Without them, make('shop') gives a generated catalogue."
)
SIZES = {"small": "_1000", "full": ""}
_CHUNK = 1 << 22


@dataclass(frozen=True)
class Sources:
    """The files of one catalogue."""

    products: Path
    attributes: Path
    human: Path | None
    reviews: Path | None

    @property
    def files(self) -> list[Path]:
        """Every file that is there."""
        return [path for path in (self.products, self.attributes, self.human, self.reviews) if path]

    def fingerprint(self) -> list[list[str | int]]:
        """Name, size and time of each file: what must be unchanged for a store to be up to date."""
        return [[path.name, path.stat().st_size, path.stat().st_mtime_ns] for path in self.files]


def find(folder: Path, size: str | None = None) -> Sources:
    """The files in `folder`; with both sets there, the small one unless `size` is `"full"`."""
    if size is not None and size not in SIZES:
        raise BadSetting(f"size={size!r} is not a catalogue size. Choose 'small' or 'full', or leave it out.")
    if not folder.is_dir():
        raise BadFile(f"The WebShop data folder {folder} does not exist. {HELP}")
    for suffix in [SIZES[size]] if size else SIZES.values():
        products = folder / f"items_shuffle{suffix}.json"
        if products.is_file():
            attributes = folder / f"items_ins_v2{suffix}.json"
            if not attributes.is_file():
                raise BadFile(
                    f"{products} is there but {attributes.name}, which belongs to it, is not. {HELP}"
                )
            human = [folder / f"items_human_ins{suffix}.json", folder / "items_human_ins.json"]
            reviews = folder / "reviews.json"
            return Sources(
                products=products,
                attributes=attributes,
                human=next((path for path in human if path.is_file()), None),
                reviews=reviews if reviews.is_file() else None,
            )
    wanted = f"items_shuffle{SIZES[size]}.json" if size else "items_shuffle.json or items_shuffle_1000.json"
    raise BadFile(f"No {wanted} in {folder}. {HELP}")


def load_json(path: Path, kind: type) -> Any:
    """The JSON value of a file, which must be a list or an object."""
    try:
        with open(path, encoding="utf-8") as file:
            value = json.load(file)
    except (ValueError, OSError) as error:
        raise BadFile(f"{path} is not readable JSON ({error}). Download it again.") from error
    if not isinstance(value, kind):
        raise BadFile(
            f"{path} holds a JSON {type(value).__name__}, expected a {kind.__name__}. Is it WebShop's file?"
        )
    return value


def rows(path: Path) -> Iterator[Any]:
    """The elements of a JSON array, one at a time: the full product file is too large to load whole."""
    decoder = json.JSONDecoder()
    with (
        open(path, encoding="utf-8") as file,
        Progress(f"reading {path.name}", total=path.stat().st_size) as bar,
    ):
        buffer = _read(path, file, _CHUNK)
        position = _skip(buffer, 0, " \t\r\n\ufeff")
        if buffer[position : position + 1] != "[":
            raise BadFile(f"{path} is not a JSON list of products (it does not start with '['). {HELP}")
        position += 1
        count = 0
        while True:
            start = position = _skip(buffer, position, " \t\r\n,")
            if buffer[position : position + 1] == "]":
                return
            try:
                value, position = decoder.raw_decode(buffer, position)
            except ValueError as error:
                more = _read(path, file, max(_CHUNK, len(buffer) - position))
                if not more:
                    raise BadFile(
                        f"{path} ends or breaks in product number {count + 1}: it is truncated or damaged. "
                        "Download it again."
                    ) from error
                buffer, position = buffer[position:] + more, 0
                continue
            count += 1
            bar.add(position - start)
            yield value


def _read(path: Path, file: TextIO, size: int) -> str:
    try:
        return file.read(size)
    except UnicodeDecodeError as error:
        raise BadFile(f"{path} is not UTF-8 text ({error.reason}). Download it again.") from error


def _skip(text: str, position: int, blanks: str) -> int:
    while position < len(text) and text[position] in blanks:
        position += 1
    return position


def products(sources: Sources) -> Iterator[Product]:
    """The products in file order; repeated ones and those without a proper identifier are left out."""
    attributes: Mapping[str, Any] = load_json(sources.attributes, dict)
    reviews: dict[str, Any] = {}
    if sources.reviews:
        reviews = {row["asin"]: row for row in load_json(sources.reviews, list)}
    seen: set[str] = set()
    for number, row in enumerate(rows(sources.products), start=1):
        place = f"Product number {number} of {sources.products}"
        asin = row.get("asin") if isinstance(row, dict) else None
        if not isinstance(asin, str):
            raise BadFile(f"{place} has no field 'asin'. Expected a row of WebShop's product file.")
        if asin == "nan" or len(asin) > 10 or asin in seen:
            continue
        seen.add(asin)
        about = attributes.get(asin, {})
        if not isinstance(about, dict):
            raise BadFile(f"{sources.attributes} says nothing usable about {asin}: expected an object.")
        yield normalise(row, about, reviews.get(asin, {}), place)
    if not seen:
        raise BadFile(f"{sources.products} holds no products. {HELP}")
