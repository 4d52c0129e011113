"""One mechanism for all settings: values are read and checked alike wherever they come from."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import pytest

from hgpo import StepBatch, estimate
from hgpo.config import Config, load
from hgpo.config import build as config_of
from hgpo.errors import BadSetting, HgpoError, UnknownName
from hgpo.estimators.table import ESTIMATORS
from hgpo.settings import (
    Setting,
    Settings,
    build,
    parameters_of,
    parse_all,
    setting,
    settings_of,
)
from hgpo.words import parse_value


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
        ("scale=0", "expected a number above 0 and at most 10"),
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


@pytest.mark.parametrize("text", ["9" * 5000, "[" * 5000, "[" * 5000 + "]" * 5000])
def test_values_beyond_all_sense_are_refused(text: str) -> None:
    for word in (f"env.settings={text}", f"iterations={text}", f"reasoning={text}"):
        with pytest.raises(BadSetting, match="was given; expected"):
            load(None, [word])


@pytest.mark.parametrize("name", [[], {}, [["hgpo"]]])
def test_an_estimator_has_a_text_as_its_name(name: Any) -> None:
    with pytest.raises(HgpoError, match="estimator"):
        config_of({"estimator": {"name": name}})


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
        whole = "float" not in str(one.kind)
        for wrong in (
            -1 if whole else -1.0,
            math.nan,
            math.inf,
            -math.inf,
            2**63,
            10**400,
            1e300,
            "x",
            None,
            True,
            [1],
        ):
            if wrong is None and type(None) in get_args(one.kind):
                continue
            given = wrong if "tuple" not in str(one.kind) else (wrong, wrong)
            with pytest.raises(BadSetting, match="expected") as error:
                one.check(given, name)
            assert "\n" not in str(error.value)
            assert len(str(error.value)) < 700


NUMBERS = [
    *(
        "nan",
        "inf",
        "-inf",
        "-1",
        "-1e-9",
        "0",
        "-0.0",
        "1e-320",
        "1e30",
        "1e308",
        "1e309",
        str(2**63),
        "1" + "0" * 400,
    ),
    *("x", "", "1,2", "[]", "{}", "true", "none", "\u0661", "1e", "--1"),
]


@pytest.mark.parametrize(
    ("name", "one"),
    [(name, one) for name, one in every_setting() if not name.startswith("estimator ")],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_whatever_is_given_for_a_setting_is_refused_in_one_sentence_or_makes_a_config(
    name: str, one: Setting
) -> None:
    """Every setting with every bad value, as words of a command: no other error, no number out of range."""
    for text in NUMBERS:
        try:
            config = load("quickstart", [f"{name}={text}"])
        except HgpoError:
            continue
        section, _, field = name.rpartition(".")
        value = getattr(getattr(config, section) if section else config, field)
        numbers = [
            item
            for item in (value if isinstance(value, tuple) else (value,))
            if isinstance(item, (int, float))
        ]
        assert all(math.isfinite(item) and 0 <= item <= 2**32 for item in numbers), (
            f"{name}={text} made {value}"
        )


@pytest.mark.parametrize(
    "words",
    [
        ["model.heads=3"],
        ["model.hidden=100", "model.heads=8"],
        ["model.hidden=12", "model.heads=4"],
        ["update.betas=0.9"],
        ["update.betas=0.9,0.99,0.999"],
        ["update.betas=0.9,1"],
        ["update.betas=[]"],
        ["update.dual_clip=0.5"],
        ["update.grad_clip=0"],
        ["update.grad_clip=1e-300"],
        ["model.vocabulary=1"],
        ["update.grad_clip=-1"],
        ["rollout.temperature=1e-9"],
        ["eval.temperature=1e-320"],
        ["eval.splits=[]"],
        ["device=cuda:-1"],
    ],
    ids=" ".join,
)
def test_shapes_that_do_not_fit_are_refused(words: list[str]) -> None:
    with pytest.raises(BadSetting, match="expected"):
        load("quickstart", words)


@pytest.mark.parametrize("name", sorted(ESTIMATORS))
def test_an_estimator_with_its_numbers_at_their_ends_gives_finite_advantages(name: str) -> None:
    rows = [
        {"task": "t", "trajectory": i, "step": s, "observation": "o", "reward": float(i == s), "valid": i > 0}
        for i in range(3)
        for s in range(2)
    ]
    batch = StepBatch.from_rows(rows)
    for setting_name, one in settings_of(ESTIMATORS[name].settings).items():
        low = one.low if one.low is not None else one.above
        if low is None:
            continue
        high = one.high if one.high is not None else (2**31 - 1 if "int" in str(one.kind) else 1e9)
        for value in (low, 1e-320, high):
            if isinstance(value, float) and "float" not in str(one.kind):
                value = int(value)
            if value < low or value == one.above:
                continue
            found = estimate(batch, name, **{setting_name: value})
            assert np.isfinite(found.advantages).all(), f"{setting_name}={value}"
