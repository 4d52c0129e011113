"""Learning curves: the picture of a run, and of a comparison a picture and a page."""

from __future__ import annotations

import html
import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..files import atomic_path, write_text
from .compare import NOISE, where_read

COLOURS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#17becf", "#8c564b", "#7f7f7f")


def have_matplotlib() -> bool:
    """Pictures are optional."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        return False
    return True


def draw_run(rows: Sequence[Mapping[str, Any]], path: Path, title: str) -> bool:
    """Success, return and KL by iteration of one run; False (and no file) without matplotlib."""
    if not have_matplotlib() or not rows:
        return False
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    played = [row for row in rows if "success" in row]
    left.plot(
        [r["iteration"] for r in played], [100 * r["success"] for r in played], label="training rollouts"
    )
    for name in sorted({key for row in rows for key in row if _is_eval(key)}):
        points = [(row["iteration"], 100 * row[name]) for row in rows if name in row]
        left.plot(*zip(*points), marker="o", label=name.split("/")[1])
    left.set(xlabel="iteration", ylabel="success (%)", ylim=(0, 100), title=title)
    if played:
        left.legend(loc="lower right", fontsize=8)
    left.grid(alpha=0.3)
    for name in ("entropy", "inadmissible_share", "malformed_share", "clip_share"):
        points = [(row["iteration"], row[name]) for row in rows if name in row]
        if points:
            right.plot(*zip(*points), label=name)
    right.set(xlabel="iteration", title="health")
    if right.lines:
        right.legend(fontsize=8)
    right.grid(alpha=0.3)
    with atomic_path(path) as temporary:
        figure.savefig(temporary, format="png", dpi=110)
    return True


def _is_eval(key: str) -> bool:
    return key.startswith("eval/") and key.endswith("/success")


def write_png(result: dict[str, Any], path: Path) -> bool:
    """Mean curves with intervals; False without matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return False
    figure = Figure(figsize=(7, 4.2), layout="constrained")
    axes = figure.subplots()
    for group, colour in zip(result["groups"], itertools.cycle(COLOURS)):
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
        for group, colour in zip(result["groups"], itertools.cycle(COLOURS))
    )
    pairs = "".join(
        f"<tr><td>{html.escape(pair['other'])} - {html.escape(pair['one'])}</td><td>{pair['seeds']}</td>"
        f"<td>{pair['points']}</td><td>{'yes' if pair['clear'] else 'no'}</td></tr>"
        for pair in result["differences"]
    )
    if pairs:
        pairs = (
            f"<h2>Differences</h2><p>Last, seed by seed, in points: {html.escape(NOISE)}.</p><table><tr>"
            f"<th>settings</th><th>seeds</th><th>difference</th><th>beyond the noise</th></tr>{pairs}</table>"
        )
    write_text(
        path,
        "<!doctype html><html lang='en'><meta charset='utf-8'><title>hgpo compare</title>"
        "<style>body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:56rem;padding:0 1rem}"
        "table{border-collapse:collapse;width:100%}td,th{border-bottom:1px solid #8884;padding:.3rem .6rem;"
        "text-align:left}svg{width:100%;height:auto}</style>"
        f"<h1>Success on {html.escape(result['split'])}</h1><p>Panel {result['panel']}. Intervals: 95%, "
        f"Student's t over training seeds. {html.escape(where_read(result))}.</p><table>"
        "<tr><th>setting</th><th>runs</th><th>start</th><th>last</th>"
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
    for group, colour in zip(result["groups"], itertools.cycle(COLOURS)):
        points = list(zip(group["iterations"], group["mean"], group["half_width"]))
        if points and points[0][2] is not None:
            upper = [f"{x(i):.1f},{y(m + h):.1f}" for i, m, h in points]
            lower = [f"{x(i):.1f},{y(m - h):.1f}" for i, m, h in reversed(points)]
            parts.append(f"<polygon points='{' '.join(upper + lower)}' fill='{colour}' opacity='.15'/>")
        line = " ".join(f"{x(i):.1f},{y(m):.1f}" for i, m, _ in points)
        parts.append(f"<polyline points='{line}' fill='none' stroke='{colour}' stroke-width='2'/>")
    parts.append(f"<text x='370' y='350' font-size='12' text-anchor='middle'>iteration (0 to {last})</text>")
    return f"<svg viewBox='0 0 720 360' role='img' aria-label='success by iteration'>{''.join(parts)}</svg>"
