"""Learning curves: the picture of a run, and of a comparison a picture and a page."""

from __future__ import annotations

import base64
import hashlib
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


STYLE = """
:root{--ink:#1b2130;--soft:#5d6778;--line:#dde2ea;--paper:#fff;color-scheme:light dark}
@media(prefers-color-scheme:dark){:root{--ink:#e6e9f0;--soft:#9aa5b5;--line:#2f3743;--paper:#15181d}}
*{box-sizing:border-box}
body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper)}
body{margin:2rem auto;max-width:62rem;padding:0 1.2rem}
h1{font-size:1.35rem}h2{font-size:1.1rem;margin-top:2rem}p{color:var(--soft);overflow-wrap:anywhere}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}
td,th{border-bottom:1px solid var(--line);padding:.35rem .6rem;text-align:left;vertical-align:top}
td,th{overflow-wrap:anywhere}
th{color:var(--soft);font-weight:600;font-size:.9em}td:first-child{font-weight:600}
svg{width:100%;height:auto;margin-top:1rem}svg text{fill:var(--soft)}line{stroke:var(--line)}
i{display:inline-block;width:.75em;height:.75em;border-radius:3px;margin-right:.5em}
.legend{display:flex;flex-wrap:wrap;gap:.2rem 1.2rem}.legend span{overflow-wrap:anywhere;min-width:0}
@media(max-width:700px){
table,tbody{display:block}thead{display:none}
tr{display:grid;grid-template-columns:repeat(2,minmax(0,1fr));gap:.2rem 1rem}
tr{padding:.6rem 0;border-bottom:1px solid var(--line)}
td{border:0;padding:0}td:first-child{grid-column:1/-1}
td:not(:first-child)::before{content:attr(data-head);display:block;color:var(--soft);font-size:.8rem}
svg text{font-size:22px}}
"""


def write_html(result: dict[str, Any], path: Path) -> None:
    """A page of its own: tables and curves, nothing loaded from elsewhere; readable on a telephone too."""
    colours = dict(zip((group["name"] for group in result["groups"]), itertools.cycle(range(len(COLOURS)))))
    style = STYLE + "".join(f".c{number}{{background:{colour}}}" for number, colour in enumerate(COLOURS))
    rows = [
        (
            _named(group["name"], colours),
            str(len(group["runs"])),
            f"{group['start']['mean']:.1%}",
            f"{group['last']['mean']:.1%}",
            _interval(group["last"]),
            f"{group['area']['mean']:.1%}",
        )
        for group in result["groups"]
    ]
    parts = [
        f"<h1>Success on {html.escape(result['split'])}</h1><p>Panel {html.escape(result['panel'])}. Intervals: 95%, "
        f"Student's t over training seeds. {html.escape(where_read(result))}.</p>",
        _table(("setting", "runs", "start", "last", "95% interval", "mean of the curve"), rows),
        _svg(result),
        f"<div class='legend'>{''.join(f'<span>{_named(name, colours)}</span>' for name in colours)}</div>",
    ]
    if result["differences"]:
        pairs = [
            (
                f"{html.escape(pair['other'])} - {html.escape(pair['one'])}",
                str(pair["seeds"]),
                html.escape(pair["points"]),
                "yes" if pair["clear"] else "no",
            )
            for pair in result["differences"]
        ]
        parts.append(f"<h2>Differences</h2><p>Last, seed by seed, in points: {html.escape(NOISE)}.</p>")
        parts.append(_table(("settings", "seeds", "difference", "beyond the noise"), pairs))
    names = list(dict.fromkeys(name for group in result["groups"] for name in group["settings"]))
    if names:
        settings = [
            (
                _named(group["name"], colours),
                *(html.escape(group["settings"].get(name, "–")) for name in names),
            )
            for group in result["groups"]
        ]
        parts += ["<h2>Settings that differ</h2>", _table(("", *map(html.escape, names)), settings)]
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    write_text(
        path,
        "<!doctype html><html lang='en'><meta charset='utf-8'>"
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        "<meta name='viewport' content='width=device-width, initial-scale=1'><title>hgpo compare</title>"
        f"<style>{style}</style>{''.join(parts)}</html>\n",
    )


def _named(name: str, colours: Mapping[str, int]) -> str:
    return f"<i class='c{colours[name]}'></i>{html.escape(name)}"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of cells that are HTML; each knows its heading, for narrow windows."""
    top = "".join(f"<th scope='col'>{head}</th>" for head in heads)
    body = "".join(
        "<tr>" + "".join(f'<td data-head="{head}">{cell}</td>' for head, cell in zip(heads, row)) + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"


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
        parts.append(f"<line x1='50' x2='690' y1='{height}' y2='{height}'/>")
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
