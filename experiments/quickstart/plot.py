"""Table and picture of the recorded study in results.json.

python experiments/quickstart/plot.py            # prints the table, writes docs/images/quickstart-study.png
python experiments/quickstart/plot.py my/results.json --picture curves.png
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np

from hgpo.runs.statistics import over_runs

HERE = Path(__file__).resolve().parent
NAMES = {
    "hgpo_lambda": "HGPO-lambda",
    "hgpo": "HGPO, published settings",
    "gigpo": "GiGPO",
    "grpo": "GRPO",
}


def interval(values: np.ndarray) -> tuple[float, float]:
    """Mean and half width of its 95% interval over seeds."""
    interval = over_runs(values.tolist())
    return interval["mean"], interval["high"] - interval["mean"]


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
    curves = {
        arm: np.array(
            [[value for _, value in run["evaluated"]] for run in study["runs"] if run["arm"] == arm]
        )
        for arm in NAMES
    }
    iterations = [number for number, _ in study["runs"][0]["evaluated"]]
    first, last_one = iterations[1], iterations[-1]
    print(
        f"| estimator | start | iteration {first} | iteration {last_one} | gain, points | minus GRPO, points |"
    )
    print("| --- | --- | --- | --- | --- | --- |")
    for arm, name in NAMES.items():
        curve = curves[arm]
        last, half = interval(100 * curve[:, -1])
        gain, gain_half = interval(100 * (curve[:, -1] - curve[:, 0]))
        ahead, ahead_half = interval(100 * (curve[:, -1] - curves["grpo"][:, -1]))
        versus = "" if arm == "grpo" else f"{ahead:+.1f} ± {ahead_half:.1f}"
        print(
            f"| {name} | {100 * curve[:, 0].mean():.1f}% | {100 * curve[:, 1].mean():.1f}% | {last:.1f}% ± {half:.1f} "
            f"| {gain:+.1f} ± {gain_half:.1f} | {versus} |"
        )
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.add_subplot()
    for arm, name in NAMES.items():
        mean = 100 * curves[arm].mean(0)
        (line,) = axes.plot(iterations, mean, label=name, linewidth=2)
        for curve in 100 * curves[arm]:
            axes.plot(iterations, curve, color=line.get_color(), alpha=0.25, linewidth=1)
    axes.set_xlabel("iteration (16 tasks x 8 rollouts each)")
    axes.set_ylabel("success on 140 held-out tasks, %")
    axes.set_title(f"Quick start, mean of {len(curves['grpo'])} seeds (thin: single seeds)", fontsize=10)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
    figure.savefig(args.picture, dpi=110)


if __name__ == "__main__":
    main()
