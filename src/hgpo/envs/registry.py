"""Environments by name: the built-in ones, those a program registers, those other packages bring.

A package registers an environment without being imported by us through an entry point:

    [project.entry-points."hgpo.envs"]
    my-env = "my_package.env:MyEnv"

An address (`module:Class`, `path/file.py:Class`) works as a name too. It is code: only a person may give one, never a
file that came from somewhere (`hgpo.config.stored`).
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib
import importlib.util
import sys
from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Any, get_type_hints

from ..errors import BadSetting, HgpoError, UnknownName
from ..settings import Setting, check_all, parameters_of
from .answers import cause, contained
from .contract import TextEnv
from .prompt import PromptWords

# Name -> "module:factory", imported when first made so that no environment costs anything unused. The module
# `prompt` beside it has the words of its prompts.
BUILT_IN: dict[str, str] = {
    "alfworld": "hgpo.envs.household.alfworld:alfworld",
    "babyai": "hgpo.envs.others.babyai:BabyAI",
    "gym": "hgpo.envs.others.gymnasium:GymEnv",
    "household": "hgpo.envs.household.env:HouseholdEnv",
    "scienceworld": "hgpo.envs.others.scienceworld:ScienceWorld",
    "shop": "hgpo.envs.webshop.generated:shop",
    "textworld": "hgpo.envs.others.textworld:TextWorld",
    "textworld-express": "hgpo.envs.others.textworld_express:TextWorldExpress",
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


def described() -> list[tuple[str, str]]:
    """Every name that `make` knows with a sentence: the first line of what its factory says of itself."""
    rows = []
    for name in names():
        try:
            said = (factory(name).__doc__ or "").strip().partition("\n")[0]
        except Exception as error:
            said = f"cannot be loaded: {cause(error)}"
        rows.append((name, said))
    return rows


def is_address(name: str) -> bool:
    """Whether `name` is where code is (`module:Class`, `path/file.py:Class`) rather than a registered name."""
    return ":" in name and name not in _registered


def factory(name: str) -> Callable[..., TextEnv]:
    """What makes the environment called `name`: a registered one, or what is at an address."""
    if name in _registered:
        return _registered[name]
    if name in BUILT_IN:
        built_in: Callable[..., TextEnv] = located(BUILT_IN[name])
        return built_in
    if ":" in name:
        return _addressed(name)
    plugins = _plugins()
    if name not in plugins:
        raise UnknownName(
            "environment", name, names(), fix="Register yours with hgpo.envs.register(name, factory)."
        )
    loaded: Callable[..., TextEnv] = plugins[name].load()
    return loaded


def located(address: str) -> Any:
    """What is at an address, `module:Name` or `path/file.py:Name`; modules of the current folder can be named too."""
    name, _, attribute = address.rpartition(":")
    module = _module(name)
    if not hasattr(module, attribute):
        own = [
            key
            for key, value in vars(module).items()
            if isinstance(value, type) and value.__module__ == module.__name__
        ]
        there = f"; it has {', '.join(own)}" if own else ""
        raise AttributeError(f"{name} has no {attribute!r}{there}")
    return getattr(module, attribute)


def _importable(folder: Path) -> None:
    """Let modules of `folder` be imported, after all that is installed."""
    if str(folder) not in sys.path:
        sys.path.append(str(folder))


def _module(name: str) -> ModuleType:
    """A module by its name, or by the path of its file."""
    _importable(Path.cwd())
    if not name.endswith(".py"):
        return importlib.import_module(name)
    path = Path(name).expanduser().resolve()
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {name}")
    _importable(path.parent)
    # One module a file, however its path is written; the digest keeps apart files of one name.
    known = f"hgpo_env_{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"
    if known not in sys.modules:
        spec = importlib.util.spec_from_file_location(known, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[known] = module
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[known]
            raise
    return sys.modules[known]


def _addressed(name: str) -> Callable[..., TextEnv]:
    """What is at an address, if it is an environment: nothing else is ever called."""
    try:
        found: Callable[..., TextEnv] = contained(functools.partial(located, name))
    except Exception as error:
        raise BadSetting(
            f"The environment {name!r} cannot be loaded ({cause(error)}). Expected the address of a class that can be "
            "imported here: module:Class or path/file.py:Class."
        ) from error
    if not _makes_environments(found):
        raise BadSetting(
            f"{name!r} is no environment. Expected a class with the methods {', '.join(METHODS)} (hgpo.envs.TextEnv), "
            "or a function whose return type says that it makes one: def make(...) -> TextEnv."
        )
    return found


METHODS = ("tasks", "reset", "step", "close")
"""What makes a class an environment; `splits` may be there only once one is made."""


def _makes_environments(found: Any) -> bool:
    if isinstance(found, type):
        return found is not TextEnv and all(callable(getattr(found, name, None)) for name in METHODS)
    while isinstance(found, functools.partial):
        found = found.func
    if isinstance(found, type):
        return _makes_environments(found)
    if not callable(found):
        return False
    said = getattr(found, "__annotations__", {}).get("return")
    # A name that only type checkers import cannot be looked up; what is written has to do.
    with contextlib.suppress(NameError, TypeError, AttributeError):
        said = get_type_hints(found).get("return")
    if isinstance(said, str):
        return said.rpartition(".")[2] == TextEnv.__name__
    return said is TextEnv or (isinstance(said, type) and _makes_environments(said))


def make(name: str, **settings: Any) -> TextEnv:
    """Make the environment called `name`; settings go to its factory.

    A setting it does not have is named, with the nearest one that it has, and so is a value of another type.
    """
    maker = factory(name)
    known = parameters_of(maker)
    if known is not None:
        settings = check_all(known, settings, f"the environment {name!r}")
    made = maker(**settings)
    missing = [method for method in METHODS if not callable(getattr(made, method, None))]
    if missing:
        raise BadSetting(
            f"The environment {name!r} made a {type(made).__name__}, which has no {', '.join(missing)}. Expected an "
            "object that follows hgpo.envs.TextEnv."
        )
    return made


def prompts() -> list[str]:
    """The folders of built-in environments that bring a prompt of their name."""
    return sorted({path.split(".")[2] for path in BUILT_IN.values()} - {"others"})


def own_process(name: str) -> bool:
    """Whether the environment called `name` wants a supervised process for every copy (its attribute `own_process`)."""
    try:
        return bool(getattr(factory(name), "own_process", False))
    except (HgpoError, ImportError, AttributeError):
        return False  # what is wrong with it is said where it is made


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
    except (HgpoError, ImportError, AttributeError):
        return None
