"""The notebooks run from top to bottom, in a fresh process away from the checkout, and show what they promise."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))

# What a kernel does, without one: the cells of a notebook in one namespace, inside an event loop, and the pictures that
# were drawn.
EXECUTOR = """
import asyncio, json, sys
import matplotlib
matplotlib.use("agg")
import matplotlib.pyplot as plt
shown = []
def show(*_, **__):
    figures = map(plt.figure, plt.get_fignums())
    shown.extend(len(one.axes[0].lines) + len(one.axes[0].patches) for one in figures)
    plt.close("all")
plt.show = show
space = {"__name__": "__main__"}
async def notebook():
    for number, source in enumerate(json.load(open(sys.argv[1]))):
        exec(compile(source, f"cell {number}", "exec"), space)
asyncio.run(notebook())
ends = {name: space["outcome"][name] for name in ("start", "last")}
json.dump({"shown": shown, **ends}, open(sys.argv[2], "w"))
"""


def cells(notebook: Path, kind: str) -> list[dict[str, Any]]:
    content = json.loads(notebook.read_text(encoding="utf-8"))
    return [cell for cell in content["cells"] if cell["cell_type"] == kind]


def test_there_is_a_notebook() -> None:
    assert [path.name for path in NOTEBOOKS] == ["hgpo.ipynb"]


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.name)
def test_a_notebook_is_small_plain_and_without_outputs(notebook: Path) -> None:
    content = json.loads(notebook.read_text(encoding="utf-8"))
    assert (content["nbformat"], content["nbformat_minor"]) == (4, 5)
    identifiers = [cell["id"] for cell in content["cells"]]
    assert len(set(identifiers)) == len(identifiers)
    assert notebook.stat().st_size < 50_000
    for cell in cells(notebook, "code"):
        assert cell["outputs"] == []
        assert cell["execution_count"] is None
        source = "".join(cell["source"])
        compile(source, notebook.name, "exec")  # no magic words: it runs anywhere
        assert max(map(len, source.splitlines())) <= 120


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.name)
def test_a_notebook_runs_and_the_agent_learns(notebook: Path, tmp_path: Path) -> None:
    sources = ["".join(cell["source"]) for cell in cells(notebook, "code")]
    (tmp_path / "cells.json").write_text(json.dumps(sources))
    (tmp_path / "executor.py").write_text(EXECUTOR)
    env = {
        **os.environ,
        "TMPDIR": str(tmp_path),
        "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT / "src")])),
    }
    ran = subprocess.run(
        [sys.executable, "executor.py", "cells.json", "result.json"],
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
        timeout=1100,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    result = json.loads((tmp_path / "result.json").read_text())
    assert len(result["shown"]) == 2
    assert min(result["shown"]) >= 2  # bars; two curves
    assert result["last"] > result["start"] + 0.1
    for said in ("solved", "hgpo_lambda", "of the pairs", "contributes", "held-out tasks:"):
        assert said in ran.stdout
