"""What a run leaves behind besides checkpoints: rollouts, results, curves, the closing lines."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..errors import MissingExtra
from ..files import write_text
from ..steps.batch import StepBatch
from .curves import draw_run
from .panels import Panel
from .provenance import provenance
from .tracking import Screen


def write_rollouts(run: Path, batch: StepBatch, iteration: int) -> Path:
    """Save an iteration's steps in the schema that `hgpo advantages` reads: Parquet, or JSONL without pyarrow."""
    folder = run / "rollouts"
    folder.mkdir(exist_ok=True)
    path = folder / f"{iteration:06d}.parquet"
    try:
        batch.write(path)
    except MissingExtra:
        path = folder / f"{iteration:06d}.jsonl.gz"
        batch.write(path)
    return path


def finish(
    run: Path,
    result: dict[str, Any],
    panels: Mapping[str, Panel],
    rows: Sequence[Mapping[str, Any]],
    screen: Screen,
) -> dict[str, Any]:
    """Add the evaluation to `result`, write results.json and curves.png, and say how it went."""
    for split, panel in panels.items():
        key = f"eval/{split}/success"
        values = [row[key] for row in rows if key in row]
        if not values:
            continue
        gain = 100 * (values[-1] - values[0])
        result[split] = {
            "start": values[0],
            "last": values[-1],
            "best": max(values),
            "gain_points": gain,
            "tasks": len(panel.tasks),
            "panel": panel.digest,
        }
        screen.say(
            f"{split}: success {values[0]:.1%} -> {values[-1]:.1%} on {len(panel.tasks)} held-out tasks "
            f"({gain:+.1f} points)"
        )
    write_text(run / "results.json", json.dumps({**result, **provenance()}, indent=1) + "\n")
    drawn = draw_run(rows, run / "curves.png", result["name"])
    missing = "matplotlib is not installed" if rows else "nothing was measured yet"
    picture = f"curve in {run / 'curves.png'}" if drawn else f"no curve: {missing}"
    screen.say(f"{result['ended']} after {result['iterations']} iterations, {result['seconds']:.0f} s")
    screen.say(f"model in {run / 'model'}; {picture}")
    if result["ended"] != "finished":
        screen.say(f"continue with: hgpo train --resume {run}")
    return result
