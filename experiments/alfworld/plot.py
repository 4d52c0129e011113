"""Tables and picture of the recorded study in results.json.

python experiments/alfworld/plot.py                       # prints the tables, writes docs/images/alfworld-study.png
python experiments/alfworld/plot.py my/results.json --picture curves.png
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from hgpo.evaluation.statistics import over_runs

HERE = Path(__file__).resolve().parent
NAMES = {"grpo": "GRPO", "gigpo": "GiGPO", "hgpo": "HGPO, published settings", "hgpo_lambda": "HGPO-lambda"}
PHASES = ("rollout", "generate", "estimate", "update", "eval")


def around(values: list[float], sign: str = "") -> str:
    """Mean and half width of the 95% interval over training seeds, in points."""
    found = over_runs([100 * value for value in values])
    half = found["high"] - found["mean"]
    return f"{found['mean']:{sign}.1f}" + ("" if np.isnan(half) else f" ± {half:.1f}")


def studies(study: dict[str, Any]) -> list[tuple[int, float]]:
    """The history lengths and learning rates that runs were made with: each pair is a comparison of its own."""
    return sorted({(run["history_length"], run["config"]["update"]["lr"]) for run in study["runs"]})


def arms(
    runs: list[dict[str, Any]], history: int, rate: float, split: str | None = None
) -> dict[str, dict[int, dict[str, Any]]]:
    """Runs by estimator and seed, in the order of NAMES; with `split` those evaluated on it."""
    found: dict[str, dict[int, dict[str, Any]]] = {}
    for name in NAMES:
        members = {
            run["seed"]: run
            for run in runs
            if (run["estimator"], run["history_length"], run["config"]["update"]["lr"])
            == (name, history, rate)
            and (split is None or split in run["evaluations"])
        }
        if members:
            found[name] = members
    return found


def success_table(study: dict[str, Any], history: int, rate: float, split: str) -> None:
    """Success after training, gain over the warm start, and the difference to GRPO seed by seed."""
    found = arms(study["runs"], history, rate, split)
    if not found:
        return
    start = study["warm"][f"warm-k{history}"]["evaluations"][split]["success"]
    tasks = study["warm"][f"warm-k{history}"]["evaluations"][split]["panel"]["tasks"]
    print(f"\nK = {history}, learning rate {rate:g}, {split}, {tasks} games, warm start {start:.1%}\n")
    print(
        "| estimator | seeds | iterations | success, % | gain, points | minus GRPO, points | beyond seed noise |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- |")
    base = {seed: run["evaluations"][split]["success"] for seed, run in found.get("grpo", {}).items()}
    for name, members in found.items():
        values = {seed: run["evaluations"][split]["success"] for seed, run in members.items()}
        gaps = [value - base[seed] for seed, value in values.items() if seed in base]
        versus, clear = "", ""
        if name != "grpo" and gaps:
            versus = around(gaps, "+")
            test = over_runs(gaps)
            clear = "one seed" if len(gaps) < 2 else ("yes" if test["low"] > 0 or test["high"] < 0 else "no")
        print(
            f"| {NAMES[name]} | {', '.join(map(str, values))} "
            f"| {', '.join(sorted({str(len(run['curve']) - 1) for run in members.values()}))} "
            f"| {around(list(values.values()))} "
            f"| {around([value - start for value in values.values()], '+')} | {versus} | {clear} |"
        )


def played(run: dict[str, Any]) -> list[float]:
    """Success while training, iteration by iteration."""
    return [row["success"] for row in run["curve"] if row["iteration"] > 0]


def whole(found: dict[str, dict[int, dict[str, Any]]]) -> dict[str, dict[int, list[float]]]:
    """The curves of all but those runs that were stopped early, which would cut the others short."""
    longest = max(len(played(run)) for members in found.values() for run in members.values())
    kept = {
        name: {seed: played(run) for seed, run in members.items() if 3 * len(played(run)) > 2 * longest}
        for name, members in found.items()
    }
    return {name: curves for name, curves in kept.items() if curves}


def training_table(study: dict[str, Any], history: int, rate: float, window: int = 5) -> None:
    """Success while training over the last iterations that the runs share; a seed's runs play the same tasks."""
    kept = whole(arms(study["runs"], history, rate))
    shared = min(len(curve) for members in kept.values() for curve in members.values())
    window = min(window, shared)
    print(
        f"\nK = {history}, learning rate {rate:g}: success on training games at temperature 1, iterations "
        f"{shared - window + 1} to {shared}\n"
    )
    print("| estimator | by seed, % | minus GRPO, points by seed |")
    print("| --- | --- | --- |")
    means = {
        name: {seed: 100 * float(np.mean(curve[shared - window : shared])) for seed, curve in members.items()}
        for name, members in kept.items()
    }
    for name, values in means.items():
        shown = ", ".join(f"{seed}: {value:.1f}" for seed, value in values.items())
        gaps = {
            seed: value - means["grpo"][seed]
            for seed, value in values.items()
            if seed in means.get("grpo", {})
        }
        versus = ", ".join(f"{seed}: {gap:+.1f}" for seed, gap in gaps.items()) if name != "grpo" else ""
        print(f"| {NAMES[name]} | {shown} | {versus} |")


def phase_table(study: dict[str, Any]) -> None:
    """Where the time went, over all runs."""
    rows = [row for run in study["runs"] for row in run["curve"] if "seconds/update" in row]
    if not rows:
        return
    total = sum(row["seconds"] for row in rows)
    parts = [f"{phase} {sum(row[f'seconds/{phase}'] for row in rows) / total:.0%}" for phase in PHASES]
    print(
        f"\nTime by phase over {len(rows)} iterations ({total:.0f} s): {', '.join(parts)} (generate is within rollout)"
    )


def picture(study: dict[str, Any], path: Path) -> None:
    """Success while training (mean over seeds of the last four iterations; thin: single seeds) per estimator."""
    from matplotlib.figure import Figure

    panels = studies(study)
    figure = Figure(figsize=(3.9 * len(panels) + 1.5, 4), layout="constrained")
    for axes, (history, rate) in zip(np.atleast_1d(figure.subplots(1, len(panels), sharey=True)), panels):
        for name, members in whole(arms(study["runs"], history, rate)).items():
            curves = []
            for values in (100 * np.array(curve) for curve in members.values()):
                curves.append([np.mean(values[max(0, at - 3) : at + 1]) for at in range(len(values))])
            length = min(map(len, curves))
            x = np.arange(1, length + 1)
            mean = np.mean([curve[:length] for curve in curves], 0)
            (line,) = axes.plot(x, mean, label=NAMES[name], color=f"C{list(NAMES).index(name)}", linewidth=2)
            for curve in curves:
                axes.plot(x, curve[:length], color=line.get_color(), alpha=0.25, linewidth=1)
        axes.set_title(f"K = {history}, learning rate {rate:g}", fontsize=10)
        axes.set_xlabel("iteration")
        axes.grid(alpha=0.3)
        axes.legend(fontsize=8)
        axes.set_ylabel("success on training games, temperature 1, %")
        axes.label_outer()
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("results", nargs="?", type=Path, default=HERE / "results.json")
    parser.add_argument(
        "--picture", type=Path, default=HERE.parents[1] / "docs" / "images" / "alfworld-study.png"
    )
    args = parser.parse_args()
    study = json.loads(args.results.read_text())
    for history, rate in studies(study):
        for split in study["warm"][f"warm-k{history}"]["evaluations"]:
            success_table(study, history, rate, split)
        training_table(study, history, rate)
    phase_table(study)
    picture(study, args.picture)


if __name__ == "__main__":
    main()
