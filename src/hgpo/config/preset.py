"""Presets: TOML files of settings, shipped with the package or a user's own, that say what differs from another.

description = "My 3B model in ALFWorld."
base = "alfworld-qwen2.5-1.5b"          # a preset's name, or a path to a TOML file from this one

[model]
path = "models/my-3b"
"""

from __future__ import annotations

import importlib
from importlib import resources
from pathlib import Path
from typing import Any, cast

from ..envs.registry import is_address
from ..envs.registry import names as env_names
from ..errors import BadFile, BadSetting, MissingExtra, UnknownName
from .own import PRESET
from .tree import canonical, overlay

_FOLDER = "presets"


def preset_names() -> list[str]:
    """The presets shipped with the package."""
    folder = resources.files(__package__) / _FOLDER
    return sorted(entry.name[:-5] for entry in folder.iterdir() if entry.name.endswith(".toml"))


def preset_description(preset: str) -> str:
    """The sentence of a preset, empty where it has none."""
    if is_environment(preset):
        preset = PRESET
    return str(_read(preset).get("description", ""))


def is_environment(preset: str) -> bool:
    """Whether an environment stands where a preset might: an address, or a registered name that no preset has."""
    if preset.endswith(".toml") or preset in preset_names():
        return False
    return is_address(preset) or preset in env_names()


def preset_tree(preset: str) -> dict[str, Any]:
    """All settings of a preset (a name, or a path that ends in .toml) with those of its bases, as a canonical tree.

    For an environment they are those of the preset `own`.
    """
    if is_environment(preset):
        return overlay(_with_bases(PRESET, ()), {"env": {"name": preset}})
    return _with_bases(preset, ())


def _with_bases(preset: str, before: tuple[str, ...]) -> dict[str, Any]:
    # A path and a longer way to write it are the same preset.
    identity = str(Path(preset).resolve()) if preset.endswith(".toml") else preset
    if identity in before:
        raise BadSetting(
            f"The presets {' -> '.join([*before, identity])} are each other's base; expected a chain that ends."
        )
    content = _read(preset)
    content.pop("description", None)
    base = content.pop("base", None)
    tree = canonical(content)
    if base is None:
        return tree
    if not isinstance(base, str):
        raise BadSetting(f"base={base!r} was given in {preset}; expected the name of a preset or a path.")
    if base.endswith(".toml") and preset.endswith(".toml"):
        base = str(Path(preset).parent / base)
    return overlay(_with_bases(base, (*before, identity)), tree)


def _read(preset: str) -> dict[str, Any]:
    if preset.endswith(".toml"):
        try:
            text = Path(preset).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or error
            raise BadFile(f"Cannot read the preset {preset}: {reason}.") from error
    else:
        if preset not in preset_names():
            raise UnknownName(
                "preset",
                preset,
                preset_names(),
                fix="Or give a path that ends in .toml, or an environment: FILE.py:Class.",
            )
        text = (resources.files(__package__) / _FOLDER / f"{preset}.toml").read_text(encoding="utf-8")
    toml = _toml()
    try:
        return cast("dict[str, Any]", toml.loads(text))
    except toml.TOMLDecodeError as error:
        raise BadFile(f"The preset {preset} is not valid TOML: {error}.") from error


def _toml() -> Any:
    for name in ("tomllib", "tomli"):
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    raise MissingExtra("tomli", "train", "Reading presets on Python 3.10")
