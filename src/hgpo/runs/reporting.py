"""The end of a run: the outcome, the curves, the closing lines."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from .curves import draw_run
from .folder import RunFolder
from .panels import Panel
from .provenance import provenance
from .statistics import between_shares
from .tracking import Screen


def finish(
    run: RunFolder,
    result: dict[str, Any],
    panels: Mapping[str, Panel],
    screen: Screen,
    resume: str,
    flag: str = "",
) -> dict[str, Any]:
    """Add the evaluations to `result`, write it and the curves, and say how it went.

    Args:
        run: the run.
        result: `name`, `ended`, `iterations`, `seconds` and `best_iteration`.
        panels: what it was evaluated on, by split.
        screen: where the closing lines go.
        resume: the command that continues the run.
        flag: what a command needs besides to read the run (`hgpo.config.stored.allow_flag`).
    """
    rows = run.complete_metrics()
    for split, panel in panels.items():
        values = list(run.successes(split).values())
        if not values:
            continue
        gain = 100 * (values[-1] - values[0])
        low, high = (100 * end for end in between_shares(values[0], values[-1], len(panel.tasks)))
        result[split] = {
            "start": values[0],
            "last": values[-1],
            "best": max(values),
            "gain_points": gain,
            "gain_points_interval_95": [low, high],
            "tasks": len(panel.tasks),
            "panel": panel.digest,
        }
        screen.say(
            f"{split}: success {values[0]:.1%} -> {values[-1]:.1%} on {len(panel.tasks)} held-out tasks "
            f"({gain:+.1f} points, 95% interval {low:+.1f} to {high:+.1f})"
        )
    run.write_results({**result, **provenance()})
    drawn = draw_run(rows, run.curves, result["name"])
    missing = "matplotlib is not installed" if rows else "nothing was measured yet"
    picture = f"curve in {run.curves}" if drawn else f"no curve: {missing}"
    screen.say(f"{result['ended']} after {result['iterations']} iterations, {result['seconds']:.0f} s")
    screen.say(f"model in {run.model}; {picture}")
    if result["ended"] != "finished":
        screen.say(f"continue with: {resume}")
    screen.say("\n".join(["next:", *(f"  {command}" for command in next_commands(run, flag))]))
    return result


def next_commands(run: RunFolder, flag: str = "") -> list[str]:
    """What can be done with a run that has ended; `flag` is what `hgpo eval` needs besides."""
    place = shlex.quote(str(run.path))
    commands = [f"hgpo eval {place}{flag}"]
    if run.rollout_files():
        commands.append(f"hgpo inspect {place} --html report.html")
    if run.description().panels:
        commands.append(f"hgpo compare {place} ANOTHER_RUN")
    return commands
