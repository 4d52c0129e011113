"""Runs side by side: one group per setting, intervals over its training seeds, differences, never across panels."""

from __future__ import annotations

import html
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import BadFile, UnknownName
from ..files import atomic_path, plain, write_text
from .differences import differences
from .folder import LOCAL, RunFolder, success_key
from .panels import PanelSummary, same_panel
from .statistics import over_runs, t95

NOISE = "± the pair's own 95% interval / the same from the noise of all settings"
COLOURS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#17becf", "#8c564b", "#7f7f7f")


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
    points = [(row["iteration"], row[key]) for row in folder.metrics() if row.get(key) is not None]
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


def write_png(result: dict[str, Any], path: Path) -> bool:
    """Mean curves with intervals; False without matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return False
    figure = Figure(figsize=(7, 4.2), layout="constrained")
    axes = figure.subplots()
    for group, colour in zip(result["groups"], COLOURS * 9):
        x, mean = group["iterations"], 100 * np.array(group["mean"])
        axes.plot(x, mean, marker="o", ms=3, color=colour, label=f"{group['name']} (n={len(group['runs'])})")
        if group["half_width"] and group["half_width"][0] is not None:
            half = 100 * np.array(group["half_width"])
            axes.fill_between(
                x, np.clip(mean - half, 0, 100), np.clip(mean + half, 0, 100), color=colour, alpha=0.15
            )
    axes.set(xlabel="iteration", ylabel=f"success on {result['split']} (%)", ylim=(0, 100))
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
    with atomic_path(path) as temporary:
        figure.savefig(temporary, format="png", dpi=120)
    return True


def write_html(result: dict[str, Any], path: Path) -> None:
    """A page of its own: table and curves, nothing loaded from elsewhere."""
    rows = "".join(
        f"<tr><td style='color:{colour}'>{html.escape(group['name'])}</td><td>{len(group['runs'])}</td>"
        f"<td>{group['start']['mean']:.1%}</td><td>{group['last']['mean']:.1%}</td>"
        f"<td>{_interval(group['last'])}</td><td>{group['area']['mean']:.1%}</td></tr>"
        for group, colour in zip(result["groups"], COLOURS * 9)
    )
    pairs = "".join(
        f"<tr><td>{html.escape(pair['other'])} - {html.escape(pair['one'])}</td><td>{pair['seeds']}</td>"
        f"<td>{pair['points']}</td><td>{'yes' if pair['clear'] else 'no'}</td></tr>"
        for pair in result["differences"]
    )
    if pairs:
        pairs = (
            f"<h2>Differences</h2><p>Last evaluation, seed by seed, in points: {html.escape(NOISE)}.</p><table><tr>"
            f"<th>settings</th><th>seeds</th><th>difference</th><th>beyond the noise</th></tr>{pairs}</table>"
        )
    write_text(
        path,
        "<!doctype html><html lang='en'><meta charset='utf-8'><title>hgpo compare</title>"
        "<style>body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:56rem;padding:0 1rem}"
        "table{border-collapse:collapse;width:100%}td,th{border-bottom:1px solid #8884;padding:.3rem .6rem;"
        "text-align:left}svg{width:100%;height:auto}</style>"
        f"<h1>Success on {html.escape(result['split'])}</h1><p>Panel {result['panel']}. Intervals: 95%, "
        "Student's t over training seeds.</p><table><tr><th>setting</th><th>runs</th><th>start</th><th>last</th>"
        f"<th>95% interval</th><th>mean of the curve</th></tr>{rows}</table>{_svg(result)}{pairs}</html>\n",
    )


def _interval(part: dict[str, float | None]) -> str:
    return "one run" if part["low"] is None else f"{part['low']:.1%} to {part['high']:.1%}"


def _svg(result: dict[str, Any]) -> str:
    last = max([max(group["iterations"]) for group in result["groups"]] + [1])

    def x(iteration: float) -> float:
        return 50 + 640 * iteration / float(last)

    def y(success: float) -> float:
        return 320 - 300 * min(1.0, max(0.0, success))

    parts = []
    for tick in range(0, 101, 20):
        height = y(tick / 100)
        parts.append(f"<line x1='50' x2='690' y1='{height}' y2='{height}' stroke='#8884'/>")
        parts.append(f"<text x='42' y='{height + 4}' font-size='12' text-anchor='end'>{tick}</text>")
    for group, colour in zip(result["groups"], COLOURS * 9):
        points = list(zip(group["iterations"], group["mean"], group["half_width"]))
        if points and points[0][2] is not None:
            upper = [f"{x(i):.1f},{y(m + h):.1f}" for i, m, h in points]
            lower = [f"{x(i):.1f},{y(m - h):.1f}" for i, m, h in reversed(points)]
            parts.append(f"<polygon points='{' '.join(upper + lower)}' fill='{colour}' opacity='.15'/>")
        line = " ".join(f"{x(i):.1f},{y(m):.1f}" for i, m, _ in points)
        parts.append(f"<polyline points='{line}' fill='none' stroke='{colour}' stroke-width='2'/>")
    parts.append(f"<text x='370' y='350' font-size='12' text-anchor='middle'>iteration (0 to {last})</text>")
    return f"<svg viewBox='0 0 720 360' role='img' aria-label='success by iteration'>{''.join(parts)}</svg>"
