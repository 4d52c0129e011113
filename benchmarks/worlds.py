"""Time of a reset and a step of the worlds of other packages: python benchmarks/worlds.py (needs hgpo[envs] and Java).

One copy in this process, random play through the contract, the commands of each answer included.
"""

from __future__ import annotations

import time
import warnings
from typing import Any

from hgpo.envs import make
from hgpo.envs.actors import explored
from hgpo.seeds import generator

WORLDS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("gym", {"id": "FrozenLake-v1"}),
    ("gym", {"id": "Taxi-v4"}),
    ("babyai", {"level": "GoToRedBallGrey-v0"}),
    ("textworld-express", {"game": "coin"}),
    ("textworld-express", {"game": "cookingworld"}),
    ("scienceworld", {"task_names": ["find-plant"]}),
    ("scienceworld", {"task_names": ["find-plant"], "list_commands": True}),
    ("textworld", {}),
)


def main() -> None:
    """Print a row for every world."""
    warnings.simplefilter("ignore")
    print("| world | making it, first reset | later reset | step |\n| --- | --- | --- | --- |")
    for name, settings in WORLDS:
        start = time.perf_counter()
        env = make(name, **settings)
        tasks = env.tasks(env.splits[0])[:2]
        seen: Any = env.reset(tasks[0])
        first = time.perf_counter() - start
        resets, spent, times = 0, 0.0, list[float]()
        random = generator("benchmark", name)
        began = time.perf_counter()
        while time.perf_counter() - began < 4:
            start = time.perf_counter()
            seen = env.reset(tasks[0])
            spent += time.perf_counter() - start
            resets += 1
            for _ in range(40):
                if getattr(seen, "done", False):
                    break
                action = explored([seen.text], seen.admissible, random)
                start = time.perf_counter()
                seen = env.step(action)
                times.append(time.perf_counter() - start)
        env.close()
        said = ", ".join(f"{key}={value}" for key, value in settings.items())
        step = 1000 * sum(times) / len(times)
        print(
            f"| `{name}` {said} | {first:.1f} s | {1000 * spent / resets:.1f} ms | {step:.2f} ms |",
            flush=True,
        )


if __name__ == "__main__":
    main()
