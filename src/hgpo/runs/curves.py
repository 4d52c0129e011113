"""Learning curves as a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..files import atomic_path


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
