"""Rollouts for the tests: small houses, and text that tries to break out of a page."""

from __future__ import annotations

import random
from typing import Any

Rows = list[dict[str, Any]]


def house(
    iterations: int = 1, tasks: int = 3, rollouts: int = 4, seed: int = 0, prompts: bool = True
) -> Rows:
    """Agents that walk between places at random and sometimes get nothing but the same reply."""
    draw = random.Random(seed)
    rows: Rows = []
    for iteration in range(1, iterations + 1):
        for task in range(tasks):
            for rollout in range(rollouts):
                length, won = draw.randint(2, 9), draw.random() < 0.5
                seen, past = "You are in the hall.", ""
                for step in range(length):
                    action = draw.choice(["go to kitchen", "go to attic", "open box", "go to hall"])
                    last = step == length - 1
                    row = {
                        "task": f"task-{task}",
                        "trajectory": f"{iteration}/task-{task}/{rollout}",
                        "step": step,
                        "observation": seen,
                        "action": action,
                        "reward": 10.0 if last and won else 0.0,
                        "valid": draw.random() > 0.1,
                        "done": last,
                        "success": won,
                        "task_type": ["look", "pick"][task % 2],
                        "iteration": iteration,
                        "notes": {"luck": round(draw.random(), 3)},
                    }
                    if prompts:
                        row["prompt"] = f"{past}Now you see: {seen}\nReply with one command."
                        row["response"] = f"<action>{action}</action>"
                        row["response_ids"] = [draw.randint(0, 99) for _ in range(5)]
                    rows.append(row)
                    past = f"You saw: {seen} You did: {action}\n"
                    seen = "Nothing happens." if action == "open box" else f"You are in the {action[6:]}."
    return rows


HOSTILE = {
    "script": "<script>window.broken = 1</script>",
    "end": "</script><script>window.broken = 2</script><!--",
    "image": '<img src=x onerror="window.broken = 3">',
    "quotes": "\"'`${window.broken = 4}` &lt;b&gt; &amp; \\u003c",
    "control": "a\x00b\x01c\x1b[31mred\x7f\x85\r\n\tend",
    "direction": "left \u202eright to left\u202c \u2066isolate\u2069 \u200fmark\u200e שלום",
    "separators": "line\u2028paragraph\u2029end\ufeff\u200b",
    "surrogate": "lone \ud800 half \udfff",
    "template": "{{policy}} {{style}} <!-- data -->",
    "long": "x<y>&" * 200_000,
}


def hostile(text: str) -> Rows:
    """Rows with `text` in every field that can hold text, and as the name of a column."""
    rows: Rows = []
    for trajectory in range(3):
        for step in range(3):
            rows.append(
                {
                    "task": f"{text}",
                    "trajectory": f"{trajectory}{text}",
                    "step": step,
                    "observation": text if step else f"start {text}",
                    "action": f"{step}{text}",
                    "reward": float(trajectory == 1 and step == 2),
                    "success": trajectory == 1,
                    "prompt": f"prompt {text}",
                    "response": f"response {text}",
                    "state_key": f"{trajectory}{text}",
                    "admissible": [text, str(trajectory)],
                    "task_type": text,
                    "extra": {"deep": [text]},
                    text[:1000]: text,
                }
            )
    return rows
