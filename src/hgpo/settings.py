"""Settings as frozen dataclasses, checked where they enter.

A field's type says what it takes (`int`, `float`, `bool`, `str`, a `Literal` of names, `None` for "as the variant
says"), its metadata the range, and the string under it what it means.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import math
import textwrap
import types
from collections.abc import Mapping
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from .errors import BadSetting, UnknownName

T = TypeVar("T")


def between(default: Any, low: float | None = None, high: float | None = None) -> Any:
    """A field with a default and an allowed range."""
    return dataclasses.field(default=default, metadata={"low": low, "high": high})


def build(cls: type[T], given: Mapping[str, Any], owner: str) -> T:
    """Make `cls(**given)`, with a clear error for an unknown name or a value outside its range."""
    hints = type_hints(cls)
    checked = {}
    fields = {field.name: field for field in dataclasses.fields(cls)}  # type: ignore[arg-type]
    for name, value in given.items():
        if name not in fields:
            raise UnknownName(f"setting of {owner}", name, fields)
        checked[name] = check(name, value, hints[name], fields[name].metadata, owner)
    return cls(**checked)


_hints: dict[type, dict[str, Any]] = {}


def type_hints(cls: type) -> dict[str, Any]:
    """Resolved types of a dataclass's fields, worked out once."""
    if cls not in _hints:
        _hints[cls] = get_type_hints(cls)
    return _hints[cls]


def check(name: str, value: Any, kind: Any, limits: Mapping[str, Any], owner: str) -> Any:
    """The value as the type wants it, or a `BadSetting` that says what was expected."""
    options = get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)
    low, high = limits.get("low"), limits.get("high")
    for option in options:
        fitted = _fit(value, option)
        if fitted is _NO:
            continue
        if isinstance(fitted, float) and not math.isfinite(fitted):
            continue
        if not isinstance(fitted, (int, float)) or isinstance(fitted, bool):
            return fitted
        if (low is None or fitted >= low) and (high is None or fitted <= high):
            return fitted
    expected = " or ".join(_say(option) for option in options)
    if low is not None or high is not None:
        expected += f" from {low if low is not None else 'any'} to {high if high is not None else 'any'}"
    raise BadSetting(f"{owner} was given {name}={value!r}; expected {expected}.")


_NO = object()


def _fit(value: Any, option: Any) -> Any:
    if get_origin(option) is Literal:
        return value if value in get_args(option) else _NO
    if option is type(None):
        return None if value is None else _NO
    if option is bool:
        return bool(value) if isinstance(value, bool) or type(value).__name__ == "bool" else _NO
    if isinstance(value, bool):
        return _NO
    if option is int:
        return int(value) if hasattr(value, "__index__") else _NO
    if option is float:
        return float(value) if isinstance(value, (int, float)) or hasattr(value, "__float__") else _NO
    if option is str:
        return value if isinstance(value, str) else _NO
    return value


def _say(option: Any) -> str:
    if get_origin(option) is Literal:
        return "one of " + ", ".join(repr(name) for name in get_args(option))
    names = {
        int: "a whole number",
        float: "a number",
        bool: "true or false",
        str: "text",
        type(None): "nothing",
    }
    return names.get(option, str(option))


def parse(text: str, kind: Any) -> Any:
    """A value typed on a command line, by the field's type; text that fits nothing is returned as it is."""
    options = get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)
    lowered = text.strip().lower()
    for option in options:
        if option is type(None) and lowered in ("none", "null"):
            return None
        if option is bool and lowered in ("true", "false", "yes", "no", "1", "0"):
            return lowered in ("true", "yes", "1")
        if option in (int, float):
            try:
                return option(text)
            except ValueError:
                continue
    return text


def descriptions(cls: type) -> dict[str, str]:
    """The string under each field, by field name."""
    body = ast.parse(textwrap.dedent(inspect.getsource(cls))).body[0]
    assert isinstance(body, ast.ClassDef)
    found: dict[str, str] = {}
    for base in reversed(cls.__mro__[1:-1]):
        if dataclasses.is_dataclass(base):
            found.update(descriptions(base))
    for node, after in zip(body.body, body.body[1:]):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):  # noqa: SIM102
            if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
                found[node.target.id] = " ".join(str(after.value.value).split())
    return found
