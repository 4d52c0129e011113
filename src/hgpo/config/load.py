"""From presets and `key=value` words to a `Config`, and from a `Config` to plain values and back."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping
from typing import Any

from ..envs.registry import settings_of_env
from ..errors import BadSetting, UnknownName
from ..estimators.table import ESTIMATORS
from ..settings import Setting, check_all, settings_of
from ..words import parse_value, split_word
from .own import MODEL_PRESET, fitted
from .preset import is_environment, preset_tree
from .schema import Config
from .tree import OPEN, SHORT_NAMES, canonical, chosen, overlay, place, put, section

# Settings that only the published estimator has: their short names ask for it, whatever the preset's estimator is.
HGPO_ONLY = frozenset({"weight_type", "length_weight_alpha", "base_group"})


def load(preset: str | None = None, overrides: Iterable[str] = ()) -> Config:
    """The config of a preset (a name, or a path to a TOML file) with `key=value` words applied.

    Without a preset every setting starts at its default. An environment (`path/file.py:Class`) stands for the preset
    `own` fitted to it, or `own-model` where the words name a model.
    """
    words = list(overrides)
    tree = preset_tree(preset) if preset else {}
    if preset and is_environment(preset):
        given = apply(tree, words)
        if given["model"].get("path", "tiny") != "tiny":
            tree = overlay(preset_tree(MODEL_PRESET), {"env": {"name": preset}})
        tree = overlay(tree, fitted(given["env"]["name"], given["env"].get("settings", {})))
    return build(apply(tree, words))


def apply(tree: Mapping[str, Any], overrides: Iterable[str]) -> dict[str, Any]:
    """A nested dict of settings with `key=value` words applied, each value read by the type of its setting."""
    tree = canonical(tree)
    words = [split_word(word) for word in overrides]
    # Which estimator and environment decides what their settings are, wherever in the words they are named.
    names: dict[str, Any] = {}
    for key, text in words:
        if len(place(key)) == 2 and place(key)[0] in OPEN and place(key)[1] == "name":
            put(names, place(key), text)
        elif key in HGPO_ONLY:
            names.setdefault("estimator", {}).setdefault("name", "hgpo")
    tree = overlay(tree, names)
    given: dict[str, Any] = {}
    for key, text in words:
        one = find_setting(place(key), tree)
        if one is None and place(key)[0] not in OPEN:
            raise unknown(key)
        value = parse_value(text) if one is None else one.parse(text)
        # Settings of an environment are plain JSON values, as a preset gives them.
        put(given, place(key), list(value) if place(key)[0] == "env" and isinstance(value, tuple) else value)
    return overlay(tree, given)


def find_setting(path: tuple[str, ...], tree: Mapping[str, Any]) -> Setting | None:
    """The setting at a place of a canonical tree; None where there is none, or nothing is known about it."""
    if len(path) == 1:
        return None if section(path[0]) else settings_of(Config).get(path[0])
    if path[0] in OPEN and path[1] == "settings" and len(path) == 3:
        return (own_settings(path[0], chosen(tree, path[0])) or {}).get(path[2])
    return settings_of(section(path[0])).get(path[1]) if section(path[0]) and len(path) == 2 else None


def own_settings(open_section: str, name: str) -> dict[str, Setting] | None:
    """The settings of an estimator or environment itself; None where they are not known."""
    if open_section == "estimator":
        return settings_of(ESTIMATORS[name].settings) if name in ESTIMATORS else None
    return settings_of_env(name)


def unknown(key: str) -> UnknownName:
    """The error for a name that no section has."""
    names = settings_of(Config)
    first, dot, _ = key.partition(".")
    if dot and section(first):
        return UnknownName("setting", key, [f"{first}.{name}" for name in settings_of(section(first))])
    plain = [name for name in names if section(name) is None]
    deep = [f"{name}.{inner}" for name in names if section(name) for inner in settings_of(section(name))]
    return UnknownName("setting", key, [*plain, *SHORT_NAMES, *deep])


def build(tree: Mapping[str, Any]) -> Config:
    """A config from a nested dict, every name and value checked."""
    tree = canonical(tree)
    values: dict[str, Any] = {}
    for key, value in tree.items():
        kind = section(key)
        if kind is None:
            if key not in settings_of(Config):
                raise unknown(key)
            values[key] = settings_of(Config)[key].check(value, key)
        elif isinstance(value, Mapping):
            values[key] = _section(key, kind, value, tree)
        else:
            raise BadSetting(
                f"{key}={value!r} was given; expected a section: {settings_of(Config)[key].sentence}"
            )
    return Config(**values)


def _section(key: str, kind: Any, given: Mapping[str, Any], tree: Mapping[str, Any]) -> Any:
    known = settings_of(kind)
    values: dict[str, Any] = {}
    if key == "estimator" and (not isinstance(chosen(tree, key), str) or chosen(tree, key) not in ESTIMATORS):
        raise UnknownName("estimator", chosen(tree, key), ESTIMATORS)
    for name, value in given.items():
        if name not in known:
            raise unknown(f"{key}.{name}")
        values[name] = known[name].check(value, f"{key}.{name}")
    if key == "estimator":
        name = chosen(tree, key)
        own = settings_of(ESTIMATORS[name].settings)
        values["settings"] = check_all(own, values.get("settings", {}), f"estimator {name!r}")
    elif key == "env":
        # Checked, but kept as they are given: plain JSON values.
        takes = settings_of_env(chosen(tree, key))
        if takes is not None:
            check_all(takes, values.get("settings", {}), f"the environment {chosen(tree, key)!r}")
    return kind(**values)


def as_dict(config: Config) -> dict[str, Any]:
    """The config as plain JSON values; `build` reads it back."""
    plain: dict[str, Any] = json.loads(json.dumps(dataclasses.asdict(config)))
    return plain
