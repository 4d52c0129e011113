"""How fast the estimators are, against a literal version and against the floor of hashing the text once.

    python benchmarks/estimators.py                          # 5 thousand to 1 million steps
    python benchmarks/estimators.py --steps 5000 10000000    # others
    python benchmarks/estimators.py --literal-up-to 50000    # how far the slow version is run too

Every size runs in a process of its own, so peak memory is its own. `batch` is the time from columns to a StepBatch,
`estimate` from there to HGPO's advantages, returns and metrics included; `floor` is one look-up of every observation in
a dictionary, the least that grouping by text can cost. `lambda` is the same for HGPO-lambda, up to a million steps, and
`its floor` the sums it is made of and nothing else (see `lambda_floor`). Times are of the processor, so a busy machine
changes them little. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

GROUP, LENGTH, TEXT = 8, 40, 200
LAMBDA_UP_TO = 1_000_000
"""HGPO-lambda looks at the whole batch at once, so its memory grows with it."""


def columns(num_steps: int) -> dict[str, Any]:
    """Rollouts of a household-like world: few states per task, shared between its rollouts, 200 characters each."""
    rng = random.Random(0)
    names: dict[str, list[Any]] = {
        n: [] for n in ("task", "trajectory", "step", "observation", "action", "reward", "valid")
    }
    trajectory = 0
    while len(names["step"]) < num_steps:
        task = trajectory // GROUP
        if trajectory % GROUP == 0:
            states = [f"You are in room {rng.random()} of house {task}. ".ljust(TEXT, ".") for _ in range(30)]
        length = min(rng.randint(LENGTH // 2, LENGTH * 3 // 2), num_steps - len(names["step"]))
        won = rng.random() < 0.5
        at = 0
        for step in range(length):
            at = min(max(at + rng.choice((-1, 1, 1)), 0), len(states) - 1)
            names["task"].append(task)
            names["trajectory"].append(trajectory)
            names["step"].append(step)
            # A copy, as it would come from an environment: its hash is not known yet.
            names["observation"].append("".join(("", states[at][:-1], ".")))
            names["action"].append(f"go to {step % 4}")
            names["reward"].append(10.0 if won and step == length - 1 else 0.0)
            names["valid"].append(rng.random() < 0.95)
        trajectory += 1
    return names


def memory() -> float:
    """Peak resident memory of this process so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def lambda_floor(batch: Any, depth: int, sweeps: int = 5) -> float:
    """Seconds for the passes that HGPO-lambda cannot do without, on labels and values that are there already.

    By level, for contexts and for contexts with actions: one sort of the labels to find who met whom, and four sums to
    weigh the level. By sweep and level one mean, and by sweep one discounted sum over every trajectory.
    """
    import numpy as np

    from hgpo.estimators.returns import discounted_returns
    from hgpo.steps.labels import sorted_order

    order = batch.trajectories.order
    labels, values = batch.encoded("observation").codes[order], batch.rewards[order]
    started = time.process_time()
    for _ in range(2 * (depth + 1)):
        sorted_order(labels)
        for _ in range(4):
            np.bincount(labels, weights=values)
    for _ in range(sweeps + 1):
        for _ in range(depth + 1):
            np.bincount(labels, weights=values)[labels]
        discounted_returns(values, batch.trajectories, 0.5)
    return time.process_time() - started


def measure(num_steps: int, depth: int, literal: bool, repeats: int) -> dict[str, Any]:
    """One size, in this process."""
    from hgpo import StepBatch, estimate

    data = columns(num_steps)
    before = memory()
    best: dict[str, float] = {}
    peak = before
    for attempt in range(repeats + 1):  # the first one warms up
        started = time.process_time()
        batch = StepBatch.from_arrays(**data)
        made = time.process_time()
        result = estimate(batch, "hgpo", depth=depth)
        ended = time.process_time()
        peak = peak if attempt else memory()
        with_lambda, its_floor = 0.0, 0.0
        if num_steps <= LAMBDA_UP_TO:
            batch.encoded("action")
            began = time.process_time()
            estimate(batch, "hgpo_lambda", depth=depth)
            with_lambda = time.process_time() - began
            its_floor = lambda_floor(batch, depth)
        # Copies again: a string keeps its hash once it is known.
        texts = ["".join(("", text[:-1], ".")) for text in data["observation"]]
        table: dict[str, int] = {}
        hashing = time.process_time()
        for text in texts:
            table.setdefault(text, 0)
        floor = time.process_time() - hashing
        if attempt or repeats == 0:
            times = {
                "batch_s": made - started,
                "estimate_s": ended - made,
                "floor_s": floor,
                "lambda_s": with_lambda,
                "lambda_floor_s": its_floor,
            }
            best = {name: min(value, best.get(name, value)) for name, value in times.items()}
    row: dict[str, Any] = {
        "steps": num_steps,
        "depth": depth,
        **best,
        "steps_per_s": num_steps / (best["batch_s"] + best["estimate_s"]),
        "times_floor": (best["batch_s"] + best["estimate_s"]) / best["floor_s"],
        "input_mb": before,
        "peak_mb": peak,
        "mean_abs_advantage": float(abs(result.advantages).mean()),
    }
    if literal:
        from tests import oracle

        rows = [dict(zip(data, values)) for values in zip(*data.values())]
        started = time.perf_counter()
        expected, _ = oracle.hgpo(rows, depth=depth)
        row["literal_s"] = time.perf_counter() - started
        row["ratio"] = row["literal_s"] / (best["batch_s"] + best["estimate_s"])
        row["largest_difference"] = float(abs(result.advantages - expected).max())
    return row


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, nargs="+", default=[5_000, 50_000, 200_000, 1_000_000])
    parser.add_argument("--depth", type=int, default=4)
    parser.add_argument("--repeats", type=int, default=5, help="the best of this many is shown")
    parser.add_argument(
        "--literal-up-to", type=int, default=200_000, help="largest size for the literal version"
    )
    parser.add_argument("--only", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.only:
        repeats = args.repeats if args.only <= 1_000_000 else 1
        print(json.dumps(measure(args.only, args.depth, args.only <= args.literal_up_to, repeats)))
        return
    results = []
    print(f"HGPO, depth {args.depth}, observations of {TEXT} characters, one thread")
    print(
        "      steps     batch  estimate   steps/s  x floor   input    peak    lambda  its floor   literal    ratio"
    )
    for size in args.steps:
        words = [sys.executable, __file__, "--only", str(size), "--depth", str(args.depth)]
        words += ["--repeats", str(args.repeats), "--literal-up-to", str(args.literal_up_to)]
        row = json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)
        results.append(row)
        slow = f"{row['literal_s']:8.2f}s {row['ratio']:7.0f}x" if "ratio" in row else ""
        print(
            f"{size:11,d} {row['batch_s'] * 1e3:7.1f}ms {row['estimate_s'] * 1e3:7.1f}ms "
            f"{row['steps_per_s'] / 1e6:7.2f}M {row['times_floor']:7.1f} {row['input_mb']:6.0f}M "
            f"{row['peak_mb']:6.0f}M {row['lambda_s'] * 1e3:7.1f}ms {row['lambda_floor_s'] * 1e3:8.1f}ms {slow}",
            flush=True,
        )
    print(json.dumps({"benchmark": "estimators", "results": results}))


if __name__ == "__main__":
    main()
