"""How often scripted policies solve the household tasks, by task type.

    python benchmarks/household_expert.py --data data/alfworld/games.jsonl.xz     # 140 + 134 official games
    python benchmarks/household_expert.py                                   # generated houses of every size
    python benchmarks/household_expert.py --data data/alfworld/games.jsonl.xz --memory 0,1,2,4,8

With `--memory` the expert forgets: before each command all that it knows is the task, the furniture, the last K steps
and what can be done now, as in a prompt; and once more with the status that `agent.show_status` adds to it. So the
table says what an agent that searches as the expert does can know, and what it cannot.

Prints a table (solved/played, and the mean number of steps of all episodes) and one JSON line.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import deque
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from hgpo.envs import make
from hgpo.envs.actors import actor
from hgpo.envs.household.expert import HouseholdExpert
from hgpo.envs.household.house import TASK_TYPES

MADE = {"clean": "clean", "heat": "hot", "cool": "cold"}


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", help="the compact file or $ALFWORLD_DATA; generated houses when left out")
    parser.add_argument(
        "--memory", default="", help="values of K, comma-separated: the expert forgets the rest"
    )
    args = parser.parse_args()
    if args.data:
        worlds = {"alfworld": make("alfworld", data=args.data)}
    else:
        worlds = {size: make("household", size=size) for size in ("tiny", "small", "medium", "alfworld")}
    forgetful = {
        f"K={steps}{', status' if status else ''}": Forgetful(int(steps), status)
        for status in (False, True)
        for steps in args.memory.split(",")
        if steps
    }
    rows = [
        {"world": world, "split": split, "policy": name, **solve(env, split, policy or actor(name, env))}
        for world, env in worlds.items()
        for split in ("in-domain", "out-of-domain")
        for name, policy in {"expert": None, **(forgetful or {"random": None})}.items()
    ]
    heads = ["world", "split", "policy", "place", "light", "clean", "heat", "cool", "two", "all", "steps"]
    print("".join(f"{head:>14}" for head in heads))
    for row in rows:
        cells = [row["world"], row["split"], row["policy"], *(row[kind] for kind in TASK_TYPES), row["all"]]
        print("".join(f"{cell!s:>14}" for cell in [*cells, f"{row['steps']:.1f}"]))
    print(json.dumps(rows))


class Forgetful:
    """The expert, made anew before each command from what a prompt holds."""

    def __init__(self, memory: int, status: bool) -> None:
        self.memory, self.status = memory, status

    def reset(self, seen: Any) -> None:
        """A new game."""
        self.first = seen
        self.past: deque[tuple[str, str]] = deque(maxlen=self.memory)

    def act(self, seen: Any) -> str:
        """The next command."""
        expert = HouseholdExpert()
        expert.reset(self.first)
        for text, action in self.past:
            expert.learn(text)
            expert.last = action
        if self.status:
            knows(expert, seen.info["status"])
        else:
            held = re.search(r"(?:^|\n)(?:move|heat|cool|clean) (\w+ \d+) ", "\n".join(seen.admissible))
            expert.held = held[1] if held else expert.held
        action = expert.act(seen)
        self.past.append((seen.text, action))
        return action


def knows(expert: HouseholdExpert, status: str) -> None:
    """Tell the expert what a status says."""
    parts = dict(part.split(" ", 1) for part in re.split(r", having ", status))
    looked = re.findall(r"([a-z]+)((?: \d+)+)", parts.get("looked", "").removeprefix("in "))
    for place in (f"{kind} {number}" for kind, numbers in looked for number in numbers.split()):
        expert.contents.setdefault(place, [])
    held, _, made = parts["carrying"].partition(" (")
    expert.held = "" if held == "nothing" else held
    expert.treated = expert.treatment is not None and MADE[expert.treatment[0]] in made
    expert.placed = dict(re.findall(r"(\w+ \d+)(?: \([^)]*\))? in (\w+ \d+)", parts.get("put", "")))
    for thing, place in expert.placed.items():
        there = expert.contents.get(place, [])
        expert.contents[place] = there if thing in there else [*there, thing]


def solve(env: Any, split: str, policy: Any) -> dict[str, Any]:
    """Solved and played episodes by task type."""
    played = dict.fromkeys((*TASK_TYPES, "all"), 0)
    solved = dict(played)
    steps = 0
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
