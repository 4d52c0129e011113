"""Rollouts that others recorded, as rows of ours.

Two kinds are understood without help: verl's rollout dumps (`trainer.rollout_data_dir`, one JSON-lines file per
training step) and files whose columns have well-known other names. Everything else takes `--columns theirs=ours`.
Columns nobody asked for are kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from ..errors import BadSteps
from ..play.prompts import observation_marks
from ..steps.names import KEPT, Renaming

# Other people's names for our columns, most specific first.
ALIASES: dict[str, tuple[str, ...]] = {
    "task": ("task_uid", "group_uid", "group_id", "uid", "task_id", "prompt_id", "problem_id"),
    "trajectory": (
        "traj_uid",
        "trajectory_id",
        "traj_id",
        "session_id",
        "rollout_id",
        "episode_id",
        "sample_id",
    ),
    "step": ("step_index", "step_idx", "step_id", "turn_index", "turn_idx", "turn_id", "turn", "timestep"),
    "observation": ("anchor_obs", "obs", "state"),
    "action": ("parsed_action", "act"),
    "reward": ("step_reward", "rewards", "r"),
    "valid": ("is_action_valid", "action_valid"),
    "success": ("won", "is_success"),
    "prompt": ("input", "prompt_text"),
    "response": ("output", "completion", "response_text"),
    "admissible": ("admissible_actions", "admissible_commands", "available_actions"),
    "task_type": ("data_source", "gamefile_type"),
}

# What stands before and after the present observation in a prompt: ours, a chat's, and verl-agent's environments.
_NOW, _THEN = observation_marks()
_BEFORE = (_NOW, "current observation is:", "Current Observation:")
_AFTER = (*_THEN, "\nassistant", "Your admissible actions", "Now it's your turn")

# verl fills a batch up with empty rows under a made-up key, and dumps them too.
_PADDING = re.compile(r"pad[0-9a-f]{32}")


def known_names(names: Iterable[str], columns: Mapping[str, str]) -> dict[str, str]:
    """Extend a column map by well-known other names for what is still missing: theirs -> ours."""
    present = list(names)
    mapped = dict(columns)
    ours = set(mapped.values()) | {name for name in present if name not in mapped}
    for wanted, others in ALIASES.items():
        if wanted in ours:
            continue
        match = next((other for other in others if other in present and other not in mapped), None)
        if match:
            mapped[match] = wanted
    return mapped


def is_verl_dump(names: Iterable[str], columns: Mapping[str, str]) -> bool:
    """Whether a file with these columns is a rollout dump of verl."""
    present = set(names)
    return {"input", "output", "score"} <= present and not {"input", "output", "score"} & set(columns)


def _verl_names(names: Iterable[str], columns: Mapping[str, str]) -> dict[str, str]:
    """Extend a column map by what verl's own columns are here; its `step` is the training step."""
    own = {"step": "iteration", "input": "prompt", "output": "response"}
    left = {theirs: ours for theirs, ours in own.items() if theirs in names and theirs not in columns}
    taken = set(columns.values())
    return {
        **columns,
        **{theirs: f"{KEPT}{theirs}" if ours in taken else ours for theirs, ours in left.items()},
    }


def from_verl(
    rows: Iterable[dict[str, Any]], columns: Mapping[str, str]
) -> tuple[list[dict[str, Any]], list[str]]:
    """Rows of a verl dump as rows of ours, and notes on what had to be assumed.

    A dump has `input`, `output`, `score`, `gts`, `step` (the training step, the same in the whole file) and, since
    verl 0.9, `uid` = task_session_output, from which the task, the trajectory and the step are read. Other
    columns, such as those a reward function adds, are kept and used under their well-known names.
    """
    steps: list[dict[str, Any]] = []
    notes: list[str] = []
    prompts: dict[str, int] = {}
    counts: dict[Any, int] = {}
    whole_prompt = 0
    dumped = list(rows)
    renaming = Renaming(_verl_names({name for row in dumped for name in row}, columns))
    for number, row in enumerate(dumped):
        ours = _renamed(row, renaming)
        if ours.get("padding"):
            ours |= {"observation": "", "action": ""}
        if ours.get("observation") is None:
            seen = _observation(str(ours["prompt"]))
            whole_prompt += seen is None
            ours["observation"] = ours["prompt"] if seen is None else seen
        if ours.get("action") is None:
            ours["action"] = _action(str(ours["response"]))
        _place(ours, number, prompts, counts)
        steps.append(ours)
    renaming.check_found("the verl dump")
    if whole_prompt:
        notes.append(
            f"{whole_prompt} of {len(steps)} prompts have no known mark before the observation, so the whole prompt "
            f"is taken as the observation; name a column with --columns theirs=observation if the dump has one."
        )
    padding = sum(bool(row.get("padding")) for row in steps)
    if padding:
        notes.append(f"{padding} rows with which verl filled up the batch are left out")
    if "reward" not in columns.values() and _one_score_per_trajectory(steps):
        notes.append(
            "every step of a trajectory carries the same score, so the score is counted once, at its last step"
        )
    return steps, notes


def _observation(prompt: str) -> str | None:
    """The text after the last known mark, up to what follows an observation; None without a mark."""
    start = max((prompt.rfind(mark) + len(mark) for mark in _BEFORE if mark in prompt), default=None)
    if start is None:
        return None
    ends = [end for end in (prompt.find(mark, start) for mark in _AFTER) if end >= 0]
    return prompt[start : min(ends, default=len(prompt))].strip()


def _action(response: str) -> str:
    """What stands in the last pair of action tags, or the whole reply."""
    lowered = response.lower()
    end = lowered.rfind("</action>")
    start = lowered.rfind("<action>", 0, max(end, 0))
    return (response[start + len("<action>") : end] if start >= 0 else response).strip()


def _key(uid: object) -> tuple[str, int, int] | None:
    """task, trajectory and step of a row key task_session_output."""
    parts = str(uid).rsplit("_", 2)
    if len(parts) != 3 or not all(part.isascii() and part.isdigit() and len(part) < 16 for part in parts[1:]):
        return None
    return parts[0], int(parts[1]), int(parts[2])


def _renamed(row: dict[str, Any], renaming: Renaming) -> dict[str, Any]:
    for name in ("input", "output", "score"):
        if name not in row:
            raise BadSteps(f"A row of the verl dump has no {name!r}; it has {', '.join(map(str, row))}.")
    ours = renaming.row(row)
    if "reward" not in renaming.columns.values():
        if "reward" in ours:
            ours[f"{KEPT}reward"] = ours["reward"]
        ours["reward"] = ours["score"]
    key = _key(ours.get("uid", ""))
    if key:
        if _PADDING.fullmatch(key[0]):
            ours.setdefault("padding", True)
        for name, value in zip(("task", "trajectory", "step"), key):
            ours.setdefault(name, value)
    for wanted in (
        "task",
        "trajectory",
        "step",
        "observation",
        "action",
        "valid",
        "success",
        "admissible",
        "task_type",
    ):
        if wanted not in ours:
            other = next((name for name in ALIASES[wanted] if ours.get(name) is not None), None)
            if other:
                ours[wanted] = ours[other]
    return ours


def _place(ours: dict[str, Any], number: int, prompts: dict[str, int], counts: dict[Any, int]) -> None:
    """Fill in task, trajectory and step where the dump holds whole answers, one row each."""
    if "task" not in ours:
        ours["task"] = f"prompt {prompts.setdefault(str(ours['prompt']), len(prompts))}"
    if "trajectory" not in ours:
        if "step" in ours:
            raise BadSteps(
                f"Row {number} of the verl dump has a step index but no trajectory; name the column with "
                f"--columns theirs=trajectory."
            )
        ours["trajectory"] = counts.setdefault(ours["task"], 0)
        counts[ours["task"]] += 1
        ours["step"] = 0
    elif "step" not in ours:
        raise BadSteps(
            f"Row {number} of the verl dump names the trajectory {ours['trajectory']!r} but not which step of it the "
            f"row is, and verl reorders rows before it dumps them; add a step index to the dump and name it with "
            f"--columns theirs=step (docs/inspect.md has the lines)."
        )


def _one_score_per_trajectory(rows: list[dict[str, Any]]) -> bool:
    """Move a score that is repeated on every step to the last step; false when scores are per step."""
    by_trajectory: dict[Any, list[dict[str, Any]]] = {}
    for row in rows:
        by_trajectory.setdefault((row.get("iteration"), row["task"], row["trajectory"]), []).append(row)
    longer = [steps for steps in by_trajectory.values() if len(steps) > 1]
    if not longer or any(len({step["reward"] for step in steps}) > 1 for steps in longer):
        return False
    for steps in longer:
        last = max(steps, key=lambda step: step["step"])
        for step in steps:
            if step is not last:
                step["reward"] = 0.0
    return True
