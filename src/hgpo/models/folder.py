"""A model's folder: Hugging Face format, and beside it `hgpo.json` with what the model was trained with."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ..digests import check_files, digests, sealed, unsealed
from ..errors import BadFile
from ..files import atomic_folder, read_json

SaveModel = Callable[[Path], None]
"""Writes a model in Hugging Face format into a folder that exists."""
SETTINGS = "hgpo.json"
"""So that evaluation knows K and the prompts, and adapters their base."""
CARD = "README.md"
"""What the model is, for people and hubs; see `hgpo.models.card`."""


RESTORE = "Restore it from a copy, or use another checkpoint"


def write_model(
    folder: Path,
    save_model: SaveModel,
    settings: Mapping[str, Any],
    iteration: int | None = None,
    card: str = "",
) -> None:
    """Write a model's folder whole, in the place of an earlier one.

    Args:
        folder, save_model, settings, iteration: as for `fill_model`.
        card: the model's card; one that somebody wrote or edited is kept instead.
    """
    kept = _foreign_card(folder)
    with atomic_folder(folder) as partial:
        fill_model(partial, save_model, settings, iteration=iteration)
        # Not among the digests: people may edit it.
        if kept is not None:
            (partial / CARD).write_bytes(kept)
        elif card and not (partial / CARD).exists():
            (partial / CARD).write_text(card, encoding="utf-8", errors="backslashreplace")


def _foreign_card(folder: Path) -> bytes | None:
    """The card in a folder, unless it is as we wrote it."""
    from .card import is_ours

    path = folder / CARD
    if not path.is_file():
        return None
    content = path.read_bytes()
    return None if is_ours(content.decode("utf-8", "replace")) else content


def fill_model(
    folder: Path,
    save_model: SaveModel,
    settings: Mapping[str, Any],
    base: str | None = None,
    iteration: int | None = None,
) -> None:
    """Write the files of a model into a folder that exists, with the digest of each.

    Args:
        folder: where to.
        save_model: writes the model itself.
        settings: the settings it was trained with.
        base: of adapters, the folder of the model they belong to, relative to `folder`: both may be moved together.
        iteration: after how many iterations of a run.
    """
    save_model(folder)
    known = {"config": settings, "base": base, "iteration": iteration, "files": digests(folder)}
    content = sealed({key: value for key, value in known.items() if value is not None})
    (folder / SETTINGS).write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def check_model(folder: Path) -> None:
    """Compare the files of a model with the digests in its `hgpo.json`; files that are not listed are not looked at.

    Raises:
        BadFile: a file is missing or is not the one that was written.
    """
    expected = listed(folder)
    if left_out(folder):
        raise BadFile(
            f"{folder} has only the digests of its files: they were left out of a parcel. Go on with the run "
            "(`hgpo train --resume`), which makes them again, or bring the whole folder here."
        )
    check_files(
        folder,
        expected,
        f"{RESTORE}; if you changed the file yourself, take `files` and `digest` out of {SETTINGS}",
    )


def left_out(folder: Path) -> bool:
    """Whether a model's folder was brought here without its files, of which `hgpo.json` has the digests."""
    expected = listed(folder)
    return bool(expected) and not any((folder / name).exists() for name in expected)


def make_again(folder: Path, save_model: SaveModel) -> None:
    """Put the files that were left out back into a model's folder, or change nothing if others come out.

    Raises:
        BadFile: what `save_model` writes is not what the folder has the digests of.
    """
    with atomic_folder(folder) as partial:
        save_model(partial)
        made = digests(partial)
        others = [name for name, digest in listed(folder).items() if made.get(name) != digest]
        if others:
            raise BadFile(
                f"{folder} had been left out of a parcel; made again, {' and '.join(others)} came out otherwise. "
                "Another kind of machine, another model or other versions do that. Bring the run with its start (`hgpo "
                "carry pack` without --without-start), or go on with it where it began."
            )
        for kept in folder.iterdir():
            (partial / kept.name).write_bytes(kept.read_bytes())


def model_iteration(folder: Path) -> int | None:
    """After how many iterations of a run the model was written; None where that is not known."""
    iteration = (_content(folder) or {}).get("iteration")
    return iteration if isinstance(iteration, int) else None


def model_settings(folder: Path) -> dict[str, Any] | None:
    """The settings that the model in `folder` was trained with; None where there is no `hgpo.json`."""
    content = _content(folder)
    if content is None:
        return None
    if not isinstance(content.get("config"), dict):
        raise BadFile(f"{folder / SETTINGS} does not hold the settings of a run.")
    return dict(content["config"])


def base_model(folder: Path) -> Path | None:
    """The folder that `hgpo.json` names as the base of the adapters in `folder`, if it is there."""
    base = (_content(folder) or {}).get("base")
    named = (folder / base).resolve() if isinstance(base, str) else None
    return named if named is not None and named.is_dir() else None


def listed(folder: Path) -> dict[str, str]:
    """The digests of a model's files by their names; empty where none are known."""
    expected = (_content(folder) or {}).get("files", {})
    if not isinstance(expected, dict):
        raise BadFile(f"{folder / SETTINGS} does not hold the digests of a model's files.")
    return expected


def _content(folder: Path) -> dict[str, Any] | None:
    path = folder / SETTINGS
    if not path.is_file():
        return None
    content = read_json(path, "the settings of a model")
    return unsealed(content, path, f"{RESTORE}; if you edited it yourself, take `digest` out of it")
