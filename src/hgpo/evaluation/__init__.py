"""Evaluation: frozen panels, seeded play, intervals, comparisons. `from hgpo.evaluation import evaluate`."""

from __future__ import annotations

from typing import Any

from .panels import Panel
from .statistics import between_arms, over_runs, over_tasks, wilson


def evaluate(path: str, **options: Any) -> dict[str, Any]:
    """Evaluate a run, a model, a server or a scripted policy; see `hgpo.evaluation.targets.evaluate`."""
    from .targets import evaluate as start

    return start(path, **options)


__all__ = ["Panel", "between_arms", "evaluate", "over_runs", "over_tasks", "wilson"]
