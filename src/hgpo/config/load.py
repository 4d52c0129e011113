"""Reading a `Config`: presets in TOML, `key=value` overrides, and errors that suggest the nearest name."""

from __future__ import annotations

import dataclasses
import importlib
import json
import typing
from collections.abc import Iterable, Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from ..errors import BadFile, BadSetting, MissingExtra, UnknownName
from .schema import Config, EnvConfig, EstimatorConfig

# Names under which the published scripts know a setting, and where it lives here.
PUBLISHED = {
    "mode": "estimator.mode",
    "weight_type": "estimator.weight_type",
    "length_weight_alpha": "estimator.length_weight_alpha",
    "base_group": "estimator.base_group",
    "depth": "estimator.depth",
    "gamma": "estimator.gamma",
    "history_length": "agent.history_length",
    "group_size": "rollout.group_size",
    "max_steps": "agent.max_steps",
    "reasoning": "agent.reasoning",
    "lr": "update.lr",
}
# Those that only the published estimator has: they ask for it, whatever the preset's own estimator is.
HGPO_ONLY = frozenset({"weight_type", "length_weight_alpha", "base_group"})
# A section given a bare value means this field of it.
SHORT = {"estimator": "name", "env": "name", "model": "path"}
# Sections that take names they do not know themselves.
OPEN = {"estimator": "settings", "env": "settings"}


def preset_names() -> list[str]:
    """The presets shipped with the package."""
    folder = resources.files("hgpo.config") / "presets"
    return sorted(entry.name[:-5] for entry in folder.iterdir() if entry.name.endswith(".toml"))


def load(preset: str, overrides: Iterable[str] = ()) -> Config:
    """The config of a preset (a name, or a path to a TOML file) with `key=value` overrides applied."""
    return build(apply(_read(preset), overrides))


def apply(tree: Mapping[str, Any], overrides: Iterable[str]) -> dict[str, Any]:
    """A nested dict of settings with `key=value` overrides applied."""
    tree = _spread(tree)
    given: dict[str, Any] = {}
    for override in overrides:
        key, equals, value = override.partition("=")
        if not equals:
            raise BadSetting(f"{override!r} is not a setting; expected key=value, for example group_size=8.")
        _put(given, key.strip(), _value(value.strip()))
        if key.strip() in HGPO_ONLY:
            given.setdefault("estimator", {}).setdefault("name", "hgpo")
    for section, kind in {"estimator": EstimatorConfig, "env": EnvConfig}.items():
        before = tree.get(section, {}).get("name")
        if given.get(section, {}).get("name", before) != before:
            # The settings of another estimator or environment do not carry over.
            own = {one.name for one in dataclasses.fields(kind)} - {"settings"}
            tree[section] = {key: value for key, value in tree.get(section, {}).items() if key in own}
    return _merge(tree, given)


def _merge(tree: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    result = dict(tree)
    for key, value in over.items():
        inner = result.get(key)
        both = isinstance(inner, Mapping) and isinstance(value, Mapping)
        result[key] = _merge(inner, value) if both else value  # type: ignore[arg-type]
    return result


def build(tree: Mapping[str, Any]) -> Config:
    """A config from a nested dict, every name and type checked."""
    config = _build(Config, _spread(tree), "")
    assert isinstance(config, Config)
    check(config)
    return config


def as_dict(config: Config) -> dict[str, Any]:
    """The config as plain JSON values; `build` reads it back."""
    return typing.cast("dict[str, Any]", json.loads(json.dumps(dataclasses.asdict(config))))


def check(config: Config) -> None:
    """Values that the types alone do not rule out."""
    positive = {
        "rollout.tasks": config.rollout.tasks,
        "rollout.group_size": config.rollout.group_size,
        "agent.max_steps": config.agent.max_steps,
        "agent.max_response_tokens": config.agent.max_response_tokens,
        "update.epochs": config.update.epochs,
        "update.micro_tokens": config.update.micro_tokens,
        "update.minibatch_rows": config.update.minibatch_rows,
        "env.attempts": config.env.attempts,
        "keep": config.keep,
        "save_every": config.save_every,
    }
    for name, value in positive.items():
        if value < 1:
            raise BadSetting(f"{name} is {value}; expected 1 or more.")
    choices = {
        "update.aggregate": (config.update.aggregate, ("token-mean", "step-mean")),
        "update.old_logprobs": (config.update.old_logprobs, ("sampled", "recomputed")),
        "model.dtype": (config.model.dtype, ("float32", "bfloat16")),
        "model.tokenizer": (config.model.tokenizer, ("word", "bpe")),
        "env.execution": (config.env.execution, ("inline", "process")),
    }
    for name, (given, allowed) in choices.items():
        if given not in allowed:
            raise BadSetting(f"{name} is {given!r}; expected one of {', '.join(allowed)}.")
    estimator_settings(config)
    at_least_zero = {
        "iterations": config.iterations,
        "agent.history_length": config.agent.history_length,
        "eval.max_steps": config.eval.max_steps,
        "update.lr": config.update.lr,
        "update.kl_coef": config.update.kl_coef,
        "rollout.temperature": config.rollout.temperature,
        "warm.episodes": config.warm.episodes,
    }
    for name, number in at_least_zero.items():
        if number < 0:
            raise BadSetting(f"{name} is {number}; expected 0 or more.")


def estimator_settings(config: Config) -> dict[str, Any]:
    """All settings for `hgpo.estimate`, checked: those given, K as the depth unless told otherwise."""
    from ..estimators.table import ESTIMATORS
    from ..settings import build as build_settings

    name = config.estimator.name
    if name not in ESTIMATORS:
        raise UnknownName("estimator", name, ESTIMATORS)
    kind = ESTIMATORS[name].settings
    known = {one.name for one in dataclasses.fields(kind)}
    defaults = {
        "depth": config.agent.history_length,
        "gamma": config.estimator.gamma,
        "invalid_penalty": config.update.invalid_penalty,
    }
    chosen = {key: value for key, value in defaults.items() if key in known}
    chosen.update(config.estimator.settings)
    build_settings(kind, chosen, f"estimator {name!r}")
    return chosen


def _read(preset: str) -> dict[str, Any]:
    toml = _toml()
    path = Path(preset)
    if preset.endswith(".toml"):
        try:
            text = path.read_text(encoding="utf-8")
        except OSError as error:
            raise BadFile(f"Cannot read the preset {preset}: {error.strerror}.") from error
    else:
        if preset not in preset_names():
            raise UnknownName("preset", preset, preset_names(), fix="Or give a path that ends in .toml.")
        text = (resources.files("hgpo.config") / "presets" / f"{preset}.toml").read_text(encoding="utf-8")
    try:
        return typing.cast("dict[str, Any]", toml.loads(text))
    except toml.TOMLDecodeError as error:
        raise BadFile(f"The preset {preset} is not valid TOML: {error}.") from error


def _toml() -> Any:
    for name in ("tomllib", "tomli"):
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    raise MissingExtra("tomli", "train", "Reading presets on Python 3.10")


def _value(text: str) -> Any:
    """A value of the command line: TOML where it parses, else the bare text."""
    toml = _toml()
    lowered = {"True": "true", "False": "false", "None": '""'}.get(text, text)
    try:
        return toml.loads(f"value = {lowered}")["value"]
    except toml.TOMLDecodeError:
        return text


def _put(tree: dict[str, Any], key: str, value: Any) -> None:
    key = PUBLISHED.get(key, key)
    if key in SHORT:
        key = f"{key}.{SHORT[key]}"
    *sections, last = key.split(".")
    for section in sections:
        inner = tree.setdefault(section, {})
        if not isinstance(inner, dict):
            inner = tree[section] = {SHORT.get(section, "name"): inner}
        tree = inner
    tree[last] = value


def _spread(tree: Mapping[str, Any]) -> dict[str, Any]:
    """Published names at the top and bare section values put where they belong."""
    result: dict[str, Any] = {}
    for key, value in tree.items():
        if isinstance(value, Mapping):
            for inner, deep in value.items():
                _put(result, f"{key}.{inner}", dict(deep) if isinstance(deep, Mapping) else deep)
            result.setdefault(key, {})
        else:
            _put(result, key, value)
    return result


def _build(kind: Any, tree: Mapping[str, Any], where: str) -> Any:
    fields = {one.name: one for one in dataclasses.fields(kind)}
    hints = typing.get_type_hints(kind)
    values: dict[str, Any] = {}
    extra: dict[str, Any] = {}
    for key, value in tree.items():
        path = f"{where}{key}"
        if key not in fields:
            if where.rstrip(".") in OPEN:
                extra[key] = value
                continue
            known = [f"{where}{name}" for name in fields] + ([] if where else sorted(PUBLISHED))
            if not where:
                known += [f"{name}.{one.name}" for name in fields for one in _inner(hints[name])]
            raise UnknownName("setting", path, known)
        hint = hints[key]
        if dataclasses.is_dataclass(hint):
            if not isinstance(value, Mapping):
                raise BadSetting(f"{path} is {value!r}; expected a section with settings of its own.")
            values[key] = _build(hint, value, f"{path}.")
        else:
            values[key] = _cast(path, value, hint)
    if extra:
        name = OPEN[where.rstrip(".")]
        values[name] = {**values.get(name, {}), **extra}
    return kind(**values)


def _inner(hint: Any) -> tuple[Any, ...]:
    return dataclasses.fields(hint) if dataclasses.is_dataclass(hint) else ()


def _cast(path: str, value: Any, hint: Any) -> Any:
    """`value` as the type of its field, without silent surprises."""
    origin = typing.get_origin(hint)
    if origin is tuple:
        items = value if isinstance(value, list | tuple) else str(value).split(",")
        inner = typing.get_args(hint)[0]
        return tuple(_cast(path, item, inner) for item in items)
    if origin is dict:
        if isinstance(value, Mapping):
            return dict(value)
    elif hint is bool:
        if isinstance(value, bool):
            return value
    elif hint is int:
        if isinstance(value, int) and not isinstance(value, bool):
            return value
    elif hint is float:
        if isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
    elif hint is str:
        return str(value)
    expected = "a section" if origin is dict else {bool: "true or false"}.get(hint, hint.__name__)
    raise BadSetting(f"{path} is {value!r}; expected {expected}.")
