"""The end of a run: the outcome, the curves, the closing lines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .curves import draw_run
from .folder import RunFolder
from .panels import Panel
from .provenance import provenance
from .tracking import Screen


def finish(
    run: RunFolder,
    result: dict[str, Any],
    panels: Mapping[str, Panel],
    screen: Screen,
    resume: str,
) -> dict[str, Any]:
    """Add the evaluations to `result`, write it and the curves, and say how it went.

    Args:
        run: the run.
        result: `name`, `ended`, `iterations`, `seconds` and `best_iteration`.
        panels: what it was evaluated on, by split.
        screen: where the closing lines go.
        resume: the command that continues the run.
    """
    rows = run.complete_metrics()
    for split, panel in panels.items():
        values = list(run.successes(split).values())
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
    run.write_results({**result, **provenance()})
    drawn = draw_run(rows, run.curves, result["name"])
    missing = "matplotlib is not installed" if rows else "nothing was measured yet"
    picture = f"curve in {run.curves}" if drawn else f"no curve: {missing}"
    screen.say(f"{result['ended']} after {result['iterations']} iterations, {result['seconds']:.0f} s")
    screen.say(f"model in {run.model}; {picture}")
    if result["ended"] != "finished":
        screen.say(f"continue with: {resume}")
    return result
