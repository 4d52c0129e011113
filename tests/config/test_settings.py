"""One mechanism for all settings: values are read and checked alike wherever they come from."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pytest

from hgpo.config import Config
from hgpo.errors import BadSetting, UnknownName
from hgpo.estimators.table import ESTIMATORS
from hgpo.settings import (
    Setting,
    Settings,
    build,
    parameters_of,
    parse_all,
    parse_value,
    setting,
    settings_of,
)


@dataclass(frozen=True)
class Sampling(Settings):
    temperature: float = setting(1.0, "Sampling temperature.", low=0)
    top_k: int | None = setting(None, "Sample among so many tokens.", low=1)
    engine: Literal["hf", "vllm"] = setting("hf", "What generates.")
    betas: tuple[float, float] = setting((0.9, 0.99), "Factors.", low=0, below=1)
    scale: float = setting(1.0, "A scale.", above=0, high=10)
    stop: tuple[str, ...] = setting((), "Words that end a reply.")
    greedy: bool = setting(False, "Take the likeliest token.")


KNOWN = settings_of(Sampling)


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("temperature=0", 0.0),
        ("temperature=1e-3", 1e-3),
        ("top_k=none", None),
        ("top_k=5", 5),
        ("engine=vllm", "vllm"),
        ("engine='vllm'", "vllm"),
        ("betas=0.5,0.6", (0.5, 0.6)),
        ("betas=[0.5, 0.6]", (0.5, 0.6)),
        ('stop=a,"b,c"', ("a", "b,c")),
        ("stop=[]", ()),
        ("greedy=True", True),
        ("greedy=no", False),
    ],
)
def test_words_are_read_by_the_type_of_their_setting(word: str, value: Any) -> None:
    ((name, read),) = parse_all([word], KNOWN, "sampling").items()
    assert read == value
    assert type(read) is type(value)
    assert getattr(Sampling(**{name: read}), name) == value


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("temperature=-1", "temperature=-1.0 was given; expected a number from 0. Sampling temperature."),
        ("temperature=nan", "expected a number from 0"),
        ("temperature=inf", "expected a number from 0"),
        ("temperature=warm", "temperature='warm' was given; expected a number from 0"),
        ("top_k=0", "expected a whole number from 1 or none"),
        ("top_k=1.5", "expected a whole number from 1 or none"),
        ("engine=vlm", "expected one of 'hf', 'vllm'. Did you mean 'vllm'?"),
        ("betas=0.5", "expected 2 numbers from 0 and below 1"),
        ("betas=0.5,1", "expected 2 numbers from 0 and below 1"),
        ("scale=0", "expected a number above 0 to 10"),
        ("greedy=3", "expected true or false"),
    ],
)
def test_wrong_values_are_refused_with_what_is_expected(word: str, message: str) -> None:
    with pytest.raises(BadSetting) as error:
        parse_all([word], KNOWN, "sampling")
    assert message in str(error.value)
    assert str(error.value).startswith(f"sampling: {word.partition('=')[0]}=")


def test_unknown_names_and_words_without_a_value() -> None:
    with pytest.raises(
        UnknownName, match=r"Unknown setting of sampling: 'temprature'\. Did you mean 'temperature'"
    ):
        parse_all(["temprature=1"], KNOWN, "sampling")
    with pytest.raises(BadSetting, match="'greedy' is not a setting; expected key=value"):
        parse_all(["greedy"], KNOWN, "sampling")


def test_no_object_with_a_forbidden_value_can_be_made() -> None:
    for given in ({"temperature": math.nan}, {"top_k": 0}, {"engine": "x"}, {"betas": (0.1,)}, {"greedy": 1}):
        with pytest.raises(BadSetting, match=rf"Sampling\.{next(iter(given))}="):
            Sampling(**given)  # type: ignore[arg-type]
    with pytest.raises(BadSetting):
        dataclasses.replace(Sampling(), scale=11.0)
    made = build(
        Sampling, {"temperature": np.float32(2), "top_k": np.int64(3), "greedy": np.bool_(True)}, "x"
    )
    assert (made.temperature, made.top_k, made.greedy) == (2.0, 3, True)
    assert [type(value) for value in (made.temperature, made.top_k, made.greedy)] == [float, int, bool]


def test_values_without_a_type_are_read_by_their_look() -> None:
    read = [
        parse_value(text)
        for text in ("3", "-0.5", "TRUE", "null", "3a", '{"a": [1]}', "[x, y]", "2026-01-01")
    ]
    assert read == [3, -0.5, True, None, "3a", {"a": [1]}, ["x", "y"], "2026-01-01"]


def test_parameters_of_a_function_are_settings() -> None:
    def world(size: str = "small", *, rooms: Iterable[str] | None = None, seed: int = 0) -> None:
        """A world.

        Args:
            size: how large it is,
                from wall to wall.
            rooms, seed: what is in it.
        """

    known = parameters_of(world)
    assert known is not None
    assert known["size"].sentence == "How large it is, from wall to wall."
    assert known["seed"].sentence == known["rooms"].sentence == "What is in it."
    assert parse_all(["rooms=a,b", "seed=3"], known, "world") == {"rooms": ("a", "b"), "seed": 3}
    assert parameters_of(lambda **anything: None) is None


def every_setting() -> list[tuple[str, Setting]]:
    """All settings of the schema and of the estimators."""
    classes = {f"estimator {name}": entry.settings for name, entry in ESTIMATORS.items()}
    sections = settings_of(Config)
    classes |= {name: one.kind for name, one in sections.items() if dataclasses.is_dataclass(one.kind)}
    deep = [
        (f"{owner}.{name}", one) for owner, kind in classes.items() for name, one in settings_of(kind).items()
    ]
    return deep + [(name, one) for name, one in sections.items() if not dataclasses.is_dataclass(one.kind)]


@pytest.mark.parametrize(
    ("name", "one"), every_setting(), ids=lambda value: value if isinstance(value, str) else ""
)
def test_every_setting_has_a_sentence_and_every_number_bounds(name: str, one: Setting) -> None:
    assert one.sentence.endswith("."), f"{name} has no sentence"
    assert one.check(one.default, name) == one.default
    if not one.names() and ("float" in str(one.kind) or "int" in str(one.kind)):
        assert one.low is not None or one.above is not None, f"{name} has no lower bound"
        for wrong in (-1.0 if "float" in str(one.kind) else -1, math.nan, math.inf):
            with pytest.raises(BadSetting, match="expected"):
                one.check(wrong, name)
