"""How long a report takes and how large its page is.

    python benchmarks/reports.py [--steps 100000] [--keep rollouts.parquet]

Rollouts are made up: 16 tasks x 8 rollouts an iteration in houses whose places are visited at random, prompts of
about 1,250 characters with two steps of history and a list of admissible actions. Prints a table and one JSON
line.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hgpo import StepBatch

PLACES = [
    "countertop",
    "cabinet",
    "drawer",
    "fridge",
    "shelf",
    "sinkbasin",
    "microwave",
    "garbagecan",
    "stoveburner",
]
THINGS = [
    "apple",
    "bread",
    "bowl",
    "cup",
    "egg",
    "fork",
    "knife",
    "lettuce",
    "mug",
    "pan",
    "plate",
    "potato",
    "spoon",
]
FORM = (
    "You are in a house and act in it by short text commands.\nYour task: {task}\nYou have taken {step} steps so far.\n"
    "{history}Now you see: {seen}\nCommands that work now:\n{commands}\nWrite exactly one command as "
    "<action>your command</action>."
)


def rollouts(steps: int, seed: int = 0) -> Iterator[dict[str, Any]]:
    """Rows of `steps` steps or a little more."""
    draw = random.Random(seed)
    made = iteration = 0
    while made < steps:
        iteration += 1
        for number in range(16):
            for row in _task(draw, iteration, number):
                made += 1
                yield row
            if made >= steps:
                return


def _task(draw: random.Random, iteration: int, number: int) -> Iterator[dict[str, Any]]:
    places = [f"{draw.choice(PLACES)} {draw.randint(1, 9)}" for _ in range(40)]
    inside = {place: draw.sample(THINGS, draw.randint(1, 4)) for place in places}
    wanted, goal = draw.choice(THINGS), draw.choice(places)
    task = f"put a {wanted} in {goal}."
    for rollout in range(8):
        length, won = draw.randint(12, 50), draw.random() < 0.4
        past: list[tuple[str, str]] = []
        seen = f"You are in the middle of a room. Looking quickly around you, you see {', '.join(places)}."
        for step in range(length):
            commands = [f"go to {place}" for place in places] + ["look", "inventory", f"take {wanted} 1"]
            action = draw.choice(commands)
            last = step == length - 1
            history = "".join(f"You saw: {a} You did: {b}\n" for a, b in past[-2:])
            yield {
                "task": f"house-{number}",
                "trajectory": f"house-{number}/{rollout}",
                "step": step,
                "observation": seen,
                "action": action,
                "reward": 10.0 if last and won else 0.0,
                "valid": draw.random() > 0.03,
                "done": last,
                "success": won,
                "prompt": FORM.format(
                    task=task,
                    step=step,
                    history=history,
                    seen=seen,
                    commands="\n".join(f"- {c}" for c in commands),
                ),
                "response": f"<think>{_thought(draw)}</think><action>{action}</action>",
                "admissible": commands,
                "task_type": ["pick", "look", "clean", "heat", "cool", "pick two"][number % 6],
                "iteration": iteration,
            }
            past.append((seen, action))
            place = action.removeprefix("go to ")
            things = inside.get(place)
            seen = f"On the {place}, you see {', '.join(things)}." if things else "Nothing happens."


def _thought(draw: random.Random) -> str:
    return " ".join(draw.choice(THINGS + PLACES + ["the", "then", "go", "look", "maybe"]) for _ in range(25))


def main() -> None:
    """Make rollouts, inspect them, print what it cost."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--keep", metavar="FILE", help="keep the made-up rollouts here")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(args.keep or Path(folder) / "rollouts.parquet")
        rows = list(rollouts(args.steps))
        # Trajectory names repeat between iterations, so each iteration is checked on its own when it is read.
        for row in rows:
            row["trajectory"] = f"{row['iteration']}/{row['trajectory']}"
        StepBatch.from_rows(rows).write(file)
        page, numbers = Path(folder) / "report.html", Path(folder) / "report.json"
        words = [
            sys.executable,
            "-m",
            "hgpo",
            "inspect",
            str(file),
            "--html",
            str(page),
            "--json",
            str(numbers),
        ]
        start = time.monotonic()
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
        seconds = time.monotonic() - start
        figures = {
            "steps": len(rows),
            "file_mb": round(file.stat().st_size / 1e6, 1),
            "seconds": round(seconds, 1),
            "page_mb": round(page.stat().st_size / 1e6, 1),
            "json_mb": round(numbers.stat().st_size / 1e6, 1),
        }
    for name, value in figures.items():
        print(f"{name:>10}  {value:,}")
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
