"""Training: configuration, warm start, the update and the run. `from hgpo.training import load, train`."""

from __future__ import annotations

import os
from typing import Any

from .config import Config, experiment_name
from .settings import load, preset_names


def train(config: Config | None, run: str | os.PathLike[str], **options: Any) -> dict[str, Any]:
    """Train as `config` says into the folder `run`; see `hgpo.training.trainer.train`."""
    from .trainer import train as start

    return start(config, run, **options)


__all__ = ["Config", "experiment_name", "load", "preset_names", "train"]
