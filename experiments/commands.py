"""What the experiments share: `hgpo` commands in processes of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1] / "src"


def hgpo(words: list[str], log: Path, **variables: str) -> int:
    """Run one `hgpo` command of this checkout, its output appended to `log`; `variables` join the environment."""
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
    return done.returncode


def finished(run: Path) -> bool:
    """Whether a run of `hgpo train` came to its last iteration."""
    path = run / "results.json"
    return path.is_file() and json.loads(path.read_text())["ended"] == "finished"
