"""Runs that are written line by line, as a trainer would, without training."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hgpo import StepBatch
from hgpo.runs.folder import Description, RunFolder
from tests.inspect.rollouts import Rows


class Written:
    """A run folder in the hands of a test."""

    def __init__(self, path: Path, **config: Any) -> None:
        self.folder = RunFolder(path)
        self.config = {"seed": 0, "iterations": 60, "estimator": {"name": "hgpo", "settings": {}}, **config}

    def begin(self) -> Written:
        """Write `config.json`."""
        name = self.config["estimator"]["name"]
        self.folder.describe(
            Description(name=f"k2_{name}", config=self.config, estimator={"name": name, "depth": 2})
        )
        return self

    def lines(self, first: int, last: int, **more: Any) -> None:
        """Write the metrics of some iterations."""
        for number in range(first, last + 1):
            self.folder.append_metrics(row(number, **more))

    def rollouts(self, iteration: int, rows: Rows) -> None:
        """Keep the rollouts of an iteration."""
        self.folder.write_rollouts(StepBatch.from_rows(rows), iteration)


def row(number: int, **more: Any) -> dict[str, Any]:
    """The metrics of an iteration."""
    found = {
        "iteration": number,
        "success": min(1.0, 0.2 + 0.01 * number),
        "return": 2.0 + 0.1 * number,
        "entropy": 0.5,
        "kl_old": 0.001,
        "seconds": 2.0 + 0.001 * number,
        "seconds/rollout": 1.2,
        "seconds/update": 0.7,
    }
    if number % 10 == 0:
        found["eval/in-domain/success"] = 0.2 + 0.005 * number
    return {**found, **more}


def line(number: int, **more: Any) -> str:
    """The same as text."""
    return json.dumps(row(number, **more)) + "\n"
