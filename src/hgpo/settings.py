"""Settings: the type, default, bounds, choices and sentence of each are said once, at a field of a frozen dataclass.

    @dataclass(frozen=True)
    class Sampling(Settings):
        temperature: float = setting(1.0, "Sampling temperature; 0 takes the likeliest token.", low=0.0)
        engine: Literal["hf", "vllm"] = setting("hf", "What generates.")

Values are checked when the object is made, wherever they come from.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import difflib
import functools
import inspect
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, dataclass
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from .errors import BadSetting, UnknownName
from .words import LISTS, options_of, parse_as, parse_value, split_word

T = TypeVar("T")

_DETAILS = ("sentence", "low", "high", "above", "below", "choices", "follows")
_PLAIN = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}
_UNFIT = object()

LARGEST_INT = 2**31 - 1
LARGEST_FLOAT = 1e9
"""Limits of numbers without one of their own: nothing is meant by more, and the arithmetic behind has such limits."""


def setting(
    default: Any,
    sentence: str,
    *,
    low: float | None = None,
    high: float | None = None,
    above: float | None = None,
    below: float | None = None,
    choices: Iterable[str] | Callable[[], Iterable[str]] = (),
    follows: str = "",
) -> Any:
    """A field of a settings class.

    Args:
        default: its value when none is given; a class or function makes a new one each time.
        sentence: what it means, in one or two sentences.
        low, high: the least and the largest number allowed.
        above, below: the same, but not allowed themselves.
        choices: the names allowed, or a function that returns them, where the type is no `Literal`.
        follows: the setting of a training run that gives the value there unless one is given, by its short name
            (`history_length`).
    """
    details = dict(zip(_DETAILS, (sentence, low, high, above, below, choices, follows)))
    if callable(default):
        return dataclasses.field(default_factory=default, metadata=details)
    return dataclasses.field(default=default, metadata=details)


@dataclass(frozen=True)
class Setting:
    """Everything that is known about one setting."""

    name: str
    kind: Any
    """Its type; `Any` where nothing is known."""
    default: Any = None
    sentence: str = ""
    low: float | None = None
    high: float | None = None
    above: float | None = None
    below: float | None = None
    choices: Iterable[str] | Callable[[], Iterable[str]] = ()
    follows: str = ""

    def parse(self, text: str) -> Any:
        """The value that `text` says, read by the type. Text that does not fit is returned for `check` to refuse."""
        return parse_as(text, options_of(self.kind))

    def check(self, value: Any, where: str) -> Any:
        """`value` as the type wants it.

        Raises:
            BadSetting: it does not fit; `where` is the setting's whole name.
        """
        for option in options_of(self.kind):
            fitted = _fit(value, option)
            if fitted is not _UNFIT and self._allows(fitted):
                return fitted
        near = difflib.get_close_matches(str(value), self.names(), n=1, cutoff=0.5)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        meaning = f" {self.sentence}" if self.sentence else ""
        raise BadSetting(
            f"{where}={_short(value)} was given; expected {self.expected(value)}.{hint}{meaning}"
        )

    def expected(self, given: Any = None) -> str:
        """What values it takes, in words: `a whole number from 1`, `one of 'a', 'b'`.

        The limit of every number is said where it is what `given` breaks.
        """
        names = self.names()
        if names:
            nothing = type(None) in options_of(self.kind)
            return "one of " + ", ".join(map(repr, names)) + (" or none" if nothing else "")
        # `none` last, however the type is written.
        options = sorted(options_of(self.kind), key=lambda option: option is type(None))
        words = " or ".join(self._say(option) for option in options)
        items = given if isinstance(given, (list, tuple)) else [given]
        numbers = [item for item in items if isinstance(item, (int, float)) and _finite(item)]
        limit = self._limit(max(numbers, default=0))
        return words if max(numbers, default=0) <= limit else f"{words}, at most {limit:g}"

    def names(self) -> tuple[str, ...]:
        """The names it may be, empty where it is not a choice."""
        literal = [
            name for one in options_of(self.kind) if get_origin(one) is Literal for name in get_args(one)
        ]
        return tuple(literal or (self.choices() if callable(self.choices) else self.choices))

    def bounds(self) -> str:
        """The allowed range in words, empty where there is none: `from 0 to 1`, `above 0`."""
        words = [
            f"{word} {int(bound) if float(bound).is_integer() else bound}"
            for word, bound in (
                ("above", self.above),
                ("from", self.low),
                ("to", self.high),
                ("below", self.below),
            )
            if bound is not None
        ]
        return " and ".join(words).replace(" and to ", " to " if self.above is None else " and at most ")

    def _allows(self, value: Any) -> bool:
        if isinstance(value, tuple):
            return all(self._allows(item) for item in value)
        if isinstance(value, str):
            names = () if get_origin(self.kind) is Literal else self.names()
            return not names or value in names
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return True
        return (
            _finite(value)
            and value <= self._limit(value)
            and (self.low is None or value >= self.low)
            and (self.high is None or value <= self.high)
            and (self.above is None or value > self.above)
            and (self.below is None or value < self.below)
        )

    def _limit(self, value: float) -> float:
        """What a number may be at most where its setting does not say."""
        if self.high is not None or self.below is not None:
            return math.inf
        return LARGEST_INT if isinstance(value, int) else LARGEST_FLOAT

    def _say(self, option: Any) -> str:
        bounds = f" {self.bounds()}" if self.bounds() else ""
        if option is type(None):
            return "none"
        if option in (int, float):
            return _PLAIN[option] + bounds
        if get_origin(option) in LISTS:
            inner = {int: "whole numbers", float: "numbers"}.get(get_args(option)[0], "names")
            fixed = get_origin(option) is tuple and Ellipsis not in get_args(option)
            return f"{len(get_args(option)) if fixed else 'a list of'} {inner}{bounds}"
        if get_origin(option) is dict or dataclasses.is_dataclass(option):
            return "a section"
        return _PLAIN.get(option, getattr(option, "__name__", str(option)))


class Settings:
    """Base of the settings classes: no object with a value that its field does not allow can be made."""

    def __post_init__(self) -> None:
        for one in settings_of(type(self)).values():
            value = getattr(self, one.name)
            if value is not one.default:
                fitted = one.check(value, f"{type(self).__name__}.{one.name}")
                if fitted is not value:
                    object.__setattr__(self, one.name, fitted)


def settings_of(cls: Any) -> dict[str, Setting]:
    """The settings of a settings class, by name."""
    return _settings_of(cls)


@functools.cache
def _settings_of(cls: Any) -> dict[str, Setting]:
    hints = get_type_hints(cls)
    known = {}
    for field in dataclasses.fields(cls):
        default = field.default if field.default_factory is MISSING else field.default_factory()
        known[field.name] = Setting(field.name, hints[field.name], default, **field.metadata)
    return known


def parameters_of(function: Callable[..., Any]) -> dict[str, Setting] | None:
    """The parameters of a function as settings, with the sentences of its docstring (`Args:`).

    None where the function takes any name, or does not say what it takes.
    """
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    if any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters):
        return None
    called: Any = getattr(function, "__init__", function) if isinstance(function, type) else function
    try:
        hints = get_type_hints(called)
    except (NameError, TypeError):  # a type that is known to type checkers alone
        hints = {}
    sentences = _argument_sentences(inspect.getdoc(function) or "")
    return {
        one.name: Setting(
            one.name,
            hints.get(one.name, Any),
            None if one.default is inspect.Parameter.empty else one.default,
            sentences.get(one.name, ""),
        )
        for one in parameters
        if one.kind is not inspect.Parameter.VAR_POSITIONAL
    }


def build(cls: type[T], given: Mapping[str, Any], owner: str) -> T:
    """Make `cls(**given)`; errors name the setting and its `owner` (for example `estimator 'hgpo'`)."""
    return cls(**check_all(settings_of(cls), given, owner))


def check_all(known: Mapping[str, Setting], given: Mapping[str, Any], owner: str) -> dict[str, Any]:
    """`given` with every name known and every value as its setting wants it."""
    checked = {}
    for name, value in given.items():
        if name not in known:
            raise UnknownName(f"setting of {owner}:", name, known)
        checked[name] = known[name].check(value, f"{owner}: {name}")
    return checked


def parse_all(words: Iterable[str], known: Mapping[str, Setting] | None, owner: str) -> dict[str, Any]:
    """`key=value` words as checked settings; where `known` is None any name goes and values are read by their look."""
    pairs = dict(split_word(word) for word in words)
    if known is None:
        return {name: parse_value(text) for name, text in pairs.items()}
    given = {name: known[name].parse(text) if name in known else text for name, text in pairs.items()}
    return check_all(known, given, owner)


def _fit(value: Any, option: Any) -> Any:
    """`value` as the type `option`, or `_UNFIT`. Nothing is converted that could surprise."""
    if get_origin(option) is Literal:
        return value if isinstance(value, str) and value in get_args(option) else _UNFIT
    if option is type(None):
        return None if value is None else _UNFIT
    if get_origin(option) in LISTS:
        return _fit_list(value, option)
    if get_origin(option) is dict or option is dict:
        return dict(value) if isinstance(value, Mapping) else _UNFIT
    if option not in _PLAIN:
        # Of types that are no settings' (a path, a protocol) only plain classes can be told apart.
        plain = dataclasses.is_dataclass(option) and isinstance(option, type)
        return value if not plain or isinstance(value, option) else _UNFIT
    # numpy's bool is no `bool`, its integers have `__index__`.
    is_bool = isinstance(value, bool) or type(value).__name__ == "bool"
    if option is bool or is_bool:
        return bool(value) if option is bool and is_bool else _UNFIT
    if option is int:
        return int(value) if hasattr(value, "__index__") else _UNFIT
    if option is float:
        try:
            return float(value) if hasattr(value, "__float__") and not isinstance(value, str) else _UNFIT
        except OverflowError:  # a whole number beyond float64
            return _UNFIT
    return value if isinstance(value, str) else _UNFIT


def _fit_list(value: Any, option: Any) -> Any:
    arguments = get_args(option)
    if isinstance(value, str) or not isinstance(value, collections.abc.Iterable):
        return _UNFIT
    items = list(value)
    fixed = get_origin(option) is tuple and Ellipsis not in arguments
    if fixed and len(items) != len(arguments):
        return _UNFIT
    fitted = [_fit(item, arguments[place if fixed else 0]) for place, item in enumerate(items)]
    return _UNFIT if _UNFIT in fitted else tuple(fitted)


def _finite(value: float) -> bool:
    return isinstance(value, int) or math.isfinite(value)  # a whole number may be beyond float64


def _short(value: Any) -> str:
    try:
        text = repr(value)
    except ValueError:  # Python does not print whole numbers of thousands of digits
        return "a number of thousands of digits"
    return text if len(text) <= 100 else f"{text[:100]}..."


def _argument_sentences(docstring: str) -> dict[str, str]:
    """The sentences of the `Args:` section; one line may explain several names (`num_train, num_test: ...`)."""
    _, _, section = docstring.partition("Args:\n")
    sentences: dict[str, str] = {}
    names: list[str] = []
    for line in section.splitlines():
        if not line.startswith("    "):
            break
        start = re.fullmatch(r" {4}(\w+(?:, \w+)*): (.*)", line)
        if start:
            names = start[1].split(", ")
            sentences.update(dict.fromkeys(names, start[2].strip()))
        else:
            sentences.update({name: f"{sentences[name]} {line.strip()}" for name in names})
    return {name: text[:1].upper() + text[1:] for name, text in sentences.items()}
