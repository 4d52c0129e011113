"""Which learning rate the study trains with, by a rule fixed beforehand.

    python experiments/alfworld/tune.py --data games_compact.jsonl.xz --model results/alfworld/warm-k2 \
        --out results/alfworld/tune --processes 6

For every rate one short run of each estimator given, all on the same tasks, with a seed that the study does not use.
The rate with the highest success while training, over the second half of the iterations and all its estimators, is
written to `chosen.json` and printed. Nothing is read from the panels that the study is evaluated on.
"""

from __future__ import annotations

import argparse
import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from commands import finished, hgpo


def curve(run: Path) -> list[float]:
    """Success while training, iteration by iteration."""
    path = run / "metrics.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []
    return [row["success"] for row in rows if row["iteration"] > 0]


def choose(curves: dict[str, dict[str, list[float]]]) -> tuple[str, dict[str, float]]:
    """The best rate and what each scored: mean success over the second half of the iterations all runs have."""
    length = min((len(one) for members in curves.values() for one in members.values()), default=0)
    if not length:
        raise SystemExit("No run has finished an iteration; see the logs beside the runs.")
    scores = {
        rate: sum(sum(one[length // 2 : length]) / (length - length // 2) for one in members.values())
        / len(members)
        for rate, members in curves.items()
    }
    return max(scores, key=lambda rate: scores[rate]), scores


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("settings", nargs="*", metavar="key=value", help="settings of all runs")
    parser.add_argument("--preset", default="alfworld-smollm2")
    parser.add_argument("--data", required=True, help="ALFWorld games (see docs/environments.md)")
    parser.add_argument("--model", required=True, help="the warm start")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--rates", default="5e-6,1.5e-5,5e-5")
    parser.add_argument("--estimators", default="grpo,hgpo")
    parser.add_argument("--iterations", type=int, default=8)
    parser.add_argument("--seed", type=int, default=100)
    parser.add_argument("--processes", type=int, default=1, help="runs side by side")
    args = parser.parse_intermixed_args()
    arms = [(rate, name) for rate in args.rates.split(",") for name in args.estimators.split(",")]

    def one(arm: tuple[str, str]) -> int:
        rate, name = arm
        folder = args.out / f"{rate}-{name}"
        if finished(folder):
            return 0
        words = [
            "train", args.preset, f"env.data={args.data}", f"model={args.model}", "warm.episodes=0",
            f"estimator={name}", f"seed={args.seed}", f"iterations={args.iterations}", "eval.every=0",
            "rollout.keep_every=0", *args.settings, f"update.lr={rate}", "--run", str(folder), "--resume",
        ]  # fmt: skip
        return hgpo(words, folder / "log.txt")

    with ThreadPoolExecutor(args.processes) as pool:
        failed = max(pool.map(one, arms))
    curves = {
        rate: {name: curve(args.out / f"{rate}-{name}") for name in args.estimators.split(",")}
        for rate in args.rates.split(",")
    }
    chosen, scores = choose(curves)
    content = {"chosen": chosen, "scores": scores, "seed": args.seed, "curves": curves}
    (args.out / "chosen.json").write_text(json.dumps(content, indent=1) + "\n")
    for rate, score in scores.items():
        print(f"{rate}: {score:.1%}" + ("  <- chosen" if rate == chosen else ""))
    return failed


if __name__ == "__main__":
    sys.exit(main())
