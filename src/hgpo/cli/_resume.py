"""Continuing a run: what was asked is done, or refused."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..config import Config
    from ..runs.folder import RunFolder


def resumed_folder(named: str | None, folder: str | None, preset: str | None) -> Path | None:
    """The folder of a run to continue; None where nothing is to be continued.

    Args:
        named: what `--resume` was given: None without the option, empty without a folder.
        folder: what `--run` was given.
        preset: the preset of the command; with one and `--run` a run that is not there yet may begin.

    Raises:
        BadSetting: no folder, or two.
        UnknownName: there is no run of that name.
    """
    from ..errors import BadFile, BadSetting, UnknownName
    from ..runs.folder import RunFolder

    if named is None:
        return None
    if named and folder and Path(named).resolve() != Path(folder).resolve():
        raise BadSetting(
            f"--resume {named} and --run {folder} name two folders, and a run goes on in its own. Give one of them; "
            "a preset comes before the options."
        )
    given = named or folder
    if not given:
        raise BadSetting("--resume needs the folder of the run: hgpo train --resume RUN.")
    run = RunFolder(Path(given))
    if run.exists() or (folder and preset):
        return run.path
    if run.checkpoint_parent.exists() or run.metrics_file.exists():
        raise BadFile(f"{run.config_file} is missing, so the run cannot go on. Restore it from a copy.")
    raise UnknownName("run", given, known_runs(run.path), "To begin a run: hgpo train PRESET --run FOLDER.")


def known_runs(place: Path) -> list[str]:
    """The runs beside `place` and where runs go by default."""
    base = Path(os.environ.get("CHECKPOINTS_DIR", "runs"))
    found = [
        *place.parent.glob("*/metrics.jsonl"),
        *base.glob("*/metrics.jsonl"),
        *base.glob("*/*/metrics.jsonl"),
    ]
    return sorted({str(file.parent) for file in found})


def as_asked(config: Config, run: RunFolder, preset: str | None, words: Sequence[str]) -> Config:
    """The settings of a run, of the length that the preset and words ask for.

    Raises:
        BadSetting: they ask for another run.
    """
    from ..config import as_dict, load
    from ..errors import BadSetting
    from ..runs.folder import LENGTH

    if not preset:
        return config
    asked = load(preset, words)
    own, wanted = _flat(as_dict(config)), _flat(as_dict(asked))
    for name in sorted({*own, *wanted}):
        if name not in LENGTH and own.get(name) != wanted.get(name):
            raise BadSetting(
                f"{' '.join([preset, *words])} is not the run in {run.path}: {name} is {wanted.get(name)!r}, and "
                f"{own.get(name)!r} there. Give the settings that it was begun with, or none: --resume {run.path}."
            )
    return replace(config, **{name: getattr(asked, name) for name in LENGTH})


def _flat(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """`{"a": {"b": 1}}` as `{"a.b": 1}`."""
    flat: dict[str, Any] = {}
    for name, value in tree.items():
        flat |= _flat(value, f"{prefix}{name}.") if isinstance(value, Mapping) else {f"{prefix}{name}": value}
    return flat
