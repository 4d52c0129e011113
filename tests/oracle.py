"""The same arithmetic as the estimators, written out literally with dictionaries.

Slow and plain on purpose: one loop per sentence of the definition, no numpy. The tests compare the fast code with
it, and benchmarks/estimators.py measures how much faster the fast code is.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from typing import Any

Row = Mapping[str, Any]


def step_returns(
    rows: Sequence[Row], gamma: float, penalty: float, when: str = "after_discount"
) -> list[float]:
    """Discounted return of every row, with the invalid-action penalty."""
    at = {(row["task"], row["trajectory"], row["step"]): i for i, row in enumerate(rows)}
    returns = [0.0] * len(rows)
    for i in sorted(range(len(rows)), key=lambda i: -rows[i]["step"]):
        row = rows[i]
        fine = 0.0 if row.get("valid", True) else penalty
        following = at.get((row["task"], row["trajectory"], row["step"] + 1))
        reward = row["reward"] - (fine if when == "before_discount" else 0.0)
        returns[i] = reward + (gamma * returns[following] if following is not None else 0.0)
    if when == "after_discount":
        returns = [r - (0.0 if row.get("valid", True) else penalty) for r, row in zip(returns, rows)]
    return returns


def contexts(rows: Sequence[Row], depth: int, key: str = "observation") -> list[list[Any]]:
    """For every row its hashable context at the levels 0..depth, None where it has no such level."""
    at = {(row["task"], row["trajectory"], row["step"]): row for row in rows}
    found = []
    for row in rows:
        state = row["observation"] if key == "observation_action" else row[key]
        context: tuple[Any, ...] = (row["task"], state)
        levels: list[Any] = [context]
        for lag in range(1, depth + 1):
            before = at.get((row["task"], row["trajectory"], row["step"] - lag))
            if before is None:
                levels.append(None)
                continue
            seen = (before["observation"], before["action"]) if key == "observation_action" else before[key]
            context = (*context, seen)
            levels.append(context)
        found.append(levels)
    return found


def spread(values: Sequence[float], sample: bool) -> tuple[float, float]:
    """Mean and standard deviation."""
    if max(values) == min(values):
        return values[0], 0.0
    mean = math.fsum(values) / len(values)
    squares = math.fsum((value - mean) ** 2 for value in values)
    return mean, math.sqrt(squares / max(len(values) - int(sample), 1))


def is_zero(value: float, values: Sequence[float]) -> bool:
    """Whether a deviation is rounding only."""
    return abs(value) <= 1e-12 * (max(abs(v) for v in values) + 1e-300)


def episode(
    rows: Sequence[Row], mode: str, over: str, sample: bool, epsilon: float, single: str, penalty: float
):
    """Episode-level advantage of every row."""
    sums: dict[Any, float] = defaultdict(float)
    for row in sorted(rows, key=lambda row: row["step"]):
        fine = 0.0 if row.get("valid", True) or over == "steps" else penalty
        sums[row["task"], row["trajectory"]] += row["reward"] - fine
    scores = []
    for row in rows:
        fine = 0.0 if row.get("valid", True) or over == "trajectories" else penalty
        scores.append(sums[row["task"], row["trajectory"]] - fine)
    groups: dict[Any, list[float]] = defaultdict(list)
    if over == "steps":
        for row, score in zip(rows, scores):
            groups[row["task"]].append(score)
    else:
        for (task, _), score in sums.items():
            groups[task].append(score)
    advantages = []
    for row, score in zip(rows, scores):
        members = groups[row["task"]]
        mean, std = spread(members, sample)
        if len(members) == 1:
            mean, std = (0.0, 1.0) if single == "raw" else (score, 0.0)
        value = 0.0 if is_zero(score - mean, members) and len(members) > 1 else score - mean
        advantages.append(value if mode == "mean_norm" or value == 0.0 else value / (std + epsilon))
    return advantages


RELEASED = {
    "weight_offset": 1,
    "skip": "item",
    "epsilon": 1e-6,
    "weight_epsilon": 1e-6,
    "penalty": "after_discount",
    "normalise_over": "steps",
    "base_std": "sample",
    "single": "raw",
    "std": "population",
}
PAPER = {
    "weight_offset": 0,
    "skip": "group",
    "epsilon": 0.0,
    "weight_epsilon": 0.0,
    "penalty": "before_discount",
    "normalise_over": "trajectories",
    "base_std": "population",
    "single": "zero",
    "std": "population",
}


def hgpo(
    rows: Sequence[Row],
    depth: int = 2,
    mode: str = "mean_std_norm",
    weight_type: str = "length",
    length_weight_alpha: float = 1.0,
    base_group: bool = False,
    gamma: float = 0.95,
    invalid_penalty: float = 0.0,
    key: str = "observation",
    variant: str = "released",
    min_peers: int = 1,
    peers: str = "any",
    baseline: str = "group",
    fallback: str = "none",
    **differences: Any,
) -> tuple[list[float], list[float]]:
    """HGPO's advantages and returns, row by row and level by level."""
    how: dict[str, Any] = {**(RELEASED if variant == "released" else PAPER), **differences}
    returns = step_returns(rows, gamma, invalid_penalty, how["penalty"])
    keys = contexts(rows, depth, key)
    clusters: dict[Any, list[int]] = defaultdict(list)
    for i, levels in enumerate(keys):
        for level, context in enumerate(levels):
            if context is not None:
                clusters[level, context].append(i)
    whole = episode(
        rows,
        mode,
        how["normalise_over"],
        how["base_std"] == "sample",
        how["epsilon"],
        how["single"],
        invalid_penalty,
    )
    advantages = []
    for i, levels in enumerate(keys):
        items = []
        if base_group and not (how["skip"] == "item" and whole[i] == 0.0):
            items.append((1.0, whole[i]))
        for level, context in enumerate(levels):
            if context is None:
                continue
            members = clusters[level, context]
            others = [
                j for j in members
                if (rows[j]["task"], rows[j]["trajectory"]) != (rows[i]["task"], rows[i]["trajectory"])
            ]  # fmt: skip
            by_trajectory = peers == "other_trajectory" or baseline == "leave_one_out"
            if (len(others) if by_trajectory else len(members) - 1) < min_peers:
                continue
            values = [returns[j] for j in members]
            mean, std = spread(values, how["std"] == "sample")
            if baseline == "leave_one_out":
                mean = math.fsum(returns[j] for j in others) / len(others)
            difference = 0.0 if is_zero(returns[i] - mean, values) else returns[i] - mean
            value = (
                difference
                if mode == "mean_norm"
                else difference / (std + how["epsilon"])
                if difference
                else 0.0
            )
            if how["skip"] == "item" and value == 0.0:
                continue
            if how["skip"] == "group" and all(is_zero(v - values[0], values) for v in values):
                continue
            weight = (
                1.0 if weight_type == "uniform" else (level + 1 + how["weight_offset"]) ** length_weight_alpha
            )
            items.append((weight, value))
        if not items:
            advantages.append(whole[i] if fallback == "episode" else 0.0)
            continue
        total = sum(weight for weight, _ in items) + how["weight_epsilon"]
        advantages.append(sum(weight * value for weight, value in items) / total)
    return advantages, returns


def gigpo(
    rows: Sequence[Row],
    mode: str = "mean_std_norm",
    gamma: float = 0.95,
    invalid_penalty: float = 0.0,
    step_advantage_w: float = 1.0,
) -> list[float]:
    """GiGPO's advantages as the released code computes them."""
    returns = step_returns(rows, gamma, invalid_penalty)
    whole = episode(rows, mode, "steps", True, 1e-6, "raw", invalid_penalty)
    clusters: dict[Any, list[float]] = defaultdict(list)
    for row, value in zip(rows, returns):
        clusters[row["task"], row["observation"]].append(value)
    advantages = []
    for row, value, first in zip(rows, returns, whole):
        members = clusters[row["task"], row["observation"]]
        mean, std = spread(members, sample=True)
        difference = 0.0 if is_zero(value - mean, members) else value - mean
        step = difference if mode == "mean_norm" or not difference else difference / (std + 1e-6)
        advantages.append(first + step_advantage_w * step)
    return advantages


def compare(
    groups: Mapping[Any, Sequence[int]], values: Sequence[float], mode: str, epsilon: float = 1e-6
) -> list[float]:
    """Every value against those of its group: mean, sample deviation, zero where it is alone."""
    found = [0.0] * len(values)
    for members in groups.values():
        inside = [values[i] for i in members]
        mean, std = spread(inside, sample=True)
        for i in members:
            difference = 0.0 if is_zero(values[i] - mean, inside) else values[i] - mean
            found[i] = difference if mode == "mean_norm" or not difference else difference / (std + epsilon)
    return found


def rollouts(rows: Sequence[Row]) -> list[list[int]]:
    """Rows of each rollout, by step."""
    found: dict[Any, list[int]] = defaultdict(list)
    for i in sorted(range(len(rows)), key=lambda i: rows[i]["step"]):
        found[rows[i]["task"], rows[i]["trajectory"]].append(i)
    return list(found.values())


def succeeded(row: Row) -> bool:
    """Whether the rollout that ends with this row reached its goal."""
    return bool(row["success"]) if "success" in row else row["reward"] > 0


def g2po(
    rows: Sequence[Row],
    mode: str = "mean_std_norm",
    gamma: float = 0.95,
    invalid_penalty: float = 0.0,
    episode_w: float = 1.0,
    step_advantage_w: float = 1.0,
) -> tuple[list[float], list[float], list[float]]:
    """State values, step part and advantages of G2PO, as the released code computes them."""
    visits: dict[Any, list[float]] = defaultdict(list)
    for one in rollouts(rows):
        earned = math.fsum(rows[i]["reward"] for i in one)
        for t, i in enumerate(one):
            visits[rows[i]["task"], rows[i]["observation"]].append(gamma ** (len(one) - t) * earned)
    here = [math.fsum(seen) / len(seen) for seen in (visits[r["task"], r["observation"]] for r in rows)]
    there = [0.0] * len(rows)
    for one in rollouts(rows):
        for i, following in itertools.pairwise(one):
            there[i] = here[following]
        if succeeded(rows[one[-1]]):
            there[one[-1]] = math.fsum(rows[i]["reward"] for i in one)
    states, tasks = defaultdict(list), defaultdict(list)
    for i, row in enumerate(rows):
        states[row["task"], row["observation"]].append(i)
        tasks[row["task"]].append(i)
    fined = [v - (0.0 if row.get("valid", True) else invalid_penalty) for v, row in zip(there, rows)]
    by_state = compare(states, fined, mode)
    by_task = compare(tasks, [after - before for after, before in zip(there, here)], mode)
    step = [one + two for one, two in zip(by_state, by_task)]
    whole = episode(rows, mode, "steps", True, 1e-6, "raw", invalid_penalty)
    return here, step, [episode_w * e + step_advantage_w * a for e, a in zip(whole, step)]


def graphgpo(
    rows: Sequence[Row],
    mode: str = "mean_std_norm",
    gamma: float = 0.1,
    invalid_penalty: float = 0.0,
    progress: bool = False,
) -> tuple[list[float], list[float]]:
    """Targets without penalty and advantages of GraphGPO, as the released code computes them."""
    goal = object()
    led_to: list[Any] = [None] * len(rows)
    for one in rollouts(rows):
        for i, following in itertools.pairwise(one):
            led_to[i] = rows[following]["observation"]
        last = rows[one[-1]]
        if succeeded(last):
            led_to[one[-1]] = goal
        elif last.get("next_observation") is not None:
            led_to[one[-1]] = last["next_observation"]
        elif last.get("done") is False:
            led_to[one[-1]] = last["observation"]
        else:
            led_to[one[-1]] = object()
    states, tasks = defaultdict(list), defaultdict(list)
    for i, row in enumerate(rows):
        states[row["task"], row["observation"]].append(i)
        tasks[row["task"]].append(i)
    targets = [0.0] * len(rows)
    for members in tasks.values():
        sources = defaultdict(list)
        for i in members:
            sources[led_to[i]].append(rows[i]["observation"])
        distance, queue = {goal: 0}, deque([goal])
        while queue:
            for before in sources[at := queue.popleft()]:
                if before not in distance:
                    distance[before] = distance[at] + 1
                    queue.append(before)
        beyond = max(distance.values()) + 1
        for i in members:
            after, at = distance.get(led_to[i], beyond), distance.get(rows[i]["observation"], beyond)
            targets[i] = 10.0 * gamma ** (after - at + 1 if progress else after)
    fined = [v - (0.0 if row.get("valid", True) else invalid_penalty) for v, row in zip(targets, rows)]
    whole = episode(rows, mode, "steps", True, 1e-6, "raw", invalid_penalty)
    return targets, [e + a for e, a in zip(whole, compare(states, fined, mode))]
