"""How often scripted policies solve the household tasks, by task type.

    python benchmarks/household_expert.py --data data/alfworld/games.jsonl.xz     # 140 + 134 official games
    python benchmarks/household_expert.py                                   # generated houses of every size

Prints a table (solved/played, and the mean number of steps of all episodes) and one JSON line.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from hgpo.envs import make
from hgpo.envs.actors import actor
from hgpo.envs.household.house import TASK_TYPES


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", help="the compact file or $ALFWORLD_DATA; generated houses when left out")
    args = parser.parse_args()
    if args.data:
        worlds = {"alfworld": make("alfworld", data=args.data)}
    else:
        worlds = {size: make("household", size=size) for size in ("tiny", "small", "medium", "alfworld")}
    rows = [
        {"world": world, "split": split, "policy": policy, **solve(env, split, policy)}
        for world, env in worlds.items()
        for split in ("in-domain", "out-of-domain")
        for policy in ("expert", "random")
    ]
    heads = ["world", "split", "policy", "place", "light", "clean", "heat", "cool", "two", "all", "steps"]
    print("".join(f"{head:>14}" for head in heads))
    for row in rows:
        cells = [row["world"], row["split"], row["policy"], *(row[kind] for kind in TASK_TYPES), row["all"]]
        print("".join(f"{cell!s:>14}" for cell in [*cells, f"{row['steps']:.1f}"]))
    print(json.dumps(rows))


def solve(env: Any, split: str, name: str) -> dict[str, Any]:
    """Solved and played episodes by task type."""
    played = dict.fromkeys((*TASK_TYPES, "all"), 0)
    solved = dict(played)
    steps = 0
    policy = actor(name, env)
    for task in env.tasks(split):
        seen = env.reset(task)
        kind = seen.info["task_type"]
        policy.reset(seen)
        while not getattr(seen, "done", False):
            seen = env.step(policy.act(seen))
            steps += 1
        for key in (kind, "all"):
            played[key] += 1
            solved[key] += seen.success
    return {**{key: f"{solved[key]}/{played[key]}" for key in played}, "steps": steps / played["all"]}


if __name__ == "__main__":
    main()
