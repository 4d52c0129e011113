"""Plots of the study, as SVG files that are the same for the same numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..errors import MissingExtra
from ..files import atomic_path
from .entries import OURS

SHOWN = ("grpo", "gigpo", "hgpo", "g2po", "graphgpo", OURS)
COLOURS = dict(zip(SHOWN, ("#9a9a9a", "#c6a15b", "#4c78a8", "#72a35e", "#9d6ab5", "#d1495b")))


def _prepare() -> None:
    try:
        import matplotlib
    except ImportError:
        raise MissingExtra("matplotlib", "train", "Drawing the lab's plots") from None
    matplotlib.use("svg")
    # Fixed ids and no date: the same numbers give the same bytes.
    matplotlib.rcParams.update(
        {"svg.hashsalt": "hgpo", "svg.fonttype": "none", "font.size": 8, "axes.spines.top": False}
    )


def draw(document: dict[str, Any], folder: Path) -> list[str]:
    """Write all plots that the document of small worlds has numbers for; returns their file names."""
    _prepare()
    written = [bars(document, folder, "gradient_cosine"), bars(document, folder, "mse")]
    if len(document["groups"][0]["cosine"]) > 1:
        written.append(groups(document, folder))
    if document["learning"]:
        written += [learning(document, folder, policy) for policy in ("table", "network")]
    if document["ablations"]:
        written.append(variations(document, folder))
    return written


def draw_games(document: dict[str, Any], folder: Path, name: str) -> str:
    """Cosine of every estimator with its interval, from the lowest to the highest."""
    _prepare()
    from matplotlib import pyplot

    rows = [row for row in document["estimators"] if row["cosine"]["mean"] is not None]
    rows.sort(key=lambda row: (row["cosine"]["mean"], row["estimator"]))
    figure, axes = pyplot.subplots(figsize=(6, 0.6 + 0.19 * len(rows)))
    for place, row in enumerate(rows):
        mean, (low, high) = row["cosine"]["mean"], row["cosine"]["interval"]
        colour = COLOURS.get(row["estimator"], "#555555")
        axes.hlines(place, low, high, colors=colour, lw=1.2)
        axes.plot([mean], [place], "o", color=colour, ms=4 if row["estimator"] in COLOURS else 3)
    axes.set_yticks(range(len(rows)), [row["estimator"] for row in rows])
    axes.set_xlabel("cosine with the true advantages, 95 % interval over games")
    axes.grid(axis="x", lw=0.3)
    axes.spines["right"].set_visible(False)
    return save(figure, folder, f"{name}.svg")


def save(figure: Any, folder: Path, name: str) -> str:
    """Write one figure and close it."""
    from matplotlib import pyplot

    with atomic_path(folder / name) as temporary:
        figure.savefig(temporary, format="svg", bbox_inches="tight", metadata={"Date": None})
    pyplot.close(figure)
    return name


def bars(document: dict[str, Any], folder: Path, measure: str) -> str:
    """One group of bars per world, with the ceiling for cosines."""
    from matplotlib import pyplot

    worlds = list(document["worlds"])
    values = {(r["world"], r["estimator"]): r[measure] for r in document["records"]}
    shown = [label for label in SHOWN if (worlds[0], label) in values]
    figure, axes = pyplot.subplots(figsize=(10, 3.2))
    width = 0.8 / max(len(shown), 1)
    for number, label in enumerate(shown):
        at = [place + width * (number - (len(shown) - 1) / 2) for place in range(len(worlds))]
        means = [values[name, label]["mean"] for name in worlds]
        error = [values[name, label]["interval"][1] - mean for name, mean in zip(worlds, means)]
        axes.bar(at, means, width, yerr=error, label=label, color=COLOURS[label], error_kw={"lw": 0.6})
    if measure == "gradient_cosine":
        for place, name in enumerate(worlds):
            height = document["worlds"][name]["ceiling"]["mean"]
            axes.hlines(height, place - 0.42, place + 0.42, colors="black", lw=1.2)
        axes.hlines([], 0, 0, colors="black", lw=1.2, label="ceiling: true advantages")
        axes.set_ylabel("cosine with the true gradient")
    else:
        axes.set_ylabel("squared error (1 = silence)")
    axes.set_xticks(range(len(worlds)), worlds, rotation=30, ha="right")
    axes.legend(ncols=4, fontsize=7, frameon=False, loc="lower left", bbox_to_anchor=(0, 1))
    return save(figure, folder, f"{measure}.svg")


def groups(document: dict[str, Any], folder: Path) -> str:
    """Cosine of the mean gradient against the number of groups: estimators, and ours by lambda."""
    from matplotlib import pyplot

    by_label = {row["estimator"]: row["cosine"] for row in document["groups"]}
    lams = [*sorted(label for label in by_label if label.startswith(f"{OURS} lam=")), OURS]
    figure, grid = pyplot.subplots(1, 2, figsize=(8, 2.8), sharey=True)
    for axes, labels in zip(grid, ([*SHOWN, "hgpo_mean"], lams)):
        for label in [one for one in labels if one in by_label] + ["ceiling"]:
            numbers = list(by_label[label])
            heights = [by_label[label][number]["mean"] for number in numbers]
            colour = "black" if label == "ceiling" else COLOURS.get(label)
            axes.plot(numbers, heights, marker="o", ms=3, lw=1, label=label, color=colour)
        axes.set_xlabel("groups averaged over")
        axes.legend(fontsize=6, frameon=False)
    grid[0].set_ylabel("cosine with the true gradient")
    return save(figure, folder, "groups.svg")


def learning(document: dict[str, Any], folder: Path, policy: str) -> str:
    """Learning curves, one panel per world."""
    from matplotlib import pyplot

    curves = [c for c in document["learning"] if c["policy"] == policy]
    worlds = list(dict.fromkeys(c["world"] for c in curves))
    columns = min(4, len(worlds))
    rows = -(-len(worlds) // columns)
    figure, grid = pyplot.subplots(rows, columns, figsize=(2.6 * columns, 1.9 * rows), squeeze=False)
    for axes, name in zip(grid.flat, worlds):
        for curve in curves:
            if curve["world"] != name or curve["estimator"] not in SHOWN:
                continue
            steps = curve["updates"]
            colour = COLOURS[curve["estimator"]]
            axes.plot(steps, curve["success"], color=colour, lw=1.2, label=curve["estimator"])
            low = [m - h for m, h in zip(curve["success"], curve["half_width"])]
            high = [m + h for m, h in zip(curve["success"], curve["half_width"])]
            axes.fill_between(steps, low, high, color=colour, alpha=0.12, lw=0)
        axes.set_title(name, fontsize=8)
        axes.set_ylim(0, 1.02)
    for axes in list(grid.flat)[len(worlds) :]:
        axes.axis("off")
    handles, labels = grid.flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, ncols=6, fontsize=7, frameon=False, loc="upper center")
    figure.supxlabel("updates", fontsize=8)
    figure.supylabel("chance of success", fontsize=8)
    figure.tight_layout(rect=(0, 0, 1, 0.96))
    return save(figure, folder, f"learning_{policy}.svg")


def variations(document: dict[str, Any], folder: Path) -> str:
    """Gradient cosine against lambda and depth, one line per world."""
    from matplotlib import pyplot

    figure, grid = pyplot.subplots(1, 2, figsize=(8, 2.8), sharey=True)
    for axes, setting in zip(grid, ("lam", "depth")):
        prefix = f"{OURS} {setting}="
        varied = [
            a
            for a in document["ablations"]
            if a["variation"].startswith(prefix) and "plain" not in a["variation"]
        ]
        points = [a["variation"].removeprefix(prefix) for a in varied]
        for name in varied[0]["worlds"] if varied else ():
            heights = [a["worlds"][name]["gradient_cosine"]["mean"] for a in varied]
            axes.plot(points, heights, marker="o", ms=3, lw=1, label=name)
        axes.set_xlabel("lambda" if setting == "lam" else "depth")
    grid[0].set_ylabel("cosine with the true gradient")
    grid[1].legend(fontsize=7, frameon=False, loc="upper left", bbox_to_anchor=(1, 1))
    return save(figure, folder, "variations.svg")
