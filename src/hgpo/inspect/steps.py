"""Every number of every shown step, as plain columns for `--json`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ..estimators.explain import Term
from ..steps.columns import FloatArray, IntArray
from .analysis import Analysis
from .text import named


def step_columns(shown: Iterable[Analysis]) -> dict[str, Any]:
    """Columns of equal length; `terms` has null where a step lacks a term."""
    columns: dict[str, Any] = {
        name: [] for name in ("iteration", "task", "trajectory", "step", "reward", "return")
    }
    columns |= {"advantages": {}, "levels": [], "terms": {}}
    for analysis in shown:
        rows = analysis.order
        columns["iteration"] += [analysis.number] * len(rows)
        for name in ("task", "trajectory"):
            values = analysis.batch.encoded(name)
            texts = np.array([named(value) for value in values.values], dtype=object)
            columns[name] += texts[values.codes[rows]].tolist()
        columns["step"] += analysis.trajectories.step.tolist()
        columns["reward"] += analysis.batch.rewards[rows].tolist()
        columns["return"] += analysis.returns.tolist()
        for name, found in analysis.estimates.items():
            columns["advantages"].setdefault(name, []).extend(found.advantages.tolist())
            terms = columns["terms"].setdefault(
                name, [{"name": t.name, "members": t.members} for t in found.terms]
            )
            for entry, term in zip(terms, found.terms):
                for key, column in term_columns(term).items():
                    entry.setdefault(key, []).extend(_spread(column, term.rows, len(rows)))
        columns["levels"] = columns["levels"] or [[] for _ in analysis.levels]
        for labels, known in zip(analysis.levels, columns["levels"]):
            known += labels.tolist()
    return columns


def term_columns(term: Term) -> dict[str, FloatArray | IntArray]:
    """The numbers of a term, as the page shows them."""
    return {
        "group": term.labels,
        "size": term.sizes,
        "score": term.score,
        "baseline": term.baseline,
        "divisor": term.divisor,
        "value": term.values,
        "weight": term.weights,
    }


def _spread(values: FloatArray | IntArray, rows: IntArray, count: int) -> list[Any]:
    spread = np.full(count, None, dtype=object)
    spread[rows] = values.tolist()
    return list(spread)
