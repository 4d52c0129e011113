"""Two processes under torchrun, weights sharded, end where one process ends."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from ..conftest import ROOT
from ..worlds import FETCH

ENVIRONMENT = {
    **os.environ,
    "OMP_NUM_THREADS": "1",
    "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")]),
}


@pytest.mark.parametrize(
    "extra",
    [("update.aggregate=token-mean",), ("update.aggregate=step-mean", "update.old_logprobs=recomputed")],
)
@pytest.mark.slow
def test_two_processes_equal_one(tmp_path: Path, extra: tuple[str, ...]) -> None:
    settings = ["iterations=2", "update.kl_coef=0.05", "lr=1e-3", "rollout.tasks=3", *extra]
    one, two = tmp_path / "one", tmp_path / "two"
    words = ["-m", "hgpo", "train", FETCH, *settings, "--quiet", "--folder"]
    subprocess.run([sys.executable, *words, str(one)], env=ENVIRONMENT, check=True)
    launch = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", *words, str(two)]
    subprocess.run(launch, env=ENVIRONMENT, check=True, timeout=240)
    name = "checkpoints/000002/trainer.safetensors"
    left, right = load_file(one / name), load_file(two / name)
    assert left.keys() == right.keys()
    for key in left:
        assert torch.allclose(left[key], right[key], atol=2e-5), key
