"""The settings of an environment that has no preset: those of `own` or `own-model`, fitted to what it brings."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

from ..envs import answers, registry
from ..envs.contract import TextEnv
from ..errors import BadEnv, EnvironmentFailed, HgpoError

PRESET = "own"
"""For the small model; a language model, `model=PATH`, has `own-model`."""
MODEL_PRESET = "own-model"


def fitted(name: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """What the environment called `name`, made with `settings`, changes of the preset, as a tree of settings.

    Its own prompt and memory are used where it brings them; it is trained on its split `train` and evaluated on
    `in-domain`, or on its first and on the next one where it has no splits of these names.
    """
    env = _source(name, settings)
    tree: dict[str, Any] = {}
    if callable(getattr(env, "prompt", None)):
        tree["agent"] = {"prompt": "env"}
    if callable(getattr(env, "memory", None)):
        tree.setdefault("agent", {})["memory"] = "env"
    splits = _splits(env, name)
    train = "train" if "train" in splits else splits[0]
    others = [split for split in splits if split != train]
    held_out = "in-domain" if "in-domain" in splits else others[0] if others else train
    return {**tree, "env": {"split": train}, "eval": {"splits": [held_out]}}


def _source(name: str, settings: Mapping[str, Any]) -> Any:
    """The class of the environment where it says all that is asked, else an environment."""
    factory = registry.factory(name)
    if isinstance(getattr(factory, "splits", None), (tuple, list)):
        return factory
    try:
        env: TextEnv = answers.contained(functools.partial(registry.make, name, **settings))
    except HgpoError:
        raise
    except Exception as error:
        raise EnvironmentFailed(
            f"The environment {name} could not be made: {answers.cause(error)}"
        ) from error
    return env


def _splits(env: Any, name: str) -> Sequence[str]:
    try:
        splits = answers.split_names(env.splits)
    except answers.WrongAnswer as error:
        raise BadEnv(name, [f"{error}."]) from error
    if not splits:
        raise BadEnv(name, ["Given: splits is empty. Expected: the names of its sets of tasks."])
    return list(splits)
