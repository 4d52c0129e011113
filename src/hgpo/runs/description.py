"""`config.json` of a run: written when it starts, read when it goes on."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..config.load import as_dict, read_config
from ..config.schema import Config
from ..errors import BadFile, BadSetting
from ..files import write_text
from .panels import Panel
from .provenance import provenance

NAME = "config.json"


def settings_of(folder: Path, config: Config | None, resume: bool) -> Config:
    """The settings for a run in `folder`: those given, or on resuming without any those stored there.

    Raises:
        BadSetting: the folder holds a run that is not to be resumed.
        BadFile: no settings were given and none are stored.
    """
    stored = folder / NAME
    if stored.is_file():
        if not resume:
            raise BadSetting(
                f"{folder} already holds a run. Continue it with --resume, or choose another folder with --run."
            )
        return read_config(stored) if config is None else config
    if config is None:
        raise BadFile(f"There is no run to resume in {folder}: {stored} is missing.")
    return config


def describe(
    folder: Path,
    name: str,
    config: Config,
    estimator: Mapping[str, Any],
    panels: Mapping[str, Panel],
    training_tasks: int,
) -> None:
    """Write down what the run is: settings, panels, versions and commit."""
    content = {
        "name": name,
        "config": as_dict(config),
        "estimator": {"name": config.estimator.name, **estimator},
        "panels": {split: panel.summary() for split, panel in panels.items()},
        "training_tasks": training_tasks,
        **provenance(),
    }
    write_text(folder / NAME, json.dumps(content, indent=1) + "\n")
