"""How fast the native household engine is, beside the official ALFWorld engine in the same run.

    python benchmarks/household.py --data data/alfworld/games.jsonl.xz
    python benchmarks/household.py                                    # generated houses only
    python benchmarks/household.py --data ... --official-python .venv-alfworld/bin/python

Both engines play the same games with the same commands, one process, one core, and must answer alike. `reset` is the
first reset of a game (its text is read and parsed) and a later one; `step` includes the admissible commands; the
official engine is played in its own process and timed there. Memory is the growth of this process over 10,000
live environments, each a few steps into an episode, on 1,000 different games. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import gc
import importlib.util
import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))

from hgpo.envs import make  # noqa: E402


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", help="the compact file or $ALFWORLD_DATA; generated houses when left out")
    parser.add_argument("--games", type=int, default=140, help="games for the native engine")
    parser.add_argument(
        "--official-games", type=int, default=6, help="of these, games for the official engine"
    )
    parser.add_argument(
        "--official-python", help="an interpreter that has hgpo[alfworld]; this one if it has"
    )
    parser.add_argument("--live", type=int, default=10_000, help="live environments")
    parser.add_argument("--play-official", metavar="FILE", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.play_official:
        play_official(args.data, Path(args.play_official))
        return
    env: Any = make("alfworld", data=args.data) if args.data else make("household", size="alfworld")
    tasks = list(env.tasks("in-domain"))[: args.games]
    scripts = {task: script(env, task) for task in tasks}
    result: dict[str, Any] = {
        "games": len(tasks),
        "source": "official games" if args.data else "generated houses",
    }
    result["native"] = native(args.data, tasks, scripts)
    result["live"] = live(args.data, args.live)
    python = args.official_python or (sys.executable if importlib.util.find_spec("alfworld") else None)
    if python and args.data:
        few = tasks[:: max(1, len(tasks) // args.official_games)][: args.official_games]
        result["official"] = official(python, args.data, {task: scripts[task] for task in few})
        result["answers_equal"] = result["official"].pop("texts") == texts(env, few, scripts)
        # Native again on the same games, so that the ratio compares like with like.
        same = native(args.data, few, scripts, repeats=200)
        result["ratio"] = {
            name: round(result["official"][name] / same[name])
            for name in ("reset_first_s", "reset_s", "step_s")
        }
    report(result)


def script(env: Any, task: str, steps: int = 40) -> list[str]:
    """A random walk whose commands both engines are given."""
    rng = random.Random(task)
    seen = env.reset(task)
    commands = []
    for _ in range(steps):
        commands.append(rng.choice(seen.admissible) if rng.random() < 0.95 else "dance")
        seen = env.step(commands[-1])
    return commands


def texts(env: Any, tasks: list[str], scripts: dict[str, list[str]]) -> list[Any]:
    """All that is seen: texts, admissible commands, wins."""
    seen: list[Any] = []
    for task in tasks:
        first = env.reset(task)
        seen.append([first.text, list(first.admissible), False])
        for command in scripts[task]:
            step = env.step(command)
            seen.append([step.text, list(step.admissible), step.success])
    return seen


def native(
    data: str | None, tasks: list[str], scripts: dict[str, list[str]], repeats: int = 5
) -> dict[str, float]:
    """Seconds of a first reset, a later reset and a step."""
    from hgpo.envs.household.alfworld_games import _open
    from hgpo.envs.household.generate import generate

    _open.cache_clear()
    generate.cache_clear()
    start = time.perf_counter()
    env: Any = make("alfworld", data=data) if data else make("household", size="alfworld")
    env.tasks("in-domain")
    open_s = time.perf_counter() - start
    first = again = stepping = 0.0
    for repeat in range(repeats):
        for task in tasks:
            start = time.perf_counter()
            env.reset(task)
            middle = time.perf_counter()
            for command in scripts[task]:
                env.step(command)
            stepping += time.perf_counter() - middle
            if repeat == 0:
                first += middle - start
            else:
                again += middle - start
    count = sum(len(scripts[task]) for task in tasks) * repeats
    return {
        "open_s": open_s,
        "reset_first_s": first / len(tasks),
        "reset_s": again / (len(tasks) * (repeats - 1)),
        "step_s": stepping / count,
        "steps_per_s": count / stepping,
    }


def live(data: str | None, count: int) -> dict[str, float]:
    """Memory of many environments alive at once, and steps taken across all of them."""
    base: Any = make("alfworld", data=data) if data else make("household", size="alfworld")
    tasks = list(base.tasks("train"))[:1000]
    gc.collect()
    empty = resident()
    for task in tasks:
        base.reset(task)  # Houses are shared by all environments, so they are counted apart.
    gc.collect()
    before = resident()
    rng = random.Random(0)
    envs = []
    seen = []
    for number in range(count):
        env: Any = make("alfworld", data=data) if data else make("household", size="alfworld")
        seen.append(env.reset(tasks[number % len(tasks)]).admissible)
        envs.append(env)
    start = time.perf_counter()
    for _ in range(5):
        for number, env in enumerate(envs):
            seen[number] = env.step(rng.choice(seen[number])).admissible
    took = time.perf_counter() - start
    seen.clear()
    gc.collect()
    return {
        "environments": count,
        "bytes_each": (resident() - before) / count,
        "bytes_a_house": (before - empty) / len(tasks),
        "process_mb": resident() / 2**20,
        "steps_per_s": 5 * count / took,
    }


def resident() -> int:
    """Bytes of memory this process has now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def official(python: str, data: str, scripts: dict[str, list[str]]) -> dict[str, Any]:
    """Time the official engine in an interpreter that has it."""
    file = ROOT / ".benchmarks" / "household-scripts.json"
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(scripts))
    command = [python, str(Path(__file__).resolve()), "--data", data, "--play-official", str(file)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def play_official(data: str, file: Path) -> None:
    """In the official engine's interpreter: play, time, print what was seen."""
    from hgpo.envs.household.alfworld_official import OfficialEnv

    scripts: dict[str, list[str]] = json.loads(file.read_text())
    env = OfficialEnv(data)
    first = again = stepping = 0.0
    seen: list[Any] = []
    for task, commands in scripts.items():
        start = time.perf_counter()
        opening = env.reset(task)
        first += time.perf_counter() - start
        start = time.perf_counter()
        env.engine.reset()
        again += time.perf_counter() - start
        seen.append([opening.text, list(opening.admissible), False])
        start = time.perf_counter()
        for command in commands:
            step = env.step(command)
            seen.append([step.text, list(step.admissible), step.success])
        stepping += time.perf_counter() - start
    count = sum(map(len, scripts.values()))
    print(
        json.dumps(
            {
                "reset_first_s": first / len(scripts),
                "reset_s": again / len(scripts),
                "step_s": stepping / count,
                "steps_per_s": count / stepping,
                "texts": seen,
            }
        )
    )


def report(result: dict[str, Any]) -> None:
    """A table for people and a line for programs."""
    names = {
        "reset_first_s": "first reset of a game",
        "reset_s": "later reset",
        "step_s": "step with commands",
    }
    print(f"{result['games']} {result['source']}, one core\n")
    print(f"{'':24}{'native':>14}{'official':>14}{'ratio':>10}")
    for key, label in names.items():
        theirs = result.get("official", {}).get(key)
        ratio = result.get("ratio", {}).get(key)
        shown = f"{theirs * 1e3:.1f} ms" if theirs is not None else "-"
        print(f"{label:24}{result['native'][key] * 1e6:11.1f} us{shown:>14}{ratio if ratio else '-':>10}")
    alive = result["live"]
    print(f"\nopening the games        {result['native']['open_s']:.2f} s, once a process")
    print(f"steps per second         {result['native']['steps_per_s']:,.0f}")
    print(f"live environments        {alive['environments']:,}, {alive['bytes_each']:,.0f} bytes each")
    print(f"houses                   {alive['bytes_a_house']:,.0f} bytes each, shared by environments")
    print(f"process in all           {alive['process_mb']:.0f} MB")
    print(f"steps across them        {alive['steps_per_s']:,.0f} per second")
    if "answers_equal" in result:
        print(f"answers of both engines  {'identical' if result['answers_equal'] else 'DIFFERENT'}")
    print(json.dumps(result))


if __name__ == "__main__":
    main()
