"""Several estimators on the same language model and tasks, at equal rollouts, several runs side by side on one GPU.

    python experiments/alfworld/run.py all --data data/alfworld/games.jsonl.xz --model models/smollm2-135m-instruct \
        --out results/alfworld --processes 6 iterations=20 eval.every=0 update.micro_tokens=16384
    python experiments/alfworld/run.py warm|train|eval|collect ...          # one stage of it

All runs start from one warm start per history length; `key=value` settings hold for it, too. Arms are estimators with
their own settings (`--estimators`) and any others by what they set (`--arm NAME:key=value,key=value`); a preset may be
the path of a TOML file. A run that has ended is evaluated at once on both panels, at two temperatures and under three
sampling seeds, while others still train. Everything can be stopped and started again with the same command: finished
runs and evaluations are kept, unfinished runs go on from their checkpoint; `--minutes` ends a slice in good time.
`collect` writes results.json (settings, curves, time by phase, evaluations; no weights) for
plot.py. On an NVIDIA card start its MPS daemon first, or the processes take turns.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from commands import finished, hgpo

from hgpo.files import write_text
from hgpo.models.folder import model_settings
from hgpo.runs.folder import RunFolder

SEEDS = "123,456,789"
CURVE = (
    "iteration", "success", "return", "score", "episode_length", "steps", "inadmissible_share", "malformed_share",
    "seconds", "seconds/rollout", "seconds/generate", "seconds/estimate", "seconds/update", "seconds/eval",
    "prompt_tokens", "response_tokens", "train/rows", "train/tokens", "train/tokens_per_second",
    "train/padding_share", "train/distinct_prompt_share", "rollout/padding_share", "estimator/advantage/zero_share",
    "estimator/advantage/penalty_share", "loss/policy", "loss/kl", "kl_old", "clip_share", "entropy",
    "action_disagreement", "grad_norm", "lr", "eval/in-domain/success", "eval/out-of-domain/success",
    "eval/validation/success",
)  # fmt: skip


class Study:
    """Where the runs of a study lie and the commands that make them."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args, self.out = args, args.out
        self.data = [f"env.data={args.data}"] if args.data else []
        self.deadline = time.monotonic() + 60 * args.minutes

    def warm_folder(self, history: str) -> Path:
        return self.out / f"warm-k{history}"

    def runs(self) -> dict[str, list[str]]:
        """Folder name and settings of every run asked for; seeds outermost: early slices hold whole comparisons."""
        args, words_by_run = self.args, {}
        for seed in args.seeds.split(","):
            for history in args.histories.split(","):
                for name, words in self.arms().items():
                    # The study's own words last, so that settings of the warm start do not warm a run up again.
                    words_by_run[f"k{history}-{name}-seed{seed}"] = [
                        args.preset, *args.settings, *words, *self.data,
                        f"model={self.warm_folder(history)}", "warm.episodes=0", f"history_length={history}",
                        f"seed={seed}",
                    ]  # fmt: skip
        return words_by_run

    def arms(self) -> dict[str, list[str]]:
        """What is compared: a name and the settings that make it."""
        arms = {name: [f"estimator={name}"] for name in self.args.estimators.split(",") if name}
        for arm in self.args.arm:
            name, _, words = arm.partition(":")
            if not name.replace("_", "").isalnum() or name in arms:
                raise SystemExit(
                    f"--arm {arm}: expected NAME:key=value,..., with a name of letters of its own"
                )
            arms[name] = words.split(",") if words else []
        return arms

    def warm(self, history: str) -> int:
        """Clone the expert, once per history length."""
        folder = self.warm_folder(history)
        if (folder / "config.json").is_file():
            return 0
        words = ["sft", self.args.preset, *self.data, f"model={self.args.model}"]
        words += [f"history_length={history}", *self.args.settings, "--out", str(folder)]
        return hgpo(words, self.out / "logs" / f"{folder.name}.txt")

    def train(self, name: str) -> int:
        """Train one run until done or out of time."""
        folder = self.out / name
        left = (self.deadline - time.monotonic()) / 60
        if finished(folder) or left < 0.5:
            return 0
        start = time.monotonic()
        words = [
            "train",
            *self.runs()[name],
            "--run",
            str(folder),
            "--resume",
            "--max-minutes",
            f"{left:.2f}",
        ]
        code = hgpo(words, folder / "log.txt", attempts=2)
        if not code:
            result = RunFolder(folder).results()
            print(
                f"{name}: {result['ended']} after {result['iterations']} iterations, "
                f"{time.monotonic() - start:.0f} s",
                flush=True,
            )
        if self.args.lean and finished(folder):
            shutil.rmtree(RunFolder(folder).checkpoint_parent, ignore_errors=True)
        return code

    def evaluate(self, name: str) -> int:
        """Evaluate a warm start, or a policy of a run that has ended (`--checkpoint`), on all panels."""
        folder = self.out / name
        is_run = name in self.runs()
        ended = RunFolder(folder).results() is not None if self.args.any else finished(folder)
        if is_run and not ended:
            return 0
        logs = self.out / "evaluations" / name
        temperatures, splits = self.args.temperatures.split(","), self.args.splits.split(",")
        wanted = {panel_name(split, float(one)) for split in splits for one in temperatures}
        if wanted <= evaluations(logs).keys():
            return 0
        # All in one process: it reads the model once.
        words = ["eval", str(folder), "--split", ",".join(splits), "--temperature", ",".join(temperatures)]
        words += ["--seeds", SEEDS, "--tasks", str(self.args.tasks), "--logs", str(logs), *self.data]
        words += ["--checkpoint", self.args.checkpoint] if is_run else []
        return hgpo(words, self.out / "logs" / f"eval-{name}.txt", attempts=2)

    def both(self, name: str) -> int:
        """Train a run and evaluate it; a warm start is only evaluated."""
        return (name in self.runs() and self.train(name)) or self.evaluate(name)


def side_by_side(study: Study, job: Callable[[str], int], names: list[str]) -> int:
    """Run `job` for all names, as many at a time as asked for; the worst exit code."""
    with ThreadPoolExecutor(study.args.processes) as pool:
        return max(pool.map(job, names), default=0)


def carry_out(study: Study) -> int:
    """The stage that was asked for."""
    histories = study.args.histories.split(",")
    warms, runs = [study.warm_folder(one).name for one in histories], list(study.runs())
    stage, failed = study.args.stage, 0
    if stage in ("warm", "all"):
        failed = side_by_side(study, study.warm, histories)
    if stage == "train":
        failed = side_by_side(study, study.train, runs)
    if stage == "eval":
        failed = side_by_side(study, study.evaluate, [*warms, *runs])
    if stage == "all" and not failed:
        failed = side_by_side(study, study.both, [*runs, *warms])
    if stage in ("collect", "all"):
        collect(study.out)
    return failed


def collect(out: Path) -> None:
    """Gather what all runs left into one JSON file without weights or texts."""
    runs: list[dict[str, Any]] = []
    for path in sorted(out.glob("k*-seed*")):
        run, name = RunFolder(path), path.name
        if not run.exists():
            continue
        stored = run.description()
        history, arm, seed = name.split("-")
        results = run.results()
        runs.append(
            {
                "run": name,
                "arm": arm,
                "estimator": stored.config["estimator"]["name"],
                "history_length": int(history[1:]),
                "seed": int(seed[4:]),
                "ended": results["ended"] if results is not None else "unfinished",
                "config": without_paths(stored.config),
                "panels": {split: panel.content() for split, panel in stored.panels.items()},
                "curve": [{key: row[key] for key in CURVE if key in row} for row in run.metrics()],
                "evaluations": evaluations(out / "evaluations" / name),
            }
        )
    warms = {
        path.name: {
            "config": without_paths(model_settings(path)),
            "evaluations": evaluations(out / "evaluations" / path.name),
        }
        for path in sorted(out.glob("warm-k*"))
        if model_settings(path) is not None
    }
    write_text(out / "results.json", json.dumps({"warm": warms, "runs": runs}, indent=1) + "\n")
    print(f"{len(runs)} runs in {out / 'results.json'}")


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
    """What `hgpo eval` said, by split and temperature, without the machine it ran on."""
    kept = (
        "success", "success_std_over_seeds", "success_interval_95", "success_by_seed", "success_by_type", "score",
        "steps", "unsolved", "episodes", "iteration", "seconds", "panel", "protocol",
    )  # fmt: skip
    by_panel = {}
    for path in sorted(folder.rglob("result_*.json")):
        content = json.loads(path.read_text())
        name = panel_name(content["panel"]["split"], content["protocol"]["temperature"])
        by_panel[name] = {key: content[key] for key in kept if key in content}
    return by_panel


def panel_name(split: str, temperature: float) -> str:
    """What an evaluation is called in results.json."""
    return f"{split}, temperature {temperature}"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("stage", choices=["all", "warm", "train", "eval", "collect"])
    parser.add_argument(
        "settings", nargs="*", metavar="key=value", help="settings of the warm start and of all runs"
    )
    parser.add_argument("--preset", default="alfworld-smollm2")
    parser.add_argument("--data", help="ALFWorld games (default: where hgpo data puts them)")
    parser.add_argument("--model", help="warm: the model to clone into, a folder or hub id")
    parser.add_argument("--out", type=Path, default=Path("results/alfworld"))
    parser.add_argument(
        "--estimators", default="grpo,gigpo,hgpo,hgpo_lambda", help="comma-separated; may be empty"
    )
    parser.add_argument(
        "--arm", action="append", default=[], metavar="NAME:key=value,...", help="one more arm"
    )
    parser.add_argument("--histories", default="2", help="history lengths K, comma-separated")
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--tasks", type=int, default=0, help="eval: games of a panel (default: all)")
    parser.add_argument("--splits", default="in-domain,out-of-domain", help="eval: which panels")
    parser.add_argument("--temperatures", default="1.0,0.4", help="eval: as trained, and as published")
    parser.add_argument(
        "--checkpoint",
        default="last",
        help="eval: which policy of a run, last (default) or best (by the first split of eval.splits)",
    )
    parser.add_argument("--processes", type=int, default=1, help="runs side by side")
    parser.add_argument(
        "--minutes", type=float, default=1e6, help="train: end the slice after so many minutes"
    )
    parser.add_argument("--any", action="store_true", help="eval: also runs that are not finished")
    parser.add_argument("--lean", action="store_true", help="train: delete the checkpoints of finished runs")
    return carry_out(Study(parser.parse_intermixed_args()))


if __name__ == "__main__":
    sys.exit(main())
