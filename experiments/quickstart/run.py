"""The quick start under several estimators and seeds at equal rollouts, several runs at a time.

    python experiments/quickstart/run.py --estimators hgpo,gigpo,grpo --seeds 0,1,2 --processes 2 --out results

Each run is one process with one thread. Further arms (any settings) with --arm NAME:key=value,key=value. Runs that are
already finished in the output folder are kept, unfinished ones are resumed. Writes comparison.json, .html and
.png (where matplotlib is installed) and prints the table.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from commands import finished, hgpo

from hgpo.runs.folder import RunFolder


def one(folder: Path, preset: str, settings: list[str]) -> dict[str, object]:
    """Train one run in a process of its own."""
    if finished(folder):
        return RunFolder(folder).results() or {}
    words = ["train", preset, *settings, "threads=1", "--run", str(folder), "--resume"]
    start = time.monotonic()
    if hgpo(words, folder / "log.txt", OMP_NUM_THREADS="1", MKL_NUM_THREADS="1"):
        return {}
    result = RunFolder(folder).results() or {}
    part = result.get("in-domain", {})
    print(
        f"{folder.name}: {part.get('start', float('nan')):.1%} -> {part.get('last', float('nan')):.1%} "
        f"in {time.monotonic() - start:.0f} s",
        flush=True,
    )
    return result


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("settings", nargs="*", metavar="key=value", help="settings of all runs")
    parser.add_argument("--preset", default="quickstart")
    parser.add_argument("--estimators", default="hgpo,gigpo,grpo", help="empty: only the --arm ones")
    parser.add_argument("--arm", action="append", default=[], metavar="NAME:key=value,...")
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--out", default="results/quickstart", type=Path)
    parser.add_argument("--split", default="in-domain")
    args = parser.parse_args()
    arms = {name: [f"estimator={name}"] for name in args.estimators.split(",") if name}
    for arm in args.arm:
        name, _, words = arm.partition(":")
        arms[name] = [word for word in words.split(",") if word]
    jobs = [
        (args.out / f"{name}-seed{seed}", [*args.settings, *words, f"seed={seed}"])
        for seed in args.seeds.split(",")
        for name, words in arms.items()
    ]
    with ThreadPoolExecutor(args.processes) as pool:
        results = list(pool.map(lambda job: one(job[0], args.preset, job[1]), jobs))
    good = [str(folder) for (folder, _), result in zip(jobs, results) if result]
    from hgpo.runs.compare import compare, table_text
    from hgpo.runs.curves import write_html, write_png

    result = compare(good, args.split)
    # The arm's name says more than the generated one where settings other than the estimator differ.
    for group in result["groups"]:
        group["name"] = "/".join(sorted({Path(run).name.rpartition("-seed")[0] for run in group["runs"]}))
    (args.out / "comparison.json").write_text(json.dumps(result, indent=1) + "\n")
    write_html(result, args.out / "comparison.html")
    write_png(result, args.out / "comparison.png")
    print(table_text(result))
    return 0 if len(good) == len(jobs) else 1


if __name__ == "__main__":
    sys.exit(main())
