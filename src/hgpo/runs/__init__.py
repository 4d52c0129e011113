"""Runs: training, evaluation on frozen panels, comparison. `from hgpo.runs import load, train, evaluate`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from ..config import Config, experiment_name, load, preset_names
from .panels import Panel
from .statistics import between_arms, over_runs, over_tasks, wilson


def train(config: Config | None, run: str | os.PathLike[str], **options: Any) -> dict[str, Any]:
    """Train as `config` says into the folder `run`; see `hgpo.runs.training.train`."""
    from .training import train as start

    return start(config, run, **options)


def evaluate(path: str, **options: Any) -> dict[str, Any]:
    """Evaluate a run, a model, a server or a scripted policy; see `hgpo.runs.evaluation.evaluate`."""
    from .evaluation import evaluate as start

    return start(path, **options)


def evaluations(path: str, **options: Any) -> Iterator[dict[str, Any]]:
    """Evaluate on several panels and at several temperatures; see `hgpo.runs.evaluation.evaluations`."""
    from .evaluation import evaluations as start

    return start(path, **options)


__all__ = [
    "Config",
    "Panel",
    "between_arms",
    "evaluate",
    "evaluations",
    "experiment_name",
    "load",
    "over_runs",
    "over_tasks",
    "preset_names",
    "train",
    "wilson",
]
