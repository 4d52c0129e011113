"""Settings that come from a folder: a run's `config.json`, a model's `hgpo.json`.

A folder may come from anywhere, so its settings are data: they choose among what is installed and never name code that
is to be run. Where they do (an environment or a memory by its address, an interpreter, a package of taggers, attention
kernels of the hub), the person at the command line has to name the same thing. Every reader of a folder comes through
here.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..envs.registry import is_address
from ..errors import UntrustedCode
from ..words import split_word, unquoted
from .load import apply, build
from .preset import preset_tree
from .schema import Config
from .tree import canonical, chosen, place


def _any(value: Any) -> bool:
    return value is not None


def _package(value: Any) -> bool:
    return value not in (None, "builtin")


def _gym_module(value: Any) -> bool:
    # `module:Name-v0` is imported; environments of the old gym take such a name in their options.
    return isinstance(value, str) and (":" in value or value.startswith("GymV2"))


# Settings of built-in environments that may name a program or a package, and when they do.
PROGRAMS: Mapping[str, Mapping[str, Callable[[Any], bool]]] = {
    "alfworld": {"python": _any},
    "babyai": {"level": _gym_module},
    "gym": {"id": _gym_module},
    "shop": {"tagger": _package},
    "webshop": {"tagger": _package},
}


def read_stored(
    stored: Mapping[str, Any],
    where: Path,
    overrides: Sequence[str] = (),
    *,
    allow_env: str | Sequence[str] = (),
) -> Config:
    """The config stored in a folder with `key=value` words applied.

    Args:
        stored: the settings as the folder has them.
        where: the file they are in, for messages.
        overrides: words of the command line; code that they name is asked for.
        allow_env: addresses of environments (`module:Class`) that the folder may name.

    Raises:
        UntrustedCode: the folder names code that neither `overrides` nor `allow_env` do.
    """
    said = {place(key): unquoted(text) for key, text in map(split_word, overrides)}
    allowed = (allow_env,) if isinstance(allow_env, str) else tuple(allow_env)
    # Before anything is built: to check an environment's settings is to import it.
    for word, path, value in _code(canonical(stored), said):
        if path in said or (path == ("env", "name") and value in allowed):
            continue
        flag = f"--allow-env {shlex.quote(str(value))}"
        how = flag if path == ("env", "name") else shlex.quote(f"{word}={value}")
        raise UntrustedCode(
            f"{where} asks to run code: {word}={value}. It is a file that may come from anywhere, so nothing was "
            f"run. If you know that code and trust it, say so: add {how} (docs/evaluation.md)."
        )
    return build(apply(stored, overrides))


def _code(
    tree: Mapping[str, Any], said: Mapping[tuple[str, ...], str]
) -> Iterator[tuple[str, tuple[str, ...], Any]]:
    """Every setting of a canonical tree that names code and is still in force: the word for it, its place, its value.

    Values of another type than their setting's are left to `build`, which refuses them.
    """
    name, settings = chosen(tree, "env"), tree.get("env", {}).get("settings")
    # Where another environment was asked for, the settings of this one do not carry over.
    if isinstance(name, str) and said.get(("env", "name"), name) == name:
        if is_address(name):
            yield "env", ("env", "name"), name
        for key, names_code in PROGRAMS.get(name, {}).items():
            value = settings.get(key) if isinstance(settings, Mapping) else None
            if names_code(value):
                yield f"env.{key}", ("env", "settings", key), value
    memory = tree.get("agent", {}).get("memory")
    if isinstance(memory, str) and is_address(memory):
        yield "agent.memory", ("agent", "memory"), memory
    attention = tree.get("model", {}).get("attention")
    if (
        isinstance(attention, str) and "/" in attention
    ):  # kernels of the hub, which transformers fetches and runs
        yield "model.attention", ("model", "attention"), attention


def same_env(stored: Mapping[str, Any], asked: Mapping[str, Any]) -> bool:
    """Whether stored settings name the very environment that was asked for, with its settings; nothing is imported."""
    mine, other = canonical(stored).get("env", {}), canonical(asked).get("env", {})
    return all(mine.get(key) == other.get(key) for key in ("name", "settings"))


def named_env(preset: str | None, overrides: Sequence[str] = ()) -> tuple[str, ...]:
    """The environment that a preset or `key=value` words ask for: what a person names is allowed."""
    named = [unquoted(text) for key, text in map(split_word, overrides) if place(key) == ("env", "name")]
    if preset is not None:
        named.append(str(chosen(preset_tree(preset), "env")))
    return tuple(named)


def allow_flag(config: Config) -> str:
    """What a command needs to read a folder with these settings again: empty, or ` --allow-env module:Class`."""
    return f" --allow-env {shlex.quote(config.env.name)}" if is_address(config.env.name) else ""
