"""Environments by name: the built-in ones, those a program registers, those other packages bring.

A package registers an environment without being imported by us through an entry point:

    [project.entry-points."hgpo.envs"]
    my-env = "my_package.env:MyEnv"
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from ..errors import UnknownName
from ..settings import Setting, check_all, parameters_of
from .contract import TextEnv
from .prompt import PromptWords

# Name -> "module:factory", imported when first made so that no environment costs anything unused. The module
# `prompt` beside it has the words of its prompts.
BUILT_IN: dict[str, str] = {
    "alfworld": "hgpo.envs.household.alfworld:alfworld",
    "household": "hgpo.envs.household.env:HouseholdEnv",
    "shop": "hgpo.envs.webshop.generated:shop",
    "webshop": "hgpo.envs.webshop.env:webshop",
}

_registered: dict[str, Callable[..., TextEnv]] = {}


def register(name: str, factory: Callable[..., TextEnv]) -> None:
    """Make `factory(**settings)` available as `make(name, **settings)` in this process."""
    _registered[name] = factory


def _plugins() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group="hgpo.envs")}


def names() -> list[str]:
    """The names `make` knows."""
    return sorted({*BUILT_IN, *_registered, *_plugins()})


def factory(name: str) -> Callable[..., TextEnv]:
    """What makes the environment called `name`: a registered one, or `module:attribute`."""
    if name in _registered:
        return _registered[name]
    plugins = {} if name in BUILT_IN or ":" in name else _plugins()
    if name in plugins:
        loaded: Callable[..., TextEnv] = plugins[name].load()
        return loaded
    module, colon, attribute = BUILT_IN.get(name, name).partition(":")
    if not colon:
        raise UnknownName(
            "environment", name, names(), fix="Register yours with hgpo.envs.register(name, factory)."
        )
    imported: Callable[..., TextEnv] = getattr(importlib.import_module(module), attribute)
    return imported


def make(name: str, **settings: Any) -> TextEnv:
    """Make the environment called `name`; settings go to its factory.

    A setting it does not have is named, with the nearest one that it has, and so is a value of another type.
    """
    maker = factory(name)
    known = parameters_of(maker)
    if known is not None:
        settings = check_all(known, settings, f"the environment {name!r}")
    return maker(**settings)


def prompts() -> list[str]:
    """The folders of built-in environments: each brings a prompt of that name."""
    return sorted({path.split(".")[2] for path in BUILT_IN.values()})


def prompt(folder: str) -> PromptWords:
    """The words of the prompt that a folder of environments brings."""
    if folder not in prompts():
        raise UnknownName("prompt", folder, prompts())
    words: PromptWords = importlib.import_module(f"{__package__}.{folder}.prompt").PROMPT
    return words


def settings_of_env(name: str) -> dict[str, Setting] | None:
    """The settings of the environment called `name`; None where it takes any, or cannot be found."""
    try:
        return parameters_of(factory(name))
    except (UnknownName, ImportError, AttributeError):
        return None
