"""What a foreign package must look like for us to plug into it: one entry per function or class that we rely on.

`check` compares the installed package with an entry in seconds, so that a release that moves something is named
precisely: the hook, what it looks like now, what we expect, and which file of ours relies on it.
"""

from __future__ import annotations

import importlib
import inspect
from dataclasses import dataclass
from importlib import metadata
from typing import Any


@dataclass(frozen=True)
class Hook:
    """One function or class of another package."""

    module: str
    name: str
    """Dotted below the module."""
    parameters: tuple[str, ...] | None
    """Names of its parameters in order; further ones may follow if they have defaults. None: not a function."""
    user: str
    """Our file that relies on it."""
    reads: tuple[str, ...] = ()
    """Words its source must contain, where we rely on what it does inside."""

    @property
    def path(self) -> str:
        """Where it is."""
        return f"{self.module}.{self.name}"


def check(hook: Hook) -> str:
    """What is wrong with a hook, and in which version of its package; empty when it is as expected."""
    problem = _problem(hook)
    return f"{_release(hook.module)}: {problem}" if problem else ""


def _release(module: str) -> str:
    """The installed distribution that a module comes from, with its version."""
    top = module.partition(".")[0]
    for name in metadata.packages_distributions().get(top, [top]):
        try:
            return f"{name} {metadata.version(name)}"
        except metadata.PackageNotFoundError:
            continue
    return f"{top} (not installed)"


def _problem(hook: Hook) -> str:
    try:
        target: Any = importlib.import_module(hook.module)
        for part in hook.name.split("."):
            target = (
                inspect.getattr_static(target, part) if inspect.isclass(target) else getattr(target, part)
            )
            target = _unwrap(target)
    except ImportError as error:
        return f"{hook.module} cannot be imported ({error}); {hook.user} needs {hook.name} from it"
    except AttributeError:
        return f"{hook.path} does not exist any more; {hook.user} relies on it"
    return _parameters(hook, target) or _source(hook, target)


def _unwrap(target: Any) -> Any:
    """The function behind a static or class method, or the class behind a Ray actor class."""
    if isinstance(target, staticmethod | classmethod):
        return target.__func__
    meta = getattr(target, "__ray_metadata__", None)
    return getattr(meta, "modified_class", target) if meta is not None else target


def _parameters(hook: Hook, target: Any) -> str:
    if hook.parameters is None:
        return ""
    signature = inspect.signature(target)
    names = [name for name in signature.parameters if name != "cls"]
    expected = list(hook.parameters)
    more = names[len(expected) :]
    optional = {inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL}
    required = [
        name
        for name in more
        if signature.parameters[name].default is inspect.Parameter.empty
        and signature.parameters[name].kind not in optional
    ]
    if names[: len(expected)] != expected or required:
        return (
            f"{hook.path} takes ({', '.join(names)}); {hook.user} expects ({', '.join(expected)}), "
            "and only optional parameters after these"
        )
    return ""


def _source(hook: Hook, target: Any) -> str:
    if not hook.reads:
        return ""
    try:
        source = inspect.getsource(inspect.unwrap(target) if callable(target) else target)
    except (OSError, TypeError) as error:
        return (
            f"the source of {hook.path} cannot be read ({error}); {hook.user} relies on what it does inside"
        )
    missing = [words for words in hook.reads if words not in source]
    if missing:
        return f"{hook.path} no longer contains {missing[0]!r}; {hook.user} relies on it"
    return ""
