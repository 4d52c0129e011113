"""Settings as nested dicts: where a name belongs, and how one set of them lies over another.

In a canonical tree every setting stands where `Config` has it: `{"estimator": {"settings": {"depth": 1}}}`. People
write less: `depth = 1`, `estimator.depth = 1`, `estimator = "hgpo"`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from ..settings import settings_of
from .schema import Config

# Short names, most of them those of the published scripts, and where the setting lives here.
SHORT_NAMES = {
    "mode": "estimator.mode",
    "weight_type": "estimator.weight_type",
    "length_weight_alpha": "estimator.length_weight_alpha",
    "base_group": "estimator.base_group",
    "depth": "estimator.depth",
    "gamma": "estimator.gamma",
    "invalid_penalty": "estimator.invalid_penalty",
    "history_length": "agent.history_length",
    "group_size": "rollout.group_size",
    "max_steps": "agent.max_steps",
    "reasoning": "agent.reasoning",
    "lr": "update.lr",
}
# A section given a bare value means this field of it.
MAIN = {"estimator": "name", "env": "name", "model": "path"}
# Sections that take names of their own: those of the estimator or environment that is chosen.
OPEN = ("estimator", "env")

Path = tuple[str, ...]


def place(key: str) -> Path:
    """Where a setting lives in a canonical tree.

    >>> place("depth"), place("estimator"), place("update.lr"), place("env.size")
    (('estimator', 'settings', 'depth'), ('estimator', 'name'), ('update', 'lr'), ('env', 'settings', 'size'))
    """
    path = tuple(SHORT_NAMES.get(key, key).split("."))
    if path[0] in MAIN and len(path) == 1:
        return (*path, MAIN[path[0]])
    if path[0] in OPEN and path[1] not in settings_of(section(path[0])):
        return (path[0], "settings", *path[1:])
    return path


def section(name: str) -> Any:
    """The settings class of a section of `Config`; None where `name` is no section."""
    one = settings_of(Config).get(name)
    return one.kind if one is not None and dataclasses.is_dataclass(one.kind) else None


def chosen(tree: Mapping[str, Any], open_section: str) -> Any:
    """The name of the estimator or environment that a canonical tree asks for."""
    default = settings_of(section(open_section))["name"].default
    return tree.get(open_section, {}).get("name", default)


def canonical(tree: Mapping[str, Any]) -> dict[str, Any]:
    """`tree` with every setting in its place."""
    result: dict[str, Any] = {}
    for key, value in tree.items():
        if isinstance(value, Mapping) and section(key) is not None:
            result.setdefault(key, {})
            for name, inner in value.items():
                put(result, place(f"{key}.{name}"), inner)
        else:
            put(result, place(key), value)
    return result


def put(tree: dict[str, Any], path: Path, value: Any) -> None:
    """Set one value; a dict of settings is laid over those that are there."""
    for name in path[:-1]:
        tree = tree.setdefault(name, {})
    if isinstance(value, Mapping) and isinstance(tree.get(path[-1]), Mapping):
        value = {**tree[path[-1]], **value}
    tree[path[-1]] = dict(value) if isinstance(value, Mapping) else value


def overlay(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """`under` with what `over` says; the settings of another estimator or environment do not carry over."""
    result = dict(under)
    for key, value in over.items():
        before = result.get(key)
        if not isinstance(before, Mapping) or not isinstance(value, Mapping):
            result[key] = value
            continue
        if key in OPEN and "name" in value and value["name"] != chosen(under, key):
            before = {name: inner for name, inner in before.items() if name != "settings"}
        result[key] = overlay(before, value)
    return result
