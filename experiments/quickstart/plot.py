"""Tables and picture of a recorded study.

python experiments/quickstart/plot.py            # prints the tables, writes docs/images/quickstart-study.png
python experiments/quickstart/plot.py runs/quickstart-study/study.json --picture curves.png

Differences are paired by seed: the runs of a seed share their warm start and play the same tasks. A run whose curve
while training was not kept has `played_mean` and `played_last` (over the last iterations) instead of `played`.
"""

from __future__ import annotations

import argparse
import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np

from hgpo.runs.statistics import over_runs

HERE = Path(__file__).resolve().parent
NAMES = {
    "hgpo_lambda": "HGPO-lambda",
    "g2po": "G2PO",
    "hgpo": "HGPO, published settings",
    "gigpo": "GiGPO",
    "grpo": "GRPO",
    "hgpo_lambda_states": "HGPO-lambda, told",
    "hgpo_lambda_states_prior": "HGPO-lambda, told, prior 1, lambda 0.25",
    "g2po_states": "G2PO, told",
    "hgpo_states": "HGPO, told",
}
LAST = 10
"""Iterations at the end of a run by which rates are chosen."""

Study = dict[str, Any]
Values = np.ndarray[Any, Any]


def shown(arm: str) -> str:
    """The name of an arm in tables."""
    return NAMES.get(arm, arm)


def interval(values: Values, signed: bool = False) -> str:
    """Mean and half width of its 95% interval over seeds, in points."""
    found = over_runs((100 * values).tolist())
    return f"{found['mean']:{'+' if signed else ''}.1f} ± {found['high'] - found['mean']:.1f}"


def arms_of(study: Study) -> list[str]:
    """The arms of the final runs, those with names first."""
    present = {run["arm"] for run in study["runs"] if run["phase"] == "final"}
    return [arm for arm in NAMES if arm in present] + sorted(present - set(NAMES))


def seeds_of(study: Study, *arms: str) -> list[int]:
    """The seeds of the final runs that all these arms have."""
    has = [
        {int(run["seed"]) for run in study["runs"] if (run["phase"], run["arm"]) == ("final", arm)}
        for arm in arms
    ]
    return sorted(set.intersection(*has))


def final(study: Study, arm: str, seeds: list[int] | None = None) -> list[dict[str, Any]]:
    """The final runs of an arm by seed: all of them, or those of some seeds."""
    runs = [run for run in study["runs"] if (run["phase"], run["arm"]) == ("final", arm)]
    runs = [run for run in runs if seeds is None or int(run["seed"]) in seeds]
    return sorted(runs, key=lambda run: int(run["seed"]))


def evaluated(runs: list[dict[str, Any]]) -> Values:
    """Success on held-out tasks. Float [runs, evaluations]."""
    return np.array([[value for _, value in run["evaluated"]] for run in runs])


def trained(runs: list[dict[str, Any]]) -> Values:
    """Success while training, over the last iterations. Float [runs]."""
    return np.array(
        [np.mean(run["played"][-LAST:]) if "played" in run else run["played_last"] for run in runs]
    )


def late(study: Study, arm: str, rate: float) -> list[float]:
    """Success over the last iterations of the sweep's runs."""
    return [
        float(np.mean(run["played"][-LAST:]))
        for run in study["runs"]
        if (run["phase"], run["arm"], run["rate"]) == ("sweep", arm, rate)
    ]


def sweep_table(study: Study) -> list[str]:
    """Success while training by rate; the chosen one is in bold."""
    rates = sorted({run["rate"] for run in study["runs"] if run["phase"] == "sweep"})
    if not rates:
        return []
    lines = [
        f"| learning rate, last {LAST} iterations of the sweep | {' | '.join(f'{rate:g}' for rate in rates)} |"
    ]
    lines.append("| --- " * (1 + len(rates)) + "|")
    for arm in arms_of(study):
        cells = []
        for rate in rates:
            cell = f"{100 * np.mean(late(study, arm, rate)):.1f}%"
            cells.append(f"**{cell}**" if study["rates"].get(arm) == rate else cell)
        lines.append(f"| {shown(arm)} | {' | '.join(cells)} |")
    return lines


def final_table(study: Study, iterations: list[int]) -> list[str]:
    """Success on held-out tasks, gain, and area under the curve."""
    first, last = iterations[min(1, len(iterations) - 1)], iterations[-1]
    lines = [
        f"| estimator | learning rate | seeds | start, % | iteration {first}, % | iteration {last}, % | gain, points "
        f"| mean of the curve, % | last {LAST} iterations of training, % |",
        "| --- " * 9 + "|",
    ]
    for arm in arms_of(study):
        runs = final(study, arm)
        curve = evaluated(runs)
        cells = [
            rate_of(study, arm),
            str(len(curve)),
            f"{100 * curve[:, 0].mean():.1f}",
            f"{100 * curve[:, min(1, curve.shape[1] - 1)].mean():.1f}",
            interval(curve[:, -1]),
            interval(curve[:, -1] - curve[:, 0], signed=True),
            interval(area(curve, iterations)),
            interval(trained(runs)),
        ]
        lines.append(f"| {shown(arm)} | {' | '.join(cells)} |")
    return lines


def rate_of(study: Study, arm: str) -> str:
    """The learning rate of an arm: chosen by the sweep, among its own settings, or that of the preset."""
    chosen = study["rates"].get(arm)
    words = final(study, arm)[0].get("settings", ())
    given = [word.partition("=")[2] for word in words if word.startswith("update.lr=")]
    return f"{chosen or float(given[0]):g}" if chosen or given else "preset's"


def area(curve: Values, iterations: list[int]) -> Values:
    """Mean height of curves [seeds, points] between their first and last point. Float [seeds]."""
    widths = np.diff(iterations)
    if len(widths) == 0:
        return curve[:, 0]
    heights = (curve[:, 1:] + curve[:, :-1]) / 2
    return np.asarray(heights @ widths / widths.sum())


def difference_table(study: Study, iterations: list[int]) -> list[str]:
    """Every pair of arms: differences in points, paired by the seeds that both have."""
    lines = [
        f"| difference, points | iteration {iterations[-1]} | mean of the curve | last {LAST} iterations of training |",
        "| --- | --- | --- | --- |",
    ]
    for one, other in itertools.combinations(arms_of(study), 2):
        seeds = seeds_of(study, one, other)
        curves = [evaluated(final(study, arm, seeds)) for arm in (one, other)]
        played = [trained(final(study, arm, seeds)) for arm in (one, other)]
        areas = [area(curve, iterations) for curve in curves]
        cells = [
            interval(curves[0][:, -1] - curves[1][:, -1], signed=True),
            interval(areas[0] - areas[1], signed=True),
            interval(played[0] - played[1], signed=True),
        ]
        lines.append(f"| {shown(one)} - {shown(other)} | {' | '.join(cells)} |")
    return lines


def open_table(study: Study) -> list[str]:
    """The end on other panels, and how open the policy still is, where runs have kept it."""
    ended = [run for run in study["runs"] if run["phase"] == "final"]
    if not all("entropy" in run for run in ended):
        return []
    panels = sorted(set.intersection(*(set(run["others"]) for run in ended)))
    lines = [
        f"| estimator | {''.join(f'{panel} at the end, % | ' for panel in panels)}entropy at first | entropy, last "
        f"{LAST} iterations |",
        "| --- " * (3 + len(panels)) + "|",
    ]
    for arm in arms_of(study):
        runs = final(study, arm)
        ends = [interval(np.array([run["others"][panel][-1][1] for run in runs])) for panel in panels]
        entropy = np.array([[run["entropy"][0], np.mean(run["entropy"][-LAST:])] for run in runs])
        cells = [*ends, *(f"{value:.2f}" for value in entropy.mean(0))]
        lines.append(f"| {shown(arm)} | {' | '.join(cells)} |")
    return lines


def draw(study: Study, iterations: list[int], path: Path) -> None:
    """Success on held-out tasks, and while training, by iteration."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4), layout="constrained")
    held_out, training = figure.subplots(1, 2, sharey=True)
    for arm in arms_of(study):
        runs = final(study, arm)
        curves = 100 * evaluated(runs)
        (line,) = held_out.plot(iterations, curves.mean(0), label=shown(arm), linewidth=2)
        for curve in curves:
            held_out.plot(iterations, curve, color=line.get_color(), alpha=0.2, linewidth=1)
        played = np.array([100 * np.array(run["played"]) for run in runs if "played" in run])
        if not len(played):
            continue
        window = min(5, played.shape[1])
        smooth = np.array([np.convolve(one, np.ones(window) / window, "valid") for one in played])
        numbers = np.arange(window, played.shape[1] + 1)
        training.plot(numbers, smooth.mean(0), color=line.get_color(), linewidth=2)
    seeds = max(len(seeds_of(study, arm)) for arm in arms_of(study))
    held_out.set_title(f"held-out tasks, mean of {seeds} seeds (thin: single seeds)", fontsize=10)
    training.set_title("training tasks, mean of the last five iterations", fontsize=10)
    held_out.set_ylabel("success, %")
    for axes in (held_out, training):
        axes.set_xlabel("iteration (16 tasks x 8 rollouts each)")
        axes.grid(alpha=0.3)
    held_out.legend(fontsize=8)
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("results", nargs="?", type=Path, default=HERE / "results.json")
    parser.add_argument(
        "--picture", type=Path, default=HERE.parents[1] / "docs" / "images" / "quickstart-study.png"
    )
    args = parser.parse_args()
    study = json.loads(args.results.read_text())
    last = next(run for run in study["runs"] if run["phase"] == "final")
    iterations = [number for number, _ in last["evaluated"]]
    tables = [
        sweep_table(study),
        final_table(study, iterations),
        difference_table(study, iterations),
        open_table(study),
    ]
    print("\n\n".join("\n".join(table) for table in tables if table))
    draw(study, iterations, args.picture)


if __name__ == "__main__":
    main()
