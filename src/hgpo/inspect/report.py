"""Everything about a set of rollouts in one place: the content of `--json` and of the page."""

from __future__ import annotations

import itertools
import math
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from ..errors import BadFile
from ..progress import Progress
from ..steps.columns import FloatArray
from ..version import __version__
from . import numbers
from .aliasing import Alias, aliases, merge
from .analysis import Analysis, ChosenEstimators, analyse
from .counts import Counts, count_iteration, opposite
from .findings import findings
from .rollouts import Rollouts
from .text import named

SHOWN_STEPS = 120_000
LISTED = 20
BINS = 41
SAMPLE = 1500


@dataclass
class Report:
    """The numbers, and the iterations whose single steps can be looked at."""

    content: dict[str, Any]
    shown: list[Analysis] = field(default_factory=list)


@dataclass
class _Gathered:
    total: Counts = field(default_factory=Counts)
    iterations: list[dict[str, Any]] = field(default_factory=list)
    tasks: list[dict[str, Any]] = field(default_factory=list)
    aliases: dict[str, Alias] = field(default_factory=dict)
    disagreements: list[dict[str, Any]] = field(default_factory=list)
    advantages: dict[str, list[FloatArray]] = field(default_factory=dict)
    recorded: dict[str, Any] = field(default_factory=dict)
    extras: dict[str, None] = field(default_factory=dict)


def inspect(rollouts: Rollouts, chosen: ChosenEstimators, shown_steps: int = SHOWN_STEPS) -> Report:
    """Read all iterations, count, and keep as many as fit for looking at single steps."""
    gathered, shown = _Gathered(), _Shown(shown_steps)
    with Progress("inspecting", total=len(rollouts.files)) as progress:
        for position, iteration in enumerate(rollouts):
            analysis = analyse(iteration, chosen, position)
            _gather(analysis, gathered, rollouts.estimator)
            shown.offer(analysis)
            progress.add()
    if not gathered.iterations:
        raise BadFile(f"{rollouts.path} holds no steps; expected at least one rollout.")
    content = _content(rollouts, chosen, gathered)
    content["shown_iterations"] = [analysis.number for analysis in shown.kept]
    content["findings"] = findings(content)
    return Report(finite(content), shown.kept)


def finite(value: Any) -> Any:
    """The same content with null for numbers that overflowed, which JSON cannot carry."""
    if isinstance(value, dict):
        return {key: finite(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


class _Shown:
    """Keeps iterations spread evenly over the run, always the last, within a budget of steps."""

    def __init__(self, steps: int) -> None:
        self.steps = steps
        self.kept: list[Analysis] = []

    def offer(self, analysis: Analysis) -> None:
        """Keep an iteration, and let others go when there are too many steps."""
        self.kept.append(analysis)
        while len(self.kept) > 1 and sum(len(kept.order) for kept in self.kept) > self.steps:
            # Thin out where the neighbours are closest; the first and the last stay while there are others.
            gaps = [after.number - before.number for before, after in zip(self.kept, self.kept[2:])]
            self.kept.pop(int(np.argmin(gaps)) + 1 if gaps else 0)


def _gather(analysis: Analysis, gathered: _Gathered, trained_with: str | None) -> None:
    counts = count_iteration(analysis)
    aliased, _, texts = aliases(analysis)
    counts.count("aliased", by=aliased)
    merge(gathered.aliases, texts)
    gathered.total.add(counts)
    gathered.iterations.append({"iteration": analysis.number, **_numbers(counts)})
    gathered.tasks += tasks_of(analysis)
    gathered.disagreements += _disagreements(analysis)
    gathered.extras.update(dict.fromkeys(analysis.batch.column_names))
    for name, estimate in analysis.estimates.items():
        gathered.advantages.setdefault(name, []).append(estimate.advantages)
    if trained_with in analysis.estimates and "advantage" in analysis.batch:
        _compare_recorded(analysis, gathered.recorded, trained_with)


def _compare_recorded(analysis: Analysis, recorded: dict[str, Any], name: str) -> None:
    try:
        stored = analysis.batch["advantage"][analysis.order].astype(np.float64)
    except (TypeError, ValueError):
        return
    own = analysis.estimates[name].advantages
    difference = float(np.nan_to_num(np.abs(stored - own), nan=np.inf).max())
    recorded["estimator"] = name
    recorded["largest_difference"] = max(recorded.get("largest_difference", 0.0), min(difference, 1e300))
    recorded["largest"] = max(recorded.get("largest", 0.0), float(np.abs(own).max()))


def _numbers(counts: Counts) -> dict[str, Any]:
    return {
        "summary": numbers.summary(counts),
        "levels": numbers.levels(counts),
        "estimators": numbers.estimators(counts),
        "pairs": numbers.pairs(counts),
        "task_types": numbers.types(counts),
    }


def tasks_of(analysis: Analysis) -> list[dict[str, Any]]:
    """One entry per task group of the iteration, in canonical order."""
    counts = np.bincount(analysis.tasks)
    first = np.concatenate(([0], np.cumsum(counts)[:-1]))
    names = analysis.of_trajectories("task")[first]
    steps = np.bincount(analysis.tasks, weights=analysis.trajectories.lengths).astype(np.int64)
    lows = np.minimum.reduceat(analysis.totals, first)
    highs = np.maximum.reduceat(analysis.totals, first)
    means = np.add.reduceat(analysis.totals, first) / counts
    flat = (highs - lows <= 1e-12 * np.maximum(np.abs(highs), np.abs(lows))) & (counts > 1)
    won = None if analysis.successes is None else np.add.reduceat(analysis.successes, first)
    kinds = None if analysis.types is None else analysis.types[first]
    entries = []
    for number, name in enumerate(names):
        entry: dict[str, Any] = {
            "iteration": analysis.number,
            "task": named(name),
            "trajectories": int(counts[number]),
            "steps": int(steps[number]),
            "return": float(means[number]),
            "lowest": float(lows[number]),
            "highest": float(highs[number]),
            "flat": bool(flat[number]),
        }
        if won is not None:
            entry["success"] = float(won[number] / counts[number])
        if kinds is not None:
            entry["type"] = named(kinds[number])
        entries.append(entry)
    return entries


def _disagreements(analysis: Analysis) -> list[dict[str, Any]]:
    """The steps on which two estimators disagree most: opposite signs, both large."""
    entries = []
    for one, other in itertools.combinations(analysis.estimates, 2):
        a, b = analysis.estimates[one].advantages, analysis.estimates[other].advantages
        strength = np.where(opposite(a, b), np.minimum(np.abs(a), np.abs(b)), 0.0)
        for position in np.argsort(-strength, kind="stable")[:LISTED]:
            if strength[position] == 0.0:
                break
            row = analysis.batch.take(analysis.order[position : position + 1])
            entries.append(
                {
                    "iteration": analysis.number,
                    "task": named(row["task"][0]),
                    "trajectory": named(row["trajectory"][0]),
                    "step": int(row["step"][0]),
                    "first": one,
                    "second": other,
                    "first_advantage": float(a[position]),
                    "second_advantage": float(b[position]),
                }
            )
    return entries


def _strength(entry: dict[str, Any]) -> float:
    return float(min(abs(entry["first_advantage"]), abs(entry["second_advantage"])))


def _content(rollouts: Rollouts, chosen: ChosenEstimators, gathered: _Gathered) -> dict[str, Any]:
    content: dict[str, Any] = {
        "schema_version": 1,
        "version": __version__,
        "source": {
            "name": rollouts.path.resolve().name,
            "files": len(rollouts.files),
            "trained_with": rollouts.estimator,
            "columns": [named(column) for column in gathered.extras],
            "notes": rollouts.notes,
        },
        "depth": chosen.depth,
        **_numbers(gathered.total),
        "iterations": gathered.iterations,
        "tasks": gathered.tasks,
        "aliases": [
            asdict(alias)
            for alias in sorted(gathered.aliases.values(), key=lambda a: (-a.steps, a.text))[:LISTED]
        ],
        "disagreements": _strongest(gathered.disagreements),
        "logged": [_evaluations(row) for row in rollouts.logged],
    }
    if gathered.recorded:
        content["recorded"] = gathered.recorded
    advantages = {name: np.concatenate(parts) for name, parts in gathered.advantages.items()}
    _distributions(content, chosen, advantages)
    return content


def _strongest(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    listed: dict[tuple[str, str], int] = {}
    kept = []
    for entry in sorted(entries, key=_strength, reverse=True):
        pair = (entry["first"], entry["second"])
        listed[pair] = listed.get(pair, 0) + 1
        if listed[pair] <= LISTED:
            kept.append(entry)
    return kept


def _evaluations(row: dict[str, Any]) -> dict[str, float]:
    """What the trainer logged about success."""
    kept = ("iteration", "success", "return")
    return {
        key: value
        for key, value in row.items()
        if (key in kept or key.startswith("eval/")) and isinstance(value, (int, float))
    }


def _distributions(
    content: dict[str, Any], chosen: ChosenEstimators, advantages: dict[str, FloatArray]
) -> None:
    largest = [float(np.quantile(np.abs(values), 0.995)) for values in advantages.values()]
    limit = max([*largest, 1e-9])
    edges = np.linspace(-limit, limit, BINS + 1)
    for name, values in advantages.items():
        entry = content["estimators"][name]
        entry["settings"] = chosen.estimators[name]
        entry["histogram"] = {
            "edges": edges.tolist(),
            "steps": np.histogram(np.clip(values, -limit, limit), edges)[0].tolist(),
        }
    for pair in content["pairs"]:
        a, b = advantages[pair["first"]], advantages[pair["second"]]
        picked = np.unique(np.linspace(0, len(a) - 1, min(SAMPLE, len(a))).astype(np.int64))
        pair["sample"] = {"first": a[picked].tolist(), "second": b[picked].tolist()}
