"""What runs are called beside each other: by the settings in which they differ."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..config.schema import Config
from ..config.tree import MAIN, SHORT_NAMES, section
from ..settings import settings_of

FEW = 3
"""So many settings that differ are all named in a title."""
LONG = 60
"""Characters of a value that are shown."""

_SHORT = {place: name for name, place in SHORT_NAMES.items()}


def flat(config: Mapping[str, Any]) -> dict[str, str]:
    """All settings of a run by the names that the command line knows, each as the word one would write.

    >>> flat({"estimator": {"name": "gigpo", "settings": {"depth": 2}}, "update": {"lr": 0.001}, "seed": 3})
    {'estimator': 'gigpo', 'depth': '2', 'lr': '0.001', 'seed': '3'}
    """
    return {_name(path): _word(value) for path, value in _leaves(config, ())}


def differing(configs: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    """Of each run the settings in which not all of the runs agree, estimator first.

    A setting that a run does not have counts with its default. One without a default (of another estimator or
    environment) is named only where nothing else tells the runs apart.

    >>> differing([{"seed": 1, "update": {"lr": 0.1}}, {"seed": 2, "update": {"lr": 0.1}}])
    [{'seed': '1'}, {'seed': '2'}]
    """
    every = [flat(config) for config in configs]
    names = sorted({name for one in every for name in one}, key=_rank)
    full = [
        {name: word for name in names if (word := one.get(name, _default(name))) is not None} for one in every
    ]
    words = {name: [one[name] for one in full if name in one] for name in names}
    apart = [name for name in names if len(set(words[name])) > 1]
    found = [{name: one[name] for name in apart if name in one} for one in full]
    if len({tuple(one.items()) for one in found}) < len({tuple(one.items()) for one in full}):
        apart = [name for name in names if name in apart or len(words[name]) < len(full)]
    ends = {name: _ends(words[name]) for name in apart}
    return [{name: ends[name].get(one[name], one[name]) for name in apart if name in one} for one in full]


def _rank(name: str) -> tuple[int, str]:
    """Estimator, environment and model, then settings with short names, then the others; the seed last."""
    first = ["estimator", "env", "model"]
    if name in first:
        return first.index(name), name
    return (3 if name in SHORT_NAMES else 5 if name == "seed" else 4), name


def _ends(words: Sequence[str]) -> dict[str, str]:
    """Paths by their last part, where that tells them apart."""
    ends = {word: word.rstrip("/").rpartition("/")[2] for word in set(words)}
    return ends if len(set(ends.values())) == len(ends) else {}


def telling(apart: Sequence[Mapping[str, str]]) -> list[dict[str, str]]:
    """Of settings that differ all, or where they are many the first ones that tell as much apart as all of them."""
    names = list(dict.fromkeys(name for one in apart for name in one))
    if len(names) > FEW:
        kept: list[str] = []
        for name in names:
            if _kinds(apart, [*kept, name]) > _kinds(apart, kept):
                kept.append(name)
        names = kept
    return [{name: one[name] for name in names if name in one} for one in apart]


def _kinds(apart: Sequence[Mapping[str, str]], names: Sequence[str]) -> int:
    return len({tuple(one.get(name) for name in names) for one in apart})


def titles(
    configs: Sequence[Mapping[str, Any]], names: Sequence[str], endings: Sequence[str] = ()
) -> list[str]:
    """A title for each run (or group of runs), no two alike.

    The names that somebody gave (`name=...`) where all are named and no two alike; otherwise what differs
    (`gigpo, lr=0.001`), of many such settings only as many as tell them apart. Where nothing differs, `names`.

    Args:
        configs: the settings of each, without those that do not tell it apart.
        names: what each is called by itself.
        endings: what is added to each.
    """
    given = [str(config.get("name") or "") for config in configs]
    if len(configs) < 2:
        found = list(names)
    elif all(given) and len(set(given)) == len(given):
        found = given
    else:
        rest = [{key: value for key, value in config.items() if key != "name"} for config in configs]
        found = [spoken(one) or name for one, name in zip(telling(differing(rest)), names)]
    used: dict[str, int] = {}
    made = []
    for title in map("".join, zip(found, endings or [""] * len(found))):
        used[title] = used.get(title, 0) + 1
        made.append(title if used[title] == 1 else f"{title} ({used[title]})")
    return made


def spoken(settings: Mapping[str, str]) -> str:
    """Settings in a line; estimator, environment and model by their values alone.

    >>> spoken({"estimator": "gigpo", "lr": "0.001"})
    'gigpo, lr=0.001'
    """
    return ", ".join(value if name in MAIN else f"{name}={value}" for name, value in settings.items())


def _leaves(tree: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, value in tree.items():
        inner = (*path, str(name))
        if isinstance(value, Mapping):
            # The settings of an estimator or environment are written beside its own.
            yield from _leaves(value, path if name == "settings" and len(path) == 1 else inner)
        else:
            yield inner, value


def _name(path: tuple[str, ...]) -> str:
    if len(path) == 2 and MAIN.get(path[0]) == path[1]:
        return path[0]
    dotted = ".".join(path)
    return _SHORT.get(dotted, dotted)


def _default(name: str) -> str | None:
    top, _, inner = SHORT_NAMES.get(name, name).partition(".")
    inner = inner or MAIN.get(top, "")
    kind = section(top) if inner else Config
    known = settings_of(kind) if kind is not None else {}
    one = known.get(inner or top)
    return None if one is None else _word(one.default)


def _word(value: Any) -> str:
    if isinstance(value, str):
        text = value
    elif isinstance(value, float):
        text = f"{value:g}"
    elif isinstance(value, tuple):
        text = json.dumps(list(value))
    else:
        text = json.dumps(value, default=str)
    return text if len(text) <= LONG else text[: LONG - 1] + "…"
