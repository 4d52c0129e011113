"""Several estimators on the same language model and tasks, at equal rollouts, several runs side by side on one GPU.

    python experiments/alfworld/run.py warm  --data games_compact.jsonl.xz --model models/smollm2 --out results/alfworld
    python experiments/alfworld/run.py train --data games_compact.jsonl.xz --out results/alfworld --processes 4
    python experiments/alfworld/run.py eval  --data games_compact.jsonl.xz --out results/alfworld --processes 4
    python experiments/alfworld/run.py collect --out results/alfworld
    python experiments/alfworld/run.py all --data ... --model ... --out ... --processes 6     # the four in turn

All runs start from one warm start per history length. Everything can be stopped and started again: finished runs and
evaluations are kept, unfinished runs go on from their checkpoint; `--minutes` ends a slice in good time. `collect`
writes results.json (settings, curves, time by phase, evaluations; no weights) for plot.py.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from commands import finished, hgpo

SEEDS = "123,456,789"
CURVE = (
    "iteration", "success", "return", "episode_length", "steps", "inadmissible_share", "malformed_share", "seconds",
    "seconds/rollout", "seconds/generate", "seconds/estimate", "seconds/update", "seconds/eval", "prompt_tokens",
    "response_tokens", "train/tokens", "train/tokens_per_second", "train/padding_share",
    "train/distinct_prompt_share", "rollout/padding_share",
    "kl_old", "clip_share", "entropy", "grad_norm", "lr", "eval/in-domain/success", "eval/out-of-domain/success",
)  # fmt: skip


def warm_folder(args: argparse.Namespace, history: str) -> Path:
    return args.out / f"warm-k{history}"


def runs(args: argparse.Namespace) -> dict[str, list[str]]:
    """Folder name and settings of every run asked for, seeds outermost so that early slices hold whole comparisons."""
    found = {}
    for seed in args.seeds.split(","):
        for history in args.histories.split(","):
            for name in args.estimators.split(","):
                found[f"k{history}-{name}-seed{seed}"] = [
                    args.preset, f"env.data={args.data}", f"model={warm_folder(args, history)}", "warm.episodes=0",
                    f"estimator={name}", f"history_length={history}", f"seed={seed}", *args.settings,
                ]  # fmt: skip
    return found


def warm(args: argparse.Namespace) -> int:
    """Clone the expert once per history length."""
    jobs = []
    for history in args.histories.split(","):
        folder = warm_folder(args, history)
        if not (folder / "config.json").is_file():
            words = [
                "sft",
                args.preset,
                f"env.data={args.data}",
                f"model={args.model}",
                f"history_length={history}",
            ]
            jobs.append((folder, [*words, *args.settings, "--out", str(folder)]))
    with ThreadPoolExecutor(args.processes) as pool:
        return max(
            pool.map(lambda job: hgpo(job[1], args.out / "logs" / f"{job[0].name}.txt"), jobs), default=0
        )


def train(args: argparse.Namespace) -> int:
    """Train all runs, as many at a time as asked for, until done or out of time."""
    deadline = time.monotonic() + 60 * args.minutes

    def one(item: tuple[str, list[str]]) -> int:
        name, words = item
        folder = args.out / name
        if finished(folder):
            return 0
        left = (deadline - time.monotonic()) / 60
        if left < 0.5:
            return 0
        start = time.monotonic()
        code = hgpo(
            ["train", *words, "--run", str(folder), "--resume", "--max-minutes", f"{left:.2f}"],
            folder / "log.txt",
        )
        if not code:
            result = json.loads((folder / "results.json").read_text())
            part = result.get("in-domain", {})
            print(
                f"{name}: {result['ended']} after {result['iterations']} iterations, "
                f"{part.get('start', float('nan')):.1%} -> {part.get('last', float('nan')):.1%}, "
                f"{time.monotonic() - start:.0f} s",
                flush=True,
            )
        if args.lean and finished(folder):
            shutil.rmtree(folder / "checkpoints", ignore_errors=True)
        return code

    with ThreadPoolExecutor(args.processes) as pool:
        return max(pool.map(one, runs(args).items()), default=0)


def ready(args: argparse.Namespace, folder: Path) -> bool:
    """Whether a run is to be evaluated: finished, or with `--any` stopped after whatever number of iterations."""
    return (folder / "results.json").is_file() if args.any else finished(folder)


def evaluate(args: argparse.Namespace) -> int:
    """Evaluate the warm starts and the last policy of every run on both panels under three sampling seeds."""
    targets = [
        (warm_folder(args, history).name, warm_folder(args, history)) for history in args.histories.split(",")
    ]
    targets += [(name, args.out / name) for name in runs(args) if ready(args, args.out / name)]

    def one(job: tuple[str, Path, str]) -> int:
        name, path, split = job
        logs = args.out / "evaluations" / name
        if (logs / f"result_{split}.json").is_file():
            return 0
        words = [
            "eval",
            str(path),
            "--split",
            split,
            "--seeds",
            SEEDS,
            "--logs",
            str(logs),
            f"env.data={args.data}",
            *args.settings,
        ]
        return hgpo(words, args.out / "logs" / f"eval-{name}-{split}.txt")

    with ThreadPoolExecutor(args.processes) as pool:
        return max(
            pool.map(
                one, [(name, path, split) for split in args.splits.split(",") for name, path in targets]
            ),
            default=0,
        )


def collect(args: argparse.Namespace) -> int:
    """Gather what all runs left into one JSON file without weights or texts."""
    found: list[dict[str, Any]] = []
    for path in sorted(args.out.glob("k*-seed*/config.json")):
        stored, name = json.loads(path.read_text()), path.parent.name
        history, estimator, seed = name.split("-")
        metrics = path.parent / "metrics.jsonl"
        lines = metrics.read_text().splitlines() if metrics.is_file() else []
        results = path.parent / "results.json"
        found.append(
            {
                "run": name,
                "estimator": estimator,
                "history_length": int(history[1:]),
                "seed": int(seed[4:]),
                "ended": json.loads(results.read_text())["ended"] if results.is_file() else "unfinished",
                "config": without_paths(stored["config"]),
                "panels": stored["panels"],
                "curve": [{key: row[key] for key in CURVE if key in row} for row in map(json.loads, lines)],
                "evaluations": evaluations(args.out / "evaluations" / name),
            }
        )
    warms = {
        path.name: {
            "config": without_paths(json.loads((path / "hgpo.json").read_text())["config"]),
            "evaluations": evaluations(args.out / "evaluations" / path.name),
        }
        for path in sorted(args.out.glob("warm-k*"))
        if (path / "hgpo.json").is_file()
    }
    (args.out / "results.json").write_text(json.dumps({"warm": warms, "runs": found}, indent=1) + "\n")
    print(f"{len(found)} runs in {args.out / 'results.json'}")
    return 0


def everything(args: argparse.Namespace) -> int:
    """All stages in turn; settings given here belong to training."""
    settings, args.settings = args.settings, []
    failed = warm(args)
    if not failed:
        args.settings = settings
        failed = train(args)
        args.settings = []
        failed = max(failed, evaluate(args), collect(args))
    return failed


def without_paths(config: dict[str, Any]) -> dict[str, Any]:
    """The settings with the folders of this machine shortened to their last part."""
    clean = json.loads(json.dumps(config))
    for section, key in (("model", "path"), ("env", "settings")):
        value = clean[section][key]
        if isinstance(value, str):
            clean[section][key] = Path(value).name
        elif "data" in value:
            value["data"] = Path(value["data"]).name
    return clean


def evaluations(folder: Path) -> dict[str, Any]:
    """What `hgpo eval` said, by split, without the machine it ran on."""
    kept = (
        "success", "success_std_over_seeds", "success_interval_95", "success_by_seed", "success_by_type", "steps",
        "episodes", "seconds", "panel", "protocol",
    )  # fmt: skip
    found = {}
    for path in sorted(folder.glob("result_*.json")):
        content = json.loads(path.read_text())
        found[path.stem.removeprefix("result_")] = {key: content[key] for key in kept}
    return found


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    stages = {"warm": warm, "train": train, "eval": evaluate, "collect": collect, "all": everything}
    parser.add_argument("stage", choices=stages)
    parser.add_argument("settings", nargs="*", metavar="key=value", help="settings of all runs of this stage")
    parser.add_argument("--preset", default="alfworld-smollm2")
    parser.add_argument("--data", help="ALFWorld games (see docs/environments.md)")
    parser.add_argument("--model", help="warm: the model to clone into, a folder or hub id")
    parser.add_argument("--out", type=Path, default=Path("results/alfworld"))
    parser.add_argument("--estimators", default="grpo,gigpo,hgpo,hgpo_lambda")
    parser.add_argument("--histories", default="2", help="history lengths K, comma-separated")
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--splits", default="in-domain,out-of-domain", help="eval: which panels")
    parser.add_argument("--processes", type=int, default=1, help="runs side by side")
    parser.add_argument(
        "--minutes", type=float, default=1e6, help="train: end the slice after so many minutes"
    )
    parser.add_argument("--any", action="store_true", help="eval: also runs that are not finished")
    parser.add_argument("--lean", action="store_true", help="train: delete the checkpoints of finished runs")
    args = parser.parse_intermixed_args()
    return stages[args.stage](args)


if __name__ == "__main__":
    sys.exit(main())
