"""Runs side by side: one group per setting, intervals over its training seeds, differences, never across panels."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import BadFile, UnknownName
from ..files import plain
from .differences import differences
from .folder import LOCAL, RunFolder, success_key
from .panels import PanelSummary, same_panel
from .statistics import over_runs, t95

NOISE = "± the pair's own 95% interval / the same from the noise of all settings"


@dataclass(frozen=True)
class Curve:
    """The evaluations of one run."""

    run: str
    name: str
    """What the run is called in tables."""
    group: str
    """Runs that differ only in their seed share it."""
    seed: int
    iterations: tuple[int, ...]
    success: tuple[float, ...]
    panel: PanelSummary


def read_curve(run: Path, split: str) -> Curve:
    """The evaluation curve of a run on a split."""
    folder = RunFolder(run)
    if not folder.exists():
        raise BadFile(
            f"{run} is not a run: {folder.config_file} is missing. Name the folders given by --run."
        )
    stored = folder.description()
    if not stored.panels:
        raise BadFile(
            f"{folder.config_file} names no task panels: the run was not evaluated while it trained (eval.every=0), or "
            "an earlier version of the package wrote it. Only runs that were evaluated can be compared."
        )
    if split not in stored.panels:
        raise UnknownName(f"evaluated split of {run}", split, stored.panels)
    key = success_key(split)
    points = [(row["iteration"], row[key]) for row in folder.complete_metrics() if row.get(key) is not None]
    if not points:
        raise BadFile(f"{run} has no evaluation on {split!r} yet.")
    same = {
        key: value for key, value in stored.config.items() if key not in ("seed", "track", "threads", "name")
    }
    name = stored.name if stored.trainer == LOCAL else f"{stored.name}, {stored.trainer}"
    return Curve(
        str(run),
        name,
        json.dumps([name, same], sort_keys=True),
        int(stored.config.get("seed", 0)),
        tuple(int(point[0]) for point in points),
        tuple(float(point[1]) for point in points),
        stored.panels[split],
    )


def compare(runs: Sequence[str], split: str = "in-domain") -> dict[str, Any]:
    """Table and curves of the runs, grouped by setting.

    Raises:
        PanelMismatch: the runs were evaluated on different panels.
    """
    curves = [read_curve(Path(run), split) for run in runs]
    same_panel({curve.run: curve.panel for curve in curves})
    members: dict[str, list[Curve]] = {}
    for curve in curves:
        members.setdefault(curve.group, []).append(curve)
    groups = []
    used: dict[str, int] = {}
    readings: dict[str, dict[int, float]] = {}
    for group in members.values():
        name = group[0].name
        used[name] = used.get(name, 0) + 1
        title = name if used[name] == 1 else f"{name} ({used[name]})"
        readings[title] = {one.seed: one.success[-1] for one in group}
        shared = sorted(set.intersection(*(set(one.iterations) for one in group)))
        table = np.array(
            [[dict(zip(one.iterations, one.success))[iteration] for iteration in shared] for one in group]
        )
        half = np.full(len(shared), np.nan)
        if len(group) > 1:
            half = t95(len(group) - 1) * table.std(axis=0, ddof=1) / len(group) ** 0.5
        groups.append(
            {
                "name": title,
                "runs": [one.run for one in group],
                "iterations": shared,
                "mean": table.mean(axis=0).tolist(),
                "half_width": [None if np.isnan(value) else float(value) for value in half],
                "start": plain(over_runs([one.success[0] for one in group])),
                "last": plain(over_runs([one.success[-1] for one in group])),
                "area": plain(over_runs(table.mean(axis=1).tolist())),
            }
        )
    pairs = [
        plain(asdict(one)) | {"points": one.points(), "clear": one.clear} for one in differences(readings)
    ]
    return {"split": split, "panel": curves[0].panel.digest, "groups": groups, "differences": pairs}


def table_text(result: dict[str, Any]) -> str:
    """The comparison as aligned text."""
    lines = [
        f"{'setting':<52} {'runs':>4}  {'start':>6}  {'last':>6}  {'95% interval':>16}  {'mean curve':>10}"
    ]
    for group in result["groups"]:
        last = group["last"]
        interval = "one run" if last["low"] is None else f"[{last['low']:.1%}, {last['high']:.1%}]"
        lines.append(
            f"{group['name']:<52} {len(group['runs']):>4}  {group['start']['mean']:>6.1%}  {last['mean']:>6.1%}  "
            f"{interval:>16}  {group['area']['mean']:>10.1%}"
        )
    if result["differences"]:
        lines += ["", f"last, seed by seed, in points: {NOISE}"]
    for pair in result["differences"]:
        verdict = (
            "beyond the noise" if pair["clear"] else ("within the noise" if pair["seeds"] > 1 else "one seed")
        )
        lines.append(f"{pair['other']} - {pair['one']}: {pair['points']}  {verdict}")
    return "\n".join(lines)
