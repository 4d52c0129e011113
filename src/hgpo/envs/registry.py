"""Environments by name: the built-in ones, those a program registers, those other packages bring.

A package registers an environment without being imported by us through an entry point:

    [project.entry-points."hgpo.envs"]
    my-env = "my_package.env:MyEnv"
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from ..errors import UnknownName
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


def make(name: str, **settings: Any) -> TextEnv:
    """Make the environment called `name`; settings go to its factory."""
    if name in _registered:
        return _call(name, _registered[name], settings)
    if name in BUILT_IN:
        module, _, attribute = BUILT_IN[name].partition(":")
        factory: Callable[..., TextEnv] = getattr(importlib.import_module(module), attribute)
        return _call(name, factory, settings)
    plugins = _plugins()
    if name in plugins:
        loaded: Callable[..., TextEnv] = plugins[name].load()
        return _call(name, loaded, settings)
    raise UnknownName(
        "environment", name, names(), fix="Register yours with hgpo.envs.register(name, factory)."
    )


def prompts() -> list[str]:
    """The folders of built-in environments: each brings a prompt of that name."""
    return sorted({path.split(".")[2] for path in BUILT_IN.values()})


def prompt(folder: str) -> PromptWords:
    """The words of the prompt that a folder of environments brings."""
    if folder not in prompts():
        raise UnknownName("prompt", folder, prompts())
    words: PromptWords = importlib.import_module(f"{__package__}.{folder}.prompt").PROMPT
    return words


def _call(name: str, factory: Callable[..., TextEnv], settings: dict[str, Any]) -> TextEnv:
    """Call the factory; a setting it does not have is named, with the nearest one that it has."""
    try:
        parameters = inspect.signature(factory).parameters
    except (TypeError, ValueError):
        return factory(**settings)
    if not any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters.values()):
        for key in settings:
            if key not in parameters:
                raise UnknownName(f"setting of the environment {name!r}:", key, parameters)
    return factory(**settings)
