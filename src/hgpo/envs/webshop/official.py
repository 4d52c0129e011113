"""The official shop data in its default place, and whether it is what the published runs used."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ...errors import BadFile
from ...files import atomic_path
from ...progress import Progress
from .catalogue import Catalogue
from .sources import find

SMALL_GOALS = "969510c86d16cbabea58522719ab7ac2ab3c74e532c8bc491361a44327241514"
"""`CatalogueCheck.digest` of the 1,000 products, as the original environment makes their goals."""
MANY_GOALS = 100_000
_KEYS = (
    *("asin", "category", "query", "name", "product_category", "instruction_text", "attributes"),
    *("price_upper", "goal_options"),
)
_PIECE = 1 << 22


@dataclass(frozen=True)
class CatalogueCheck:
    """What a catalogue is."""

    products: int
    goals: int
    human_goals: int
    digest: str
    """Of all goals in order; of the products where there are more than `MANY_GOALS` goals."""
    store: Path
    """The file that all environments of a machine share."""

    @property
    def official(self) -> bool | None:
        """Whether these are the official goals; None for larger catalogues, of which no digest was recorded."""
        return self.digest == SMALL_GOALS if self.goals <= MANY_GOALS else None


def fill(source: Path, target: Path, size: str | None = None) -> list[Path]:
    """Put the official files that lie in `source` into the folder `target`; returns those that were not there before.

    They are linked where the file system allows it and copied where not; a file that is there with other content is
    never replaced.

    Raises:
        BadFile: a file is missing, or there is another one in its place.
    """
    files = find(source, size).files
    new = [file for file in files if not _present(file, target / file.name)]
    target.mkdir(parents=True, exist_ok=True)
    for file in new:
        _put(file, target / file.name)
    return [target / file.name for file in new]


def check_catalogue(folder: Path, size: str | None = None) -> CatalogueCheck:
    """Open the catalogue in a folder, building its store where there is none, and count what is in it.

    Raises:
        BadFile: a file is missing or damaged.
    """
    catalogue = Catalogue.open(folder, size=size)
    many = len(catalogue.goals) > MANY_GOALS
    return CatalogueCheck(
        len(catalogue),
        len(catalogue.goals),
        len(catalogue.human_goals),
        catalogue.digest if many else goals_digest(catalogue),
        catalogue.store.path,
    )


def goals_digest(catalogue: Catalogue) -> str:
    """The sha256 of all synthetic goals in order, as it was recorded from the original."""
    goals: Sequence[dict[str, object]] = [{key: goal[key] for key in _KEYS} for goal in catalogue.goals]
    return hashlib.sha256(json.dumps(goals, sort_keys=True).encode()).hexdigest()


def _present(file: Path, place: Path) -> bool:
    """Whether the file is at `place` already."""
    if not os.path.lexists(place):
        return False
    if place.is_file() and (os.path.samefile(file, place) or _same_content(file, place)):
        return True
    raise BadFile(
        f"{place} is there already and is not {file}. Move it away, or choose another folder with --out."
    )


def _same_content(one: Path, other: Path) -> bool:
    if one.stat().st_size != other.stat().st_size:
        return False
    with open(one, "rb") as left, open(other, "rb") as right:
        while piece := left.read(_PIECE):
            if piece != right.read(_PIECE):
                return False
    return True


def _put(file: Path, place: Path) -> None:
    try:
        os.link(os.path.realpath(file), place)
        return
    except OSError:  # another file system, or one without links
        pass
    with atomic_path(place) as partial:
        with (
            open(file, "rb") as content,
            open(partial, "wb") as out,
            Progress(f"copying {file.name}", total=file.stat().st_size) as progress,
        ):
            while piece := content.read(_PIECE):
                out.write(piece)
                progress.add(len(piece))
        shutil.copystat(file, partial)
        partial.chmod(0o644)
