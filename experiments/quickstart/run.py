"""Estimators in the quick start: a learning rate for each by the same small sweep, then fresh seeds at equal rollouts.

    python experiments/quickstart/run.py --processes 15 iterations=40

Phase `sweep` trains every arm with every rate on the sweep seeds. The rate of an arm is the one with the highest
success while training (mean over the last ten iterations and the sweep seeds, the smaller rate if two are equal); the
panel of held-out tasks has no say in it. Phase `final` trains every arm with its rate on the final seeds. Without rates
(`--rates ''`) there is no sweep and all arms train with the preset's.

Each run is one process with one thread on the CPU. The warm start of a seed is made once and shared by all its runs.
What is known of a run is written to OUT/study.json when it ends (one line a run). Runs in there are not made again,
whether their folders are still there or not; those that a time limit (`--minutes`, per phase) stopped go on when the
command is given again. Exit code 3: stopped by the limit, or a run failed.

Arms are estimators with their published settings (`--estimators`), and any others by settings
(`--arm NAME:key=value,key=value`). Settings of all runs are given as key=value, for example iterations=40.
`plot.py OUT/study.json` makes the tables and the picture.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from commands import finished, hgpo

from hgpo.files import write_text
from hgpo.runs.folder import RunFolder
from hgpo.runs.folder.run import success_key

ESTIMATORS = "grpo,gigpo,hgpo,g2po,hgpo_lambda"
ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "RAYON_NUM_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "CUDA_VISIBLE_DEVICES": "",
}
LAST = 10
"""Iterations at the end of a run by whose success a rate is chosen."""
LEAST = 0.5
"""Minutes that a run is not started for any more."""

Found = dict[str, Any]


@dataclass(frozen=True)
class Job:
    """One run of the study."""

    phase: str
    arm: str
    seed: int
    rate: float | None
    """Learning rate; None for the preset's."""
    settings: tuple[str, ...]

    @property
    def name(self) -> str:
        """Its folder."""
        rate = "" if self.rate is None else f"-lr{self.rate:g}"
        return f"{self.phase}-{self.arm}{rate}-seed{self.seed}"


@dataclass
class Study:
    """What the command was asked for, and what is known so far."""

    preset: str
    common: list[str]
    split: str
    folder: Path
    runs: dict[str, Found] = field(default_factory=dict)
    chosen: dict[str, float] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def file(self) -> Path:
        """Where everything is written."""
        return self.folder / "study.json"

    def read(self) -> None:
        """Take over what an earlier command found with the same settings."""
        if not self.file.exists():
            return
        before = json.loads(self.file.read_text())
        if (before["preset"], before["settings"]) != (self.preset, self.common):
            raise SystemExit(
                f"{self.file} is of {before['preset']} {' '.join(before['settings'])}; this command says "
                f"{self.preset} {' '.join(self.common)}. Choose another --out."
            )
        self.runs = {run["name"]: run for run in before["runs"]}
        self.chosen = before["rates"]

    def write(self) -> None:
        """One line a run, whole or not at all."""
        lines = ",\n ".join(json.dumps(run) for _, run in sorted(self.runs.items()))
        head = {
            "preset": self.preset,
            "settings": self.common,
            "split": self.split,
            "rule": f"highest success while training, mean of the last {LAST} iterations and the sweep seeds",
            "rates": self.chosen,
        }
        write_text(self.file, f'{json.dumps(head)[:-1]}, "runs": [{lines}]}}\n')

    def start(self, seed: int) -> Path:
        """The warm start of a seed."""
        model = self.folder / f"start-seed{seed}"
        words = ["sft", self.preset, *self.common, f"seed={seed}", "threads=1", "--out", str(model)]
        if not model.exists() and hgpo(words, self.folder / f"start-seed{seed}.txt", **ONE_THREAD):
            raise SystemExit(f"The warm start of seed {seed} failed; its log is beside {model}.")
        return model

    def run(self, job: Job, deadline: float) -> bool:
        """Train a run to its end or until the deadline; whether it came to its end."""
        if job.name in self.runs:
            return True
        folder, began = self.folder / job.name, time.monotonic()
        left = (deadline - began) / 60
        if left < LEAST:
            return False
        words = [
            f"model={self.folder / f'start-seed{job.seed}'}",
            "warm.episodes=0",
            f"seed={job.seed}",
            "threads=1",
        ]
        rate = [] if job.rate is None else [f"update.lr={job.rate:g}"]
        limit = ["--max-minutes", f"{left:.2f}", "--run", str(folder), "--resume"]
        words = ["train", self.preset, *self.common, *job.settings, *words, *rate, *limit]
        if hgpo(words, self.folder / f"{job.name}.txt", **ONE_THREAD) or not finished(folder):
            return False
        found = reading(job, folder, self.split)
        with self.lock:
            self.runs[job.name] = found
            self.write()
        print(
            f"{job.name}: {found['evaluated'][0][1]:.1%} -> {found['evaluated'][-1][1]:.1%}, "
            f"{time.monotonic() - began:.0f} s",
            flush=True,
        )
        return True

    def all(self, jobs: Sequence[Job], processes: int, minutes: float) -> bool:
        """Train all runs, `processes` at a time; whether all came to their end in time."""
        deadline = time.monotonic() + 60 * minutes
        with ThreadPoolExecutor(processes) as pool:
            missing = {job.seed for job in jobs if job.name not in self.runs}
            list(pool.map(self.start, sorted(missing)))
            return all(list(pool.map(lambda job: self.run(job, deadline), jobs)))


def reading(job: Job, folder: Path, split: str) -> Found:
    """What the study keeps of a finished run."""
    rows, results = RunFolder(folder).metrics(), RunFolder(folder).results() or {}
    played = [row for row in rows if row["iteration"] > 0]

    def curve(panel: str) -> list[list[Any]]:
        key = success_key(panel)
        return [[row["iteration"], round(row[key], 4)] for row in rows if key in row]

    panels = RunFolder(folder).description().panels
    return {
        "name": job.name,
        "phase": job.phase,
        "arm": job.arm,
        "seed": job.seed,
        "rate": job.rate,
        "settings": list(job.settings),
        "evaluated": curve(split),
        "others": {panel: curve(panel) for panel in panels if panel != split},
        "played": [round(row["success"], 4) for row in played],
        "entropy": [round(row["entropy"], 4) for row in played],
        "seconds": round(sum(row["seconds"] for row in played), 1),
        "versions": results.get("versions", {}),
        "commit": results.get("commit", ""),
    }


def choose(runs: Mapping[str, Found], arms: Mapping[str, Any], rates: Sequence[float]) -> dict[str, float]:
    """The rate of every arm: the highest success at the end of training, over the sweep's runs."""

    def late(arm: str, rate: float) -> float:
        ends = [
            sum(run["played"][-LAST:]) / len(run["played"][-LAST:])
            for run in runs.values()
            if (run["phase"], run["arm"], run["rate"]) == ("sweep", arm, rate)
        ]
        return sum(ends) / len(ends)

    return {arm: max(sorted(rates), key=lambda rate: late(arm, rate)) for arm in arms}


def numbers(text: str, kind: type) -> list[Any]:
    """Numbers separated by commas."""
    return [kind(word) for word in text.split(",") if word]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("settings", nargs="*", metavar="key=value", help="settings of all runs")
    parser.add_argument("--preset", default="quickstart")
    parser.add_argument("--estimators", default=ESTIMATORS, help="empty: only the --arm ones")
    parser.add_argument("--arm", action="append", default=[], metavar="NAME:key=value,...")
    parser.add_argument("--rates", default="1e-4,3e-4,1e-3", help="learning rates of the sweep")
    parser.add_argument("--sweep-seeds", default="21,22")
    parser.add_argument("--seeds", default="11,12,13,14,15", help="of the final runs")
    parser.add_argument("--phases", default="sweep,final")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--minutes", type=float, default=60.0, help="time limit of each phase")
    parser.add_argument("--out", default="runs/quickstart-study", type=Path)
    parser.add_argument("--split", default="in-domain")
    args = parser.parse_args()
    rates, sweep_seeds, seeds = (
        numbers(args.rates, float),
        numbers(args.sweep_seeds, int),
        numbers(args.seeds, int),
    )
    if set(sweep_seeds) & set(seeds):
        raise SystemExit("The seeds of the sweep and of the final runs must differ.")
    arms: dict[str, tuple[str, ...]] = {
        name: (f"estimator={name}",) for name in args.estimators.split(",") if name
    }
    for arm in args.arm:
        name, _, words = arm.partition(":")
        arms[name] = tuple(word for word in words.split(",") if word)
    args.out.mkdir(parents=True, exist_ok=True)
    study = Study(args.preset, args.settings, args.split, args.out)
    study.read()
    jobs: list[Job] = []
    if rates and "sweep" in args.phases.split(","):
        jobs = [
            Job("sweep", arm, seed, rate, words)
            for seed in sweep_seeds
            for arm, words in arms.items()
            for rate in rates
        ]
        if not study.all(jobs, args.processes, args.minutes):
            return unfinished("sweep")
    if rates:
        wanted = {(arm, rate, seed) for arm in arms for rate in rates for seed in sweep_seeds}
        known = {
            (run["arm"], run["rate"], run["seed"]) for run in study.runs.values() if run["phase"] == "sweep"
        }
        if wanted - known:
            return unfinished("sweep")
        study.chosen |= choose(study.runs, arms, rates)
        study.write()
        print("rates:", ", ".join(f"{arm} {study.chosen[arm]:g}" for arm in arms), flush=True)
    if "final" in args.phases.split(","):
        jobs = [
            Job("final", arm, seed, study.chosen.get(arm), words)
            for seed in seeds
            for arm, words in arms.items()
        ]
        if not study.all(jobs, args.processes, args.minutes):
            return unfinished("final")
    return 0


def unfinished(phase: str) -> int:
    """Say how to go on."""
    print(f"The phase {phase} is not finished; the same command given again goes on.", flush=True)
    return 3


if __name__ == "__main__":
    sys.exit(main())
