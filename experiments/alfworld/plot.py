"""Tables and picture of a recorded study.

python experiments/alfworld/plot.py                       # prints the tables, writes docs/images/alfworld-study.png
python experiments/alfworld/plot.py my/results.json --picture curves.png
"""

from __future__ import annotations

import argparse
import itertools
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from hgpo.runs.differences import differences
from hgpo.runs.statistics import over_runs

HERE = Path(__file__).resolve().parent
PICTURE = HERE.parents[1] / "docs" / "images" / "alfworld-study.png"
NAMES = {
    "grpo": "GRPO",
    "gigpo": "GiGPO",
    "hgpo": "HGPO, published settings",
    "hgpo_lambda": "HGPO-lambda",
    "g2po": "G2PO",
}
"""What arms that are an estimator and nothing else are called; others keep their own names."""
LEVELS = (0.8, 0.9, 0.95)
"""Success that the table of times asks for."""
PHASES = ("rollout", "generate", "estimate", "update", "eval")
WINDOW = 5
Run = dict[str, Any]
Arms = dict[str, dict[int, Run]]
"""Runs by arm and seed."""
Reading = dict[str, dict[int, float]]
"""One number of every run by arm and seed."""


def studies(study: dict[str, Any]) -> list[tuple[int, float]]:
    """The history lengths and learning rates that runs were made with: each pair is a comparison of its own."""
    return sorted(
        {(run["history_length"], run["config"]["update"]["lr"]) for run in study["runs"] if played(run)}
    )


def played(run: Run) -> list[float]:
    """Success while training, iteration by iteration."""
    return [row["success"] for row in run["curve"] if row["iteration"] > 0]


def arms(study: dict[str, Any], history: int, rate: float) -> Arms:
    """The runs of one comparison, in the order of NAMES, then of their own names."""
    by_name: Arms = {}
    for run in study["runs"]:
        if (run["history_length"], run["config"]["update"]["lr"]) == (history, rate) and played(run):
            by_name.setdefault(run.get("arm", run["estimator"]), {})[run["seed"]] = run
    order = [*NAMES, *sorted(by_name.keys() - NAMES.keys())]
    return {name: by_name[name] for name in order if name in by_name}


def title(name: str) -> str:
    """What an arm is called."""
    return NAMES.get(name, name)


def recent(values: list[float]) -> list[float]:
    """The mean of the last WINDOW values at each place."""
    return [float(np.mean(values[max(0, at - WINDOW + 1) : at + 1])) for at in range(len(values))]


def minutes(run: Run) -> list[float]:
    """Minutes of training at the end of each iteration, evaluations between them included."""
    clock = np.cumsum([row["seconds"] for row in run["curve"]]) / 60
    return [float(clock[place]) for place, row in enumerate(run["curve"]) if row["iteration"] > 0]


def time_table(study: dict[str, Any], history: int, rate: float) -> None:
    """When the mean of WINDOW iterations on training tasks first reached a level, by iteration and by minute."""
    lines = []
    for name, members in arms(study, history, rate).items():
        for seed, run in members.items():
            means, clock = recent(played(run)), minutes(run)
            whole = range(WINDOW - 1, len(means))
            places = [next((at for at in whole if means[at] >= level), None) for level in LEVELS]
            if places[0] is not None:
                cells = ["" if at is None else f"iteration {at + 1}, {clock[at]:.1f} min" for at in places]
                lines.append(line(f"{title(name)}, seed {seed}", cells))
    said = f"success on training tasks (mean of {WINDOW} iterations)"
    if not lines:
        print(f"\nNo run reached {LEVELS[0]:.0%} {said}.")
        return
    print(f"\nFirst at so much {said}; runs that are missing never reached {LEVELS[0]:.0%}:\n")
    heading(f"{level:.0%}" for level in LEVELS)
    print("\n".join(lines))


def readings(by_name: Arms) -> dict[str, Reading]:
    """What the runs can be compared by: every panel and temperature, and the last iterations of training."""
    panels = {
        panel for members in by_name.values() for run in members.values() for panel in run["evaluations"]
    }
    # As trained before as published; the nearer panel first.
    result = {
        panel: {
            name: {
                seed: run["evaluations"][panel]["success"]
                for seed, run in members.items()
                if panel in run["evaluations"]
            }
            for name, members in by_name.items()
        }
        for panel in sorted(panels, key=lambda panel: (-float(panel.split()[-1]), panel))
    }
    # A run that was stopped early would cut the others short.
    longest = max(len(played(run)) for members in by_name.values() for run in members.values())
    curves = {
        name: {seed: played(run) for seed, run in members.items() if 3 * len(played(run)) > 2 * longest}
        for name, members in by_name.items()
    }
    shared = min(len(curve) for members in curves.values() for curve in members.values())
    last = f"training tasks, iterations {max(1, shared - WINDOW + 1)} to {shared}"
    result[last] = {
        name: {seed: float(np.mean(curve[:shared][-WINDOW:])) for seed, curve in members.items()}
        for name, members in curves.items()
    }
    return result


def around(values: list[float]) -> str:
    """Mean and half width of the 95% interval over training seeds, in percent."""
    if not values:
        return ""
    interval = over_runs([100 * value for value in values])
    half = interval["high"] - interval["mean"]
    return f"{interval['mean']:.1f}" + ("" if np.isnan(half) else f" ± {half:.1f}")


def success_table(study: dict[str, Any], history: int, rate: float) -> None:
    """Success of the warm start and of every estimator: mean and interval over seeds, then seed by seed."""
    by_name = arms(study, history, rate)
    lengths = sorted({len(played(run)) for members in by_name.values() for run in members.values()})
    columns = readings(by_name)
    warm = study["warm"].get(f"warm-k{history}", {}).get("evaluations", {})
    start = [f"{100 * warm[column]['success']:.1f}" if column in warm else "" for column in columns]
    print(f"\nK = {history}, learning rate {rate:g}, {', '.join(map(str, lengths))} iterations: success, %\n")
    heading(columns)
    print(line("warm start", start))
    for name in by_name:
        print(line(title(name), [around(list(column[name].values())) for column in columns.values()]))
    print("\nSeed by seed:\n")
    heading(columns)
    for name in by_name:
        cells = [
            ", ".join(f"{seed}: {100 * value:.1f}" for seed, value in column[name].items())
            for column in columns.values()
        ]
        print(line(title(name), cells))


def heading(columns: Iterable[str]) -> None:
    """The first two lines of a table."""
    titles = list(columns)
    print(line("", titles))
    print("| --- |" + " --- |" * len(titles))


def line(name: str, cells: Iterable[str]) -> str:
    """A line of a table."""
    return f"|{'|'.join(f' {cell} ' if cell else ' ' for cell in [name, *cells])}|"


def difference_table(study: dict[str, Any], history: int, rate: float) -> None:
    """Differences seed by seed: their interval, and the one from the noise of all estimators together."""
    by_name = arms(study, history, rate)
    columns = readings(by_name)
    print("\nDifferences, points. First interval: the pair's own, over seeds; second: from the noise of all")
    print("estimators together. **Bold**: beyond both.\n")
    heading(columns)
    shown = [
        {
            (one.one, one.other): f"**{one.points()}**" if one.clear else one.points()
            for one in differences(column)
        }
        for column in columns.values()
    ]
    for pair in itertools.combinations(by_name, 2):
        one, other = (title(name).split(",")[0] for name in pair)
        print(line(f"{other} - {one}", [column.get(pair, "") for column in shown]))


def phase_table(study: dict[str, Any]) -> None:
    """Where the time went, over all runs."""
    rows = [row for run in study["runs"] for row in run["curve"] if "seconds/update" in row]
    if not rows:
        return
    total = sum(row["seconds"] for row in rows)
    parts = [
        f"{phase} {sum(row[f'seconds/{phase}'] for row in rows) / total:.0%}"
        for phase in PHASES
        if all(f"seconds/{phase}" in row for row in rows)
    ]
    print(
        f"\nTime by phase over {len(rows)} iterations ({total:.0f} s): {', '.join(parts)} (generate is within rollout)"
    )


def picture(study: dict[str, Any], history: int, rate: float, path: Path, by_minute: bool) -> None:
    """Success while training, a panel per seed; below it success in evaluation, a panel per reading."""
    from matplotlib.figure import Figure

    by_name = arms(study, history, rate)
    seeds = sorted({seed for members in by_name.values() for seed in members})
    columns = {name: column for name, column in readings(by_name).items() if not name.startswith("training")}
    warm = study["warm"].get(f"warm-k{history}", {}).get("evaluations", {})
    # Estimators have the same colour in every picture.
    colours = {name: f"C{place}" for place, name in enumerate(dict.fromkeys([*NAMES, *by_name]))}
    rows = 2 if columns else 1
    figure = Figure(figsize=(11, 3.4 * rows), layout="constrained")
    top = figure.subfigures(rows, 1) if columns else [figure]
    curves = np.atleast_1d(top[0].subplots(1, len(seeds), sharey=True))
    for axes, seed in zip(curves, seeds):
        for name, members in by_name.items():
            if seed in members:
                values = [100 * value for value in played(members[seed])]
                places = minutes(members[seed]) if by_minute else range(1, len(values) + 1)
                axes.plot(places, recent(values), color=colours[name], linewidth=2)
                axes.plot(places, values, color=colours[name], alpha=0.25, linewidth=0.8)
        axes.set_title(f"seed {seed}", fontsize=10)
        axes.set_xlabel("minutes" if by_minute else "iteration")
        axes.grid(alpha=0.3)
    curves[0].set_ylabel("success while training, %")
    if columns:
        dots = np.atleast_1d(top[1].subplots(1, len(columns), sharey=True))
        for axes, (panel, column) in zip(dots, columns.items()):
            for place, name in enumerate(by_name):
                values = [100 * value for value in column[name].values()]
                if not values:
                    continue
                axes.plot([place] * len(values), values, "o", color=colours[name], alpha=0.5, markersize=5)
                axes.hlines(np.mean(values), place - 0.3, place + 0.3, color=colours[name], linewidth=2.5)
            if panel in warm:
                axes.axhline(100 * warm[panel]["success"], color="grey", linestyle=":", label="warm start")
            axes.set_title(panel, fontsize=10)
            axes.set_xticks(
                range(len(by_name)), [title(name).split(",")[0] for name in by_name], rotation=20, fontsize=8
            )
            axes.grid(alpha=0.3, axis="y")
        dots[0].set_ylabel("success in evaluation, %")
        if any(panel in warm for panel in columns):
            dots[0].legend(fontsize=8, loc="lower right")
    lines = [curves[0].plot([], [], color=colours[name], linewidth=2)[0] for name in by_name]
    figure.legend(
        lines, [title(name) for name in by_name], loc="outside upper center", ncols=len(by_name), fontsize=9
    )
    figure.savefig(path, dpi=100)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("results", nargs="?", type=Path, default=HERE / "results.json")
    parser.add_argument(
        "--picture", type=Path, help="of the comparison with the most runs (of other records: beside them)"
    )
    parser.add_argument("--by-minute", action="store_true", help="curves by minute instead of by iteration")
    args = parser.parse_args()
    beside = args.results.with_suffix(".png")
    args.picture = args.picture or (PICTURE if args.results == HERE / "results.json" else beside)
    study = json.loads(args.results.read_text())
    if "runs" not in study:
        parser.error(
            f"{args.results} holds no study; expected what `run.py collect` writes, such as k4.json."
        )
    for history, rate in studies(study):
        success_table(study, history, rate)
        difference_table(study, history, rate)
        time_table(study, history, rate)
    phase_table(study)
    largest = max(studies(study), key=lambda key: sum(map(len, arms(study, *key).values())))
    picture(study, *largest, args.picture, args.by_minute)


if __name__ == "__main__":
    main()
