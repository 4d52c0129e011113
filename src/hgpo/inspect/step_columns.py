"""Every number of every shown step, as plain columns for `--json`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from ..estimators.explain import Explanation
from ..estimators.terms import Score, Sum, Term
from ..steps.columns import FloatArray, IntArray
from .analysis import Analysis
from .text import named

Column = FloatArray | IntArray


def step_columns(shown: Iterable[Analysis]) -> dict[str, Any]:
    """Columns of equal length; `terms`, `before` and `scores` have null where a step lacks something."""
    columns: dict[str, Any] = {
        name: [] for name in ("iteration", "task", "trajectory", "step", "reward", "return")
    }
    columns |= {"advantages": {}, "levels": [], "terms": {}, "before": {}, "scores": {}}
    for analysis in shown:
        rows, first = analysis.order, len(columns["step"])
        columns["iteration"] += [analysis.number] * len(rows)
        for name in ("task", "trajectory"):
            values = analysis.batch.encoded(name)
            texts = np.array([named(value) for value in values.values], dtype=object)
            columns[name] += texts[values.codes[rows]].tolist()
        columns["step"] += analysis.trajectories.step.tolist()
        columns["reward"] += analysis.batch.rewards[rows].tolist()
        columns["return"] += analysis.returns.tolist()
        for name, estimate in analysis.estimates.items():
            columns["advantages"].setdefault(name, []).extend(estimate.advantages.tolist())
            _add_arithmetic(columns, name, estimate, first)
        columns["levels"] = columns["levels"] or [[] for _ in analysis.levels]
        for labels, known in zip(analysis.levels, columns["levels"]):
            known += labels.tolist()
    return columns


def _add_arithmetic(columns: dict[str, Any], name: str, estimate: Explanation, first: int) -> None:
    """Add the sums and the score of an estimate whose steps are the rows from `first` on."""
    count = len(estimate.advantages)
    *before, last = estimate.sums
    _add_terms(columns["terms"].setdefault(name, []), last, first, count)
    known = columns["before"].setdefault(name, [])
    for one in before:
        entry = _entry(known, {"name": one.name, "formula": one.formula, "terms": []})
        _add_columns(entry, {"total": one.total}, np.arange(count), first, count)
        _add_terms(entry["terms"], one, first, count)
    if estimate.score is not None:
        _add_score(columns["scores"].setdefault(name, {}), estimate.score, first, count)


def _add_terms(entries: list[dict[str, Any]], one: Sum, first: int, count: int) -> None:
    for term in one.terms:
        entry = _entry(entries, {"name": term.name, "members": term.members})
        _add_columns(entry, term_columns(term), term.rows, first, count)


def _add_score(entry: dict[str, Any], score: Score, first: int, count: int) -> None:
    entry |= {"name": score.name, "formula": score.formula}
    everywhere = np.arange(count)
    _add_columns(entry, {"total": score.total}, everywhere, first, count)
    parts = entry.setdefault("parts", [])
    for part in score.parts:
        known = _entry(parts, {"name": part.name, "weight": part.weight})
        _add_columns(known, {"value": part.values}, everywhere, first, count)
    if score.following is not None:
        following = entry.setdefault(
            "following", {"name": score.following.name, "factor": score.following.factor, "columns": {}}
        )
        _add_columns(following, {"value": score.following.values}, everywhere, first, count)
        _add_columns(following["columns"], score.following.columns, everywhere, first, count)


def _entry(entries: list[dict[str, Any]], new: dict[str, Any]) -> dict[str, Any]:
    """The entry of that name, made if there is none yet."""
    for entry in entries:
        if entry["name"] == new["name"]:
            return entry
    entries.append(new)
    return new


def _add_columns(
    entry: dict[str, Any], columns: Mapping[str, Column], rows: IntArray, first: int, count: int
) -> None:
    """Append values of `count` steps, null where a step has none and for the steps before that had none."""
    for name, values in columns.items():
        known = entry.setdefault(name, [])
        known += [None] * (first - len(known))
        spread = np.full(count, None, dtype=object)
        spread[rows] = values.tolist()
        known += spread.tolist()


def term_columns(term: Term) -> dict[str, Column]:
    """The numbers of a term, as the page shows them."""
    columns: dict[str, Column] = {
        "group": term.labels,
        "size": term.sizes,
        "score": term.score,
        "baseline": term.baseline,
        "divisor": term.divisor,
        "value": term.values,
        "weight": term.weights,
    }
    if term.shrinkage is not None:
        columns |= {"own_weight": term.shrinkage.own, "so_far": term.shrinkage.values}
    return columns
