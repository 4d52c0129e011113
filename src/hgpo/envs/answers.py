"""What an environment answered, checked and made plain: the one gate between foreign code and everything else.

In this process and in a worker the same answers pass and the same ones are refused, so a run does not depend on where
its environments are played. What is refused raises `WrongAnswer`; whoever plays makes it a failure of the environment.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn, TypeVar

from .contract import Observation, Transition

T = TypeVar("T")

LARGEST = 1e100
"""Size of rewards and scores: more than `hgpo.estimators.estimate.LARGEST` nobody can compute with."""
LONGEST_CAUSE = 500
"""Characters of a failure's cause that are kept."""


class WrongAnswer(Exception):
    """An answer that is not what the contract says; the message says what was given and what was expected."""


def contained(call: Callable[[], T]) -> T:
    """What a call of foreign code returns; whatever it raises is an `Exception`.

    Exceptions of other kinds (SystemExit, a class of its own) end event loops and programs, and it is not for an
    environment to end those. Ctrl-C passes.
    """
    try:
        return call()
    except (Exception, KeyboardInterrupt):
        raise
    except BaseException as error:
        raise WrongAnswer(cause(error)) from error


def observation(seen: Any) -> Observation:
    """What `reset` returned, in plain types."""
    if not isinstance(seen, Observation):
        _wrong("reset() returned", seen, "an hgpo.envs.Observation")
    return Observation(_text(seen.text, "text"), _texts(seen.admissible, "admissible"), _info(seen.info))


def transition(seen: Any) -> Transition:
    """What `step` returned, in plain types."""
    if not isinstance(seen, Transition):
        _wrong("step() returned", seen, "an hgpo.envs.Transition")
    return Transition(
        _text(seen.text, "text"),
        _number(seen.reward, "reward"),
        _flag(seen.terminated, "terminated"),
        _flag(seen.truncated, "truncated"),
        _texts(seen.admissible, "admissible"),
        _flag(seen.success, "success"),
        _number(seen.score, "score"),
        _info(seen.info),
    )


def task_ids(tasks: Any, split: str) -> list[str]:
    """What `tasks(split)` returned, as a list of texts."""
    return _texts(tasks, f"tasks({split!r})")


def split_names(splits: Any) -> list[str]:
    """What `splits` is, as a list of texts."""
    return _texts(splits, "splits")


def action(value: Any) -> str:
    """What an actor's `act` returned."""
    return _text(value, "the action")


def version(value: Any) -> int:
    """What `world_version` is."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < 1:
        _wrong("world_version is", value, "a whole number from 1")
    return int(value)


def cause(error: BaseException) -> str:
    """An exception of foreign code in words, however long its text is and whether or not it has one."""
    try:
        text = str(error)
    except Exception:
        text = "(its message cannot be read)"
    text = text if len(text) <= LONGEST_CAUSE else text[:LONGEST_CAUSE] + "..."
    if isinstance(error, WrongAnswer):
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _wrong(what: str, given: Any, expected: str) -> NoReturn:
    try:
        shown = repr(given)
    except Exception:
        shown = "something that cannot be shown"
    shown = shown if len(shown) <= 80 else shown[:77] + "..."
    raise WrongAnswer(f"{what} {shown} ({type(given).__name__}); expected {expected}")


def _text(value: Any, name: str) -> str:
    if not isinstance(value, str):
        _wrong(f"{name} is", value, "a text")
    plain = str.__str__(value)
    if not plain.isascii():
        try:
            plain.encode()
        except UnicodeEncodeError:
            _wrong(f"{name} is", plain, "a text that UTF-8 can hold (no lone surrogates)")
    return plain


def _texts(values: Any, name: str) -> list[str]:
    if isinstance(values, (str, bytes)) or not isinstance(values, Sequence):
        _wrong(f"{name} is", values, "a list of texts")
    return [_text(value, f"an item of {name}") for value in values]


def _number(value: Any, name: str) -> float:
    # numpy's scalars are numbers, its arrays are not.
    if not isinstance(value, numbers.Real):
        _wrong(f"{name} is", value, "a number")
    plain = float(value)
    if not math.isfinite(plain) or abs(plain) > LARGEST:
        _wrong(f"{name} is", value, f"a finite number of at most {LARGEST:g} in size")
    return plain


def _flag(value: Any, name: str) -> bool:
    # numpy's bool is no `bool`.
    if not isinstance(value, bool) and type(value).__name__ not in ("bool", "bool_"):
        _wrong(f"{name} is", value, "True or False")
    return bool(value)


def _info(info: Any) -> dict[str, Any]:
    if not isinstance(info, Mapping):
        _wrong("info is", info, "a dict")
    return {_text(name, "a name in info"): _plain(value, f"info[{name!r}]") for name, value in info.items()}


def _plain(value: Any, name: str) -> Any:
    """A JSON-like value as JSON would bring it back."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _text(value, name)
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        return float(value)
    if isinstance(value, Mapping):
        return {_text(key, f"a name in {name}"): _plain(inner, name) for key, inner in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, (bytes, bytearray)):
        return [_plain(inner, name) for inner in value]
    if type(value).__name__ in ("bool", "bool_"):
        return bool(value)
    _wrong(f"{name} is", value, "plain values: texts, numbers, lists and dicts of them")
