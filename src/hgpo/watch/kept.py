"""The rollouts that a run keeps, opened when somebody looks: groups, advantages, and episodes to read.

Rollout text is untrusted: it leaves here as JSON strings, and the page puts it into text nodes only.
"""

from __future__ import annotations

import math
import os
import threading
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import BadFile
from ..estimators.table import ESTIMATORS
from ..inspect import inspect, open_rollouts
from ..inspect import numbers as numbers_of
from ..inspect.analysis import REFERENCE, Analysis, analyse, choose_estimators
from ..inspect.counts import count_iteration
from ..inspect.page import render
from ..inspect.report import finite, tasks_of
from ..inspect.rollouts import Rollouts
from ..inspect.text import as_text, named
from ..steps.columns import FloatArray
from .follow import Followed

OPEN = 3
"""Iterations that are held opened."""
STEPS = 30_000
"""Steps of the tasks that are listed."""
TEXT = 12_000
"""Characters of one text that are sent; the middle of a longer one is left out, and the page says so."""
BINS = 31


@dataclass(frozen=True)
class Opened:
    """The rollouts of an iteration with their groups; arrays in canonical order [steps]."""

    analysis: Analysis
    estimator: str
    advantages: FloatArray
    """What was trained on where the file has it, otherwise what the estimator says now."""


class Kept:
    """Opens kept rollouts and holds the last few. Every method may be called from several threads."""

    def __init__(self) -> None:
        self._held: OrderedDict[tuple[Any, ...], Opened] = OrderedDict()
        self._lock = threading.Lock()

    def groups(self, run: Followed, key: str) -> dict[str, Any]:
        """Groups by level, the distribution of the advantages, and every episode with its advantages."""
        opened = self._open(run, key)
        analysis = opened.analysis
        content = {
            "iteration": analysis.number,
            "estimator": opened.estimator,
            "steps": len(analysis.order),
            "levels": numbers_of.levels(count_iteration(analysis)),
            "histogram": _histogram(opened.advantages),
            "zero_share": float((opened.advantages == 0).mean()),
            **_tasks(opened),
        }
        found: dict[str, Any] = finite(content)
        return found

    def episode(self, run: Followed, key: str, number: int) -> dict[str, Any]:
        """One episode, step by step."""
        opened = self._open(run, key)
        analysis = opened.analysis
        if not 0 <= number < len(analysis.starts):
            raise BadFile(f"There is no episode {number} in these rollouts.")
        start = int(analysis.starts[number])
        places = np.arange(start, start + int(analysis.trajectories.lengths[number]))
        batch = analysis.batch.take(analysis.order[places])
        sizes = [_sizes(labels)[places].tolist() for labels in analysis.levels]
        texts = {
            name: batch[name] for name in ("observation", "action", "response", "prompt") if name in batch
        }
        flags = {name: batch.flag(name) for name in ("valid", "success") if name in batch}
        steps = []
        for at, place in enumerate(places.tolist()):
            step: dict[str, Any] = {name: _text(values[at]) for name, values in texts.items()}
            step["reward"] = float(batch.rewards[at])
            step["return"] = float(analysis.returns[place])
            step["advantage"] = float(opened.advantages[place])
            step["groups"] = [level[at] for level in sizes]
            if "valid" in flags:
                step["valid"] = bool(flags["valid"][at])
            steps.append(step)
        content = {
            "task": _text(batch["task"][0]),
            "name": _text(batch["trajectory"][0]),
            "success": bool(flags["success"].any()) if "success" in flags else None,
            "steps": steps,
        }
        found: dict[str, Any] = finite(content)
        return found

    def page(self, run: Followed, key: str) -> bytes:
        """The page of `hgpo inspect` for one kept iteration."""
        file, _ = run.kept_file(key)
        rollouts = self._rollouts(run, file)
        names = dict.fromkeys([_trained_with(rollouts), REFERENCE, "gigpo", "grpo"])
        report = inspect(rollouts, choose_estimators(list(names), {}, rollouts.settings))
        return "".join(render(report)).encode("utf-8")

    def _open(self, run: Followed, key: str) -> Opened:
        file, number = run.kept_file(key)
        try:
            seen = os.stat(file)
        except OSError as error:
            raise BadFile(f"{file} is not there any more.") from error
        mark = (file, seen.st_ino, seen.st_size, seen.st_mtime_ns)
        with self._lock:
            if mark not in self._held:
                self._held[mark] = self._read(run, file, number)
                while len(self._held) > OPEN:
                    self._held.popitem(last=False)
            self._held.move_to_end(mark)
            return self._held[mark]

    def _read(self, run: Followed, file: Path, number: int) -> Opened:
        rollouts = self._rollouts(run, file)
        name = _trained_with(rollouts)
        iteration = next(iter(rollouts), None)
        if iteration is None:
            raise BadFile(f"{file} holds no steps; expected at least one rollout.")
        analysis = analyse(iteration, choose_estimators([name], {}, rollouts.settings))
        advantages = analysis.estimates[name].advantages
        if "advantage" in analysis.batch:
            try:
                stored = analysis.batch["advantage"][analysis.order].astype(np.float64)
            except (TypeError, ValueError):
                stored = None
            if stored is not None and np.isfinite(stored).all():
                advantages = stored
        return Opened(analysis, name, advantages)

    @staticmethod
    def _rollouts(run: Followed, file: Path) -> Rollouts:
        rollouts = open_rollouts(file)
        if run.description is not None:
            rollouts.settings = dict(run.description.estimator)
            rollouts.estimator = str(rollouts.settings.pop("name", "")) or None
        return rollouts


def _trained_with(rollouts: Rollouts) -> str:
    return rollouts.estimator if rollouts.estimator in ESTIMATORS else REFERENCE


def _histogram(values: FloatArray) -> dict[str, Any]:
    """Of the advantages; the outermost bins hold what lies beyond."""
    limit = max(float(np.quantile(np.abs(values), 0.995)), 1e-9)
    if not math.isfinite(limit):
        return {"edges": [], "steps": []}
    edges = np.linspace(-limit, limit, BINS + 1)
    counted = np.histogram(np.clip(values, -limit, limit), edges)[0]
    return {"edges": edges.tolist(), "steps": counted.tolist()}


def _tasks(opened: Opened) -> dict[str, Any]:
    analysis = opened.analysis
    tasks = tasks_of(analysis)
    names = analysis.of_trajectories("trajectory")
    lengths = analysis.trajectories.lengths.tolist()
    own = analysis.tasks.tolist()
    left = STEPS
    for number, (task, start) in enumerate(zip(own, analysis.starts.tolist())):
        values = opened.advantages[start : start + lengths[number]]
        left -= len(values)
        if left < 0:
            shown = tasks[: max(1, task)]
            return {"tasks": shown, "left_out": len(tasks) - len(shown)}
        episode: dict[str, Any] = {
            "number": number,
            "name": named(names[number], 80),
            "return": float(analysis.totals[number]),
            "advantages": [float(f"{value:.4g}") for value in values.tolist()],
        }
        if analysis.successes is not None:
            episode["success"] = bool(analysis.successes[number])
        tasks[task].setdefault("episodes", []).append(episode)
    return {"tasks": tasks, "left_out": 0}


def _sizes(labels: Any) -> Any:
    """[steps] how many steps share the group of each, 0 where it has none."""
    counted = np.bincount(labels[labels >= 0], minlength=1)
    return np.where(labels >= 0, counted[np.maximum(labels, 0)], 0)


def _text(value: Any) -> dict[str, Any]:
    text = as_text(value)
    if len(text) <= TEXT:
        return {"head": text, "cut": 0, "tail": ""}
    tail = TEXT // 4
    return {"head": text[: TEXT - tail], "cut": len(text) - TEXT, "tail": text[len(text) - tail :]}
