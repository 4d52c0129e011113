"""From raw findings to numbers with intervals: the JSON document that tables and plots are made from."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from .entries import OURS
from .intervals import Interval
from .study import POLICY_NAMES, Findings
from .worlds import WORLDS

MEASURES = ("mse", "bias", "variance", "correlation", "sign_agreement", "gradient_cosine")
LEVEL_MEASURES = ("share", "mse", "bias", "variance", "correlation", "sign_agreement")
CURVE_POINTS = 20
BETTER_LOW = {"mse", "bias", "variance"}
Document = dict[str, Any]


def summarise(findings: Findings) -> Document:
    """The whole document; `records` has one entry per world and estimator."""
    plan = findings.plan
    found: Document = {
        "schema_version": 1,
        "plan": {
            "first_seed": plan.first_seed,
            "seeds": plan.seeds,
            "batches": plan.batches,
            "learning_seeds": plan.learning_seeds,
            "updates": plan.updates,
            "ablation_seeds": plan.ablation_seeds,
            "estimators": {entry.label: {entry.estimator: entry.settings} for entry in plan.entries},
        },
        "processor_seconds": round(findings.processor_seconds, 1),
        "worlds": {name: world(findings, name) for name in plan.worlds},
        "records": [record(findings, name, entry.label) for name in plan.worlds for entry in plan.entries],
        "aggregate": aggregate(findings),
        "levels": levels(findings),
        "learning": curves(findings),
        "ablations": ablations(findings),
    }
    # Tables and plots are the same whether they come from a run or from its file.
    rounded: Document = _rounded(found)
    return rounded


def dump(document: Document) -> str:
    """The document as JSON with one record a line."""
    parts = []
    for name, value in document.items():
        if isinstance(value, list):
            lines = ",\n".join(json.dumps(item) for item in value)
            text = f"[\n{lines}\n]" if value else "[]"
        else:
            text = json.dumps(value)
        parts.append(f"{json.dumps(name)}: {text}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _rounded(value: Any) -> Any:
    """The same with four digits."""
    if isinstance(value, dict):
        return {name: _rounded(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_rounded(item) for item in value]
    return float(f"{value:.4g}") if isinstance(value, float) else value


def world(findings: Findings, name: str) -> Document:
    """What a kind of world is, and what its draws were like."""
    found = findings.of("measure", name)
    return {
        "purpose": WORLDS[name].purpose,
        "knobs": asdict(WORLDS[name].knobs),
        "success": Interval.of([r["success"] for r in found]).as_json(),
        "steps": Interval.of([r["steps"] for r in found]).as_json(),
        "ceiling": Interval.of([r["ceiling"] for r in found]).as_json(),
    }


def record(findings: Findings, name: str, label: str) -> Document:
    """All measures of one estimator in one world."""
    found = findings.of("measure", name)
    document: Document = {"world": name, "estimator": label}
    for measure in MEASURES:
        document[measure] = Interval.of([r["entries"][label][measure] for r in found]).as_json()
    document["ceiling"] = Interval.of([r["ceiling"] for r in found]).as_json()
    for policy in POLICY_NAMES:
        areas = learning_areas(findings, name, label, policy)
        if areas:
            document[f"learning_{policy}"] = Interval.of(areas).as_json()
    return document


def learning_areas(findings: Findings, name: str, label: str, policy: str) -> list[float]:
    """Mean success over training, by seed; empty where this estimator trained nothing."""
    found = findings.of("learn", name, policy)
    return [float(np.mean(r[label])) for r in found if label in r]


def by_seed(findings: Findings, label: str, measure: str) -> dict[str, list[float]]:
    """Values of one measure by world, each a list over seeds; empty where it was not measured."""
    found: dict[str, list[float]] = {}
    for name in findings.plan.worlds:
        if measure.startswith("learning_"):
            values = learning_areas(findings, name, label, measure.removeprefix("learning_"))
        else:
            values = [r["entries"][label][measure] for r in findings.of("measure", name)]
        if values:
            found[name] = values
    return found


def mean_over_worlds(values: dict[str, list[float]]) -> list[float]:
    """For each seed the mean over all worlds, every world counting the same."""
    return [float(v) for v in np.nanmean(list(values.values()), axis=0)] if values else []


def over_worlds(values: dict[str, list[float]], measure: str) -> list[float]:
    """For each seed one number for all worlds: the mean, or the median where the measure has no upper end.

    Bias and variance are on the scale of the truth; where an estimator hardly correlates with it (a chain without
    a success) that scale is not determined, and one such world would be all that a mean shows.
    """
    if measure in ("bias", "variance") and values:
        return [float(v) for v in np.nanmedian(list(values.values()), axis=0)]
    return mean_over_worlds(values)


def aggregate(findings: Findings) -> list[Document]:
    """Every estimator over all worlds, and how far ours is ahead of it, seed by seed on the same batches."""
    measures = (*MEASURES, *(f"learning_{policy}" for policy in POLICY_NAMES))
    labels = [entry.label for entry in findings.plan.entries]
    found = []
    for label in labels:
        document: Document = {"estimator": label}
        for measure in measures:
            mine = by_seed(findings, label, measure)
            if not mine:
                continue
            document[measure] = Interval.of(over_worlds(mine, measure)).as_json()
            ours = by_seed(findings, OURS, measure) if OURS in labels and label != OURS else {}
            if ours:
                document[f"{measure}_ours_ahead"] = lead(ours, mine, measure)
        found.append(document)
    return found


def lead(ours: dict[str, list[float]], theirs: dict[str, list[float]], measure: str) -> Document:
    """How much better ours is: over all worlds, and in each; positive is better."""
    sign = -1.0 if measure in BETTER_LOW else 1.0
    differences = {
        name: [sign * (a - b) for a, b in zip(ours[name], theirs[name])] for name in ours if name in theirs
    }
    each = {name: Interval.of(values) for name, values in differences.items()}
    return {
        **Interval.of(over_worlds(differences, measure)).as_json(),
        "worlds": {name: interval.as_json() for name, interval in each.items()},
        "ahead": sorted(name for name, i in each.items() if i.low > 0.0),
        "behind": sorted(name for name, i in each.items() if i.high < 0.0),
        "open": sorted(name for name, i in each.items() if i.low <= 0.0 <= i.high),
    }


def levels(findings: Findings) -> list[Document]:
    """Each level of each estimator on its own, over all worlds, and how correlated the levels' errors are."""
    found = []
    for entry in findings.plan.entries:
        values: dict[tuple[int, str], dict[str, list[float]]] = {}
        errors: dict[str, list[Any]] = {}
        for name in findings.plan.worlds:
            for result in findings.of("measure", name):
                for number, measured in enumerate(result["levels"].get(entry.label, [])):
                    for measure in LEVEL_MEASURES:
                        values.setdefault((number, measure), {}).setdefault(name, []).append(
                            measured[measure]
                        )
                if entry.label in result["error_correlations"]:
                    errors.setdefault(name, []).append(result["error_correlations"][entry.label])
        for number in sorted({level for level, _ in values}):
            found.append(
                {
                    "estimator": entry.label,
                    "level": number,
                    **{
                        measure: Interval.of(over_worlds(values[number, measure], measure)).as_json()
                        for measure in LEVEL_MEASURES
                    },
                    "error_correlation_with_level_0": error_correlation(list(errors.values()), number),
                }
            )
    return found


def error_correlation(matrices: Sequence[Any], level: int) -> Document:
    """Correlation of a level's errors with those of level 0, over worlds, by seed."""
    shared = min((len(m) for m in matrices), default=0)
    values = np.array([[seed[0][level] for seed in m[:shared]] for m in matrices], dtype=np.float64)
    means = [float(np.nanmean(column)) for column in values.T if np.isfinite(column).any()]
    return Interval.of(means).as_json()


def curves(findings: Findings) -> list[Document]:
    """Mean learning curve of each estimator in each world, at some twenty updates, with intervals."""
    found = []
    for policy in POLICY_NAMES:
        for name in findings.plan.worlds:
            results = findings.of("learn", name, policy)
            for entry in findings.plan.learners:
                runs = np.array([r[entry.label] for r in results if entry.label in r])
                if not len(runs):
                    continue
                kept = np.arange(0, runs.shape[1], max(1, (runs.shape[1] - 1) // CURVE_POINTS))
                intervals = [Interval.of(runs[:, update].tolist()) for update in kept]
                found.append(
                    {
                        "policy": policy,
                        "world": name,
                        "estimator": entry.label,
                        "updates": kept.tolist(),
                        "success": [interval.mean for interval in intervals],
                        "half_width": [interval.high - interval.mean for interval in intervals],
                    }
                )
    return found


def ablations(findings: Findings) -> list[Document]:
    """Every variation over the ablation worlds, and in each of them."""
    found = []
    plan = findings.plan
    for entry in plan.ablated:
        document: Document = {"variation": entry.label, "worlds": {}}
        for measure in ("mse", "gradient_cosine"):
            values = {
                name: [r["entries"][entry.label][measure] for r in findings.of("ablate", name)]
                for name in plan.ablation_worlds
            }
            document[measure] = Interval.of(mean_over_worlds(values)).as_json()
            for name, seeds in values.items():
                document["worlds"].setdefault(name, {})[measure] = Interval.of(seeds).as_json()
        found.append(document)
    return found
