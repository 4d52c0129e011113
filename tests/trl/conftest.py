"""A small policy that knows some commands, and steps that it played."""

from __future__ import annotations

from pathlib import Path

import pytest

from hgpo.config import load
from hgpo.config.schema import Config

SMALL = [
    "update.updates=0",
    "warm.episodes=60",
    "warm.epochs=6",
    # So that the returns of a policy that has learned little differ all the same.
    "agent.inadmissible_is_invalid=true",
    "rollout.tasks=2",
    "rollout.group_size=4",
    "agent.max_steps=10",
    "update.minibatch_rows=24",
    "update.micro_tokens=4096",
]


@pytest.fixture(scope="session")
def config() -> Config:
    return load("quickstart", SMALL)


@pytest.fixture(scope="session")
def start(config: Config, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the policy."""
    import torch

    from hgpo.config.stage import open_stage
    from hgpo.runs.start import prepare
    from hgpo.runs.tracking import Screen

    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("trl") / "start"
    stage = open_stage(config)
    prepare(config, stage, folder, torch.device("cpu"), Screen(0, quiet=True))
    stage.close()
    return folder
