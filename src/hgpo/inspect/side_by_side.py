"""Two runs side by side, or two estimators on the same rollouts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..errors import BadSetting
from ..runs.naming import differing
from .findings import percent

Numbers = Iterator[tuple[str, float]]


def compare_runs(
    first: Mapping[str, Any],
    second: Mapping[str, Any],
    names: tuple[str, str],
    configs: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """Every number that both reports have, with its difference.

    Args:
        first: the content of the one report.
        second: of the other.
        names: what the two are called.
        configs: the settings of both where they are runs; those that differ are listed.
    """
    numbers = _rows(dict(_numbers(first)), dict(_numbers(second)))
    by_name = {row["name"]: row for row in numbers}
    sentences = [
        _sentence(by_name[name], words, names)
        for name, words in {
            "success": "success of the rollouts",
            "inconsistency": "pairs in the same state with different histories",
            "peers_share": "steps with a peer in the same state",
            "flat_task_share": "task groups without a difference in reward",
            "aliased_share": "steps with an observation that stands for several states",
        }.items()
        if name in by_name
    ]
    return {
        "kind": "runs",
        "first": names[0],
        "second": names[1],
        "numbers": numbers,
        "sentences": sentences,
        "settings": _settings(configs),
        "iterations": list(second["iterations"]),
        "levels": list(second["levels"]),
    }


def _settings(configs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]] | None:
    """The settings that differ, None where not both are known."""
    if len(configs) != 2 or not all(configs):
        return None
    one, other = differing(configs)
    names = dict.fromkeys([*one, *other])
    return [{"name": name, "first": one.get(name), "second": other.get(name)} for name in names]


def compare_estimators(content: Mapping[str, Any], first: str, second: str) -> dict[str, Any]:
    """What two estimators make of the same rollouts."""
    if first == second:
        raise BadSetting(f"--compare was given {first!r} twice; expected two different estimators.")
    pair = next(p for p in content["pairs"] if {p["first"], p["second"]} == {first, second})
    numbers = _rows(
        dict(_estimator(content["estimators"][first])), dict(_estimator(content["estimators"][second]))
    )
    correlation = "undefined" if pair["correlation"] is None else f"{pair['correlation']:.2f}"
    return {
        "kind": "estimators",
        "first": first,
        "second": second,
        "numbers": numbers,
        "pair": {key: value for key, value in pair.items() if key != "sample"},
        "sentences": [
            f"{first} and {second} disagree on the sign of {percent(pair['sign_disagreement'])} of the steps where "
            f"both have an advantage ({pair['opposite_steps']:.0f} steps, by "
            f"{pair['mean_opposite_difference']:.3f} on average); their correlation is {correlation}."
        ],
        "iterations": [
            {"iteration": entry["iteration"], "pair": _find(entry["pairs"], first, second)}
            for entry in content["iterations"]
        ],
    }


def _find(pairs: list[dict[str, Any]], first: str, second: str) -> dict[str, Any]:
    return next(p for p in pairs if {p["first"], p["second"]} == {first, second})


def _numbers(content: Mapping[str, Any]) -> Numbers:
    yield from content["summary"].items()
    for level in content["levels"]:
        for name, value in level.items():
            if isinstance(value, float):
                yield f"level {level['level']}: {name}", value
    for estimator, entry in content["estimators"].items():
        for name, value in _estimator(entry):
            yield f"{estimator}: {name}", value
    for kind in content["task_types"]:
        if "success" in kind:
            yield f"success of {kind['type']}", kind["success"]


def _estimator(entry: Mapping[str, Any]) -> Numbers:
    for name, value in entry.items():
        if isinstance(value, float):
            yield name, value
    for term, values in entry["terms"].items():
        yield f"{term}: advantage_share", values["advantage_share"]


def _rows(first: dict[str, float], second: dict[str, float]) -> list[dict[str, Any]]:
    return [
        {"name": name, "first": first[name], "second": second[name], "difference": second[name] - first[name]}
        for name in first
        if name in second
    ]


def _sentence(row: Mapping[str, Any], words: str, names: tuple[str, str]) -> str:
    return (
        f"{words}: {percent(row['first'])} in {names[0]}, {percent(row['second'])} in {names[1]} "
        f"({100 * row['difference']:+.1f} points)"
    )
