"""Record rollouts of an expert that errs less and less, in generated houses: something to look at.

    python docs/examples/record_rollouts.py rollouts.jsonl
    hgpo inspect rollouts.jsonl --html report.html

No model is needed. Each iteration plays 8 rollouts of each of 6 tasks; the expert does any admissible command with
a chance that falls from one half to a tenth, and mistypes some.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from typing import Any

from hgpo import StepBatch
from hgpo.envs import make

ITERATIONS, TASKS, ROLLOUTS, MEMORY, STEPS = 12, 6, 8, 2, 30


def episode(env: Any, task: str, slip: float, seed: str) -> Iterator[dict[str, Any]]:
    """One rollout, a row per step."""
    draw, expert = random.Random(seed), env.expert()
    seen: Any = env.reset(task)
    expert.reset(seen)
    kind = seen.info["task_type"]
    rows: list[dict[str, Any]] = []
    while len(rows) < STEPS and not getattr(seen, "done", False):
        planned = expert.act(seen)
        action = planned if draw.random() > slip else draw.choice(list(seen.admissible))
        valid = draw.random() > 0.1 * slip
        sent = action if valid else action.replace(" ", "")
        past = "".join(f"You saw: {row['observation']} You did: {row['action']}\n" for row in rows[-MEMORY:])
        rows.append(
            {
                "step": len(rows),
                "observation": seen.text,
                "action": sent,
                "valid": valid,
                "prompt": f"{past}Now you see: {seen.text}\nReply with one command and nothing else.",
                "response": sent,
                "admissible": list(seen.admissible),
            }
        )
        seen = env.step(sent)
        rows[-1] |= {"reward": float(seen.reward), "done": bool(seen.terminated)}
    success = bool(getattr(seen, "success", False))
    yield from ({**row, "success": success, "task_type": kind} for row in rows)


def record() -> Iterator[dict[str, Any]]:
    """All rows."""
    env = make("household")
    names = list(env.tasks("train"))
    for iteration in range(1, ITERATIONS + 1):
        slip = 0.5 - 0.4 * (iteration - 1) / (ITERATIONS - 1)
        for number in range(TASKS):
            task = names[(iteration * TASKS + number) % len(names)]
            for rollout in range(ROLLOUTS):
                own = {"task": task, "trajectory": f"{iteration}-{rollout}", "iteration": iteration}
                for row in episode(env, task, slip, f"{iteration} {task} {rollout}"):
                    yield {**own, **row}
    env.close()


if __name__ == "__main__":
    StepBatch.from_rows(record()).write(sys.argv[1] if len(sys.argv) > 1 else "rollouts.jsonl")
