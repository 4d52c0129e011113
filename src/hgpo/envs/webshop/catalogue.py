"""The catalogue: products, prices, goals and search, opened from one store that all workers share."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import BadFile, BadSetting, DamagedStore, UnknownName
from . import sources
from .goals import Draft, Goal, Goals, synthetic_record
from .index import Index
from .indexing import IndexBuilder
from .product import Product
from .store import Store
from .store import write as write_store

FORMAT = 3
"""Changes when what is in a store changes; older stores are built again."""
_open: dict[Path, Catalogue] = {}
_opening = threading.Lock()
"""Held while a catalogue is opened: threads that start together share it."""


class Catalogue:
    """Products by position, in the order of the file; goals by index; search by query."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.index = Index(store)
        self.asins = store.array("asins")
        self.prices = store.array("prices")
        self._offsets = store.array("record_offsets")
        self._by_asin = store.array("asin_order")
        self._bounds = store.array("bounds")
        self._goal_products, self._goal_choices = store.array("goal_products"), store.array("goal_choices")
        human: list[Goal] = store.json("human_goals")
        self.goals: Sequence[Goal] = Goals(len(self._goal_products), self._goal)
        """The synthetic goals, in the original's order."""
        self.human_goals: Sequence[Goal] = Goals(len(human), lambda index: dict(human[index]))
        """The goals written by people, in the original's order."""
        self.product = lru_cache(maxsize=1024)(self._product)
        self._search = lru_cache(maxsize=1024)(self._positions)

    @classmethod
    def open(
        cls,
        folder: str | os.PathLike[str],
        *,
        size: str | None = None,
        store: str | os.PathLike[str] | None = None,
    ) -> Catalogue:
        """Open the catalogue of the official data files in `folder`, building its store if there is none.

        The store is built once, beside the data or, where that cannot be written, in the user's cache folder
        (`$XDG_CACHE_HOME/hgpo` or `~/.cache/hgpo`); a store that is out of date or damaged is built again.

        Args:
            folder: where the data files are.
            size: `"small"` or `"full"` where a folder has both.
            store: a folder to keep the store in instead.
        """
        files = sources.find(Path(folder), size)
        name = f"{files.products.stem}.hgpo-store"
        path = _place(files.products.parent, name, Path(store) if store is not None else None)
        made_from = files.fingerprint()

        def build(place: Path) -> None:
            human: Mapping[str, Any] = sources.load_json(files.human, dict) if files.human else {}
            build_store(place, sources.products(files), human, made_from)

        return cls.shared(path, made_from, build)

    @classmethod
    def of(cls, products: Iterable[Product], path: str | os.PathLike[str]) -> Catalogue:
        """Build a store at `path` from any products and open it; an existing store there is replaced."""
        place = Path(path)
        build_store(place, products, {}, [])
        return cls(Store.open(place))

    @classmethod
    def shared(cls, path: Path, made_from: Any, build: Callable[[Path], None]) -> Catalogue:
        """The one catalogue of this process for a store; built by one process while others wait.

        Args:
            path: where the store is or will be.
            made_from: what a store must have been made from (JSON-like) to be used.
            build: writes the store.
        """
        with _opening:
            return cls._shared(path, made_from, build)

    @classmethod
    def _shared(cls, path: Path, made_from: Any, build: Callable[[Path], None]) -> Catalogue:
        present = _open.get(path)
        if (
            present is not None
            and present.store.about["made_from"] == made_from
            and present.store.is_current()
        ):
            return present
        try:
            catalogue = cls(_fresh(path, made_from))
        except DamagedStore:
            with _alone(path):
                try:
                    catalogue = cls(_fresh(path, made_from))
                except DamagedStore as damage:
                    if path.exists():
                        warnings.warn(f"{damage} It is built again.", stacklevel=4)
                    _sweep(path)
                    build(path)
                    catalogue = cls(_fresh(path, made_from))
        _open[path] = catalogue
        return catalogue

    def __len__(self) -> int:
        return len(self.asins)

    @property
    def digest(self) -> str:
        """A fingerprint of every product; equal catalogues have equal digests on every machine."""
        return str(self.store.about["digest"])

    def _product(self, position: int) -> Product:
        start, end = self._offsets[position : position + 2].tolist()
        return Product.decode(self.store.bytes("records", start, end))

    def position(self, asin: str) -> int:
        """Where the product with an identifier is."""
        wanted = np.array(asin.encode("utf-8", "replace")[:40], dtype=self.asins.dtype)
        place = int(np.searchsorted(self.asins, wanted, sorter=self._by_asin))
        if place < len(self) and self.asins[self._by_asin[place]].decode() == asin:
            return int(self._by_asin[place])
        raise UnknownName(
            "product", asin, (), fix="Identifiers come from search results, such as 'B09QQP3356'."
        )

    def asin(self, position: int) -> str:
        """The identifier of the product at a position."""
        return str(self.asins[position].decode())

    def _positions(self, query: str, count: int) -> tuple[int, ...]:
        return tuple(self.index.search(query, count))

    def find(self, query: str, count: int = 50) -> tuple[int, ...]:
        """Positions of the products that match best, best first."""
        if count < 1:
            raise BadSetting(f"A search for {count} products makes no sense; ask for one at least.")
        return self._search(query, count)

    def search(self, query: str, count: int = 50) -> list[str]:
        """Identifiers of the products that match best, best first, as Lucene ranks them."""
        return [self.asin(position) for position in self.find(query, count)]

    def listed(self, column: str, value: str) -> list[int]:
        """Positions of the products whose `"category"` or `"query"` is exactly `value`."""
        names: list[str] = self.store.json(f"{column}_names")
        if value not in names:
            return []
        positions: list[int] = np.flatnonzero(
            self.store.array(f"{column}_codes") == names.index(value)
        ).tolist()
        return positions

    def _goal(self, index: int) -> Goal:
        position = int(self._goal_products[index])
        return synthetic_record(
            self.product(position),
            int(self._goal_choices[index]),
            float(self._bounds[position]),
        )


def build_store(path: Path, products: Iterable[Product], human: Mapping[str, Any], made_from: Any) -> None:
    """Read all products once and write their store."""
    draft = Draft(human)
    asins: list[bytes] = []
    offsets = [0]
    columns: dict[str, dict[str, int]] = {"category": {}, "query": {}}
    codes: dict[str, list[int]] = {"category": [], "query": []}
    digest = hashlib.sha256()
    about: dict[str, Any] = {"format": FORMAT, "made_from": made_from}
    path.parent.mkdir(parents=True, exist_ok=True)
    with write_store(path, about) as writer, IndexBuilder(path) as index:
        with writer.stream("records") as write:
            for product in products:
                row = product.encode()
                write(row)
                digest.update(row + b"\n")
                offsets.append(offsets[-1] + len(row))
                asins.append(product.asin.encode())
                for column, names in columns.items():
                    codes[column].append(names.setdefault(getattr(product, column), len(names)))
                draft.add(product)
                index.add(product.contents)
        if not asins:
            raise BadFile(f"There are no products to make the store {path} from.")
        arrays, human_goals = draft.arrays()
        for name, array in arrays.items():
            writer.add(name, array)
        identifiers = np.array(asins)
        writer.add("asins", identifiers)
        order = np.argsort(identifiers, kind="stable").astype(np.int32)
        writer.add("asin_order", order)
        writer.add("asin_ranks", np.argsort(order).astype(np.int32))
        writer.add("record_offsets", np.array(offsets, dtype=np.int64))
        for column, known in columns.items():
            writer.add(f"{column}_codes", np.array(codes[column], dtype=np.int32))
            _add_json(writer, f"{column}_names", list(known))
        _add_json(writer, "human_goals", human_goals)
        about.update(index.write(writer), digest=digest.hexdigest())


def _add_json(writer: Any, name: str, value: Any) -> None:
    writer.add(name, np.frombuffer(json.dumps(value).encode(), dtype=np.uint8))


def _fresh(path: Path, made_from: Any) -> Store:
    """The store at `path` if it is whole and made from these files."""
    if not path.is_file():
        raise DamagedStore(f"There is no store {path} yet.")
    store = Store.open(path)
    if store.about.get("format") != FORMAT or store.about.get("made_from") != made_from:
        raise DamagedStore(f"The store {path} was made from other files or by another version.")
    return store


def _place(folder: Path, name: str, wanted: Path | None) -> Path:
    """Where the store of the data in `folder` is or will be."""
    folder = folder.resolve()
    if wanted is not None:
        return wanted.resolve() / name
    # The mode is asked too: to the superuser every folder is writable, even one meant to stay as it is.
    writable = os.access(folder, os.W_OK) and folder.stat().st_mode & 0o222
    if writable or (folder / name).is_file():
        return folder / name
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hgpo"
    return cache / f"{hashlib.sha256(str(folder).encode()).hexdigest()[:12]}-{name}"


def _sweep(path: Path) -> None:
    """Remove what a build of this store that was killed has left; only one builds at a time."""
    for left in path.parent.glob(f".{path.name}.*.part"):
        if left.is_dir():
            shutil.rmtree(left, ignore_errors=True)
        else:
            left.unlink(missing_ok=True)


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Only one process at a time builds the store at `path`; a lock dies with its process."""
    try:
        import fcntl
    except ImportError:  # no locks on this system: two builders do the work twice, each store is whole
        yield
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = open(path.with_name(f".{path.name}.lock"), "w")  # noqa: SIM115
    except OSError as error:
        raise BadFile(
            f"The store {path} cannot be written ({error.strerror}). Name a folder for it with store=FOLDER."
        ) from error
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
