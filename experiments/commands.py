"""What the experiments share: `hgpo` commands in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from hgpo.runs.folder import RunFolder

SOURCE = Path(__file__).resolve().parents[1] / "src"


def hgpo(words: list[str], log: Path, attempts: int = 1, **variables: str) -> int:
    """Run one `hgpo` command of this checkout, its output appended to `log`; `variables` join the environment.

    A command that fails is run again until it has had its `attempts`: side by side on one card, a moment without
    memory ends what would have gone on a moment later.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    path = os.pathsep.join([str(SOURCE), os.environ.get("PYTHONPATH", "")])
    with open(log, "a") as out:
        print("$ hgpo", *words, file=out, flush=True)
        done = subprocess.run(
            [sys.executable, "-m", "hgpo", *words],
            stdout=out,
            stderr=out,
            env={**os.environ, **variables, "PYTHONPATH": path},
            check=False,
        )
    if done.returncode:
        print(f"{log} failed ({done.returncode}):\n{log.read_text()[-800:]}", flush=True)
        if attempts > 1:
            return hgpo(words, log, attempts - 1, **variables)
    return done.returncode


def finished(run: Path) -> bool:
    """Whether a run of `hgpo train` came to its last iteration."""
    results = RunFolder(run).results()
    return results is not None and results["ended"] == "finished"
