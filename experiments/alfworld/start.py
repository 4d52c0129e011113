"""A start from which reinforcement learning has something to do: the best clone that solves at most a quarter.

    python experiments/alfworld/start.py --model models/qwen2.5-coder-1.5b-instruct --episodes 10,20,30 \
        --most 25 --out results/fair --processes 2

Clones the expert from each of these numbers of episodes, plays the in-domain panel once with every clone, at the
temperature of the published runs, and makes the best one that solves at most `--most` percent the warm start of the
study in OUT (`warm-k4`, which run.py takes from there). OUT/starts.json has what all of them solved. The same command
goes on where it was stopped. Exit code 3: every clone solves more, or one failed.
"""

from __future__ import annotations

import argparse
import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from commands import hgpo

from hgpo.files import write_text
from hgpo.runs.folder import EvaluationFolder

SPLIT, SEED, TEMPERATURE = "in-domain", "123", "0.4"
KEPT = (
    "success",
    "success_interval_95",
    "success_by_type",
    "steps",
    "unsolved",
    "episodes",
    "panel",
    "protocol",
)

Found = dict[str, Any]


def measured(args: argparse.Namespace, episodes: int) -> Found | None:
    """Clone from so many episodes and play the panel; None if one of the two failed."""
    folder = args.out / "starts" / str(episodes)
    data, history = [f"env.data={args.data}"] if args.data else [], f"history_length={args.history}"
    if not (folder / "config.json").is_file():
        words = ["sft", args.preset, *data, f"model={args.model}", history, *args.settings]
        words += [f"warm.episodes={episodes}", "--out", str(folder)]
        if hgpo(words, args.out / "logs" / f"start-{episodes}.txt", attempts=2):
            return None
    logs = args.out / "starts" / f"{episodes}-played"
    result = EvaluationFolder(logs).result_file(SPLIT)
    if not result.is_file():
        words = ["eval", str(folder), "--split", SPLIT, "--seeds", SEED, "--temperature", TEMPERATURE]
        words += ["--tasks", str(args.tasks), "--logs", str(logs), *data]
        if hgpo(words, args.out / "logs" / f"start-{episodes}-played.txt", attempts=2):
            return None
    content = json.loads(result.read_text())
    return {"episodes_cloned": episodes, **{key: content[key] for key in KEPT if key in content}}


def best(starts: list[Found], most: float) -> Found | None:
    """Of the clones that solve at most `most` percent the one that solves most; of equals the one cloned from less."""
    fair = [one for one in starts if 100 * one["success"] <= most]
    return max(fair, key=lambda one: (one["success"], -one["episodes_cloned"]), default=None)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("settings", nargs="*", metavar="key=value", help="settings of all clones")
    parser.add_argument("--preset", default="alfworld-1.5b")
    parser.add_argument(
        "--data", help="ALFWorld games (default: those of the preset; see hgpo data alfworld)"
    )
    parser.add_argument("--model", required=True, help="the model to clone into, a folder or hub id")
    parser.add_argument("--episodes", default="10,20,30", help="comma-separated")
    parser.add_argument("--most", type=float, default=25.0, help="percent solved, at most")
    parser.add_argument("--tasks", type=int, default=0, help="games of the panel (default: all)")
    parser.add_argument("--history", default="4", help="history length K")
    parser.add_argument("--out", type=Path, default=Path("results/fair"))
    parser.add_argument("--processes", type=int, default=1, help="clones side by side")
    args = parser.parse_intermixed_args()

    warm = args.out / f"warm-k{args.history}"
    if warm.exists():
        print(f"{warm} is there already; remove it to choose again.")
        return 0
    with ThreadPoolExecutor(args.processes) as pool:
        found = list(pool.map(lambda one: measured(args, int(one)), args.episodes.split(",")))
    starts = [one for one in found if one is not None]
    chosen = best(starts, args.most)
    record = {
        "split": SPLIT,
        "temperature": float(TEMPERATURE),
        "seeds": [int(SEED)],
        "most": args.most,
        "chosen": chosen and chosen["episodes_cloned"],
        "starts": starts,
    }
    write_text(args.out / "starts.json", json.dumps(record, indent=1) + "\n")
    for one in starts:
        low, high = one["success_interval_95"]
        mark = "  <- the start" if one is chosen else ""
        print(
            f"{one['episodes_cloned']:5d} episodes: {one['success']:6.1%}  [{low:.1%}, {high:.1%}] of "
            f"{one['episodes']} games{mark}"
        )
    if len(starts) < len(found):
        return 3
    if chosen is None:
        print(f"Every clone solves more than {args.most:g}%. Give smaller numbers to --episodes.")
        return 3
    (args.out / "starts" / str(chosen["episodes_cloned"])).rename(warm)
    return 0


if __name__ == "__main__":
    sys.exit(main())
