"""Random batches of steps for property tests."""

from __future__ import annotations

from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

from hypothesis import strategies as st

from hgpo.estimators.table import ESTIMATORS
from hgpo.settings import Setting, settings_of

Rows = list[dict[str, Any]]


@st.composite
def step_rows(draw: st.DrawFn, max_tasks: int = 3, max_rollouts: int = 4, max_steps: int = 5) -> Rows:
    """Rows of a few tasks with few distinct observations, so that groups of every kind appear."""
    rewards = draw(st.sampled_from([[0.0, 10.0], [0.0, 1.0, 0.1], [-3.7, 0.0, 2.5, 1e6], [0.0]]))
    rows: Rows = []
    for task in range(draw(st.integers(1, max_tasks))):
        for rollout in range(draw(st.integers(1, max_rollouts))):
            for step in range(draw(st.integers(1, max_steps))):
                rows.append(
                    {
                        "task": f"task-{task}",
                        "trajectory": f"rollout-{rollout}",
                        "step": step,
                        "observation": draw(st.sampled_from(["hall", "kitchen", "Nothing happens."])),
                        "action": draw(st.sampled_from(["go", "take"])),
                        "reward": draw(st.sampled_from(rewards)),
                        "valid": draw(st.booleans()),
                    }
                )
    return rows


HGPO_SETTINGS = st.fixed_dictionaries(
    {
        "depth": st.integers(0, 4),
        "mode": st.sampled_from(["mean_std_norm", "mean_norm"]),
        "weight_type": st.sampled_from(["length", "uniform"]),
        "length_weight_alpha": st.sampled_from([0.0, 1.0, 2.0]),
        "base_group": st.booleans(),
        "gamma": st.sampled_from([1.0, 0.95, 0.5, 0.0]),
        "invalid_penalty": st.sampled_from([0.0, 0.1]),
        "key": st.sampled_from(["observation", "observation_action"]),
        "variant": st.sampled_from(["released", "paper"]),
        "min_peers": st.integers(1, 3),
        "peers": st.sampled_from(["any", "other_trajectory"]),
        "baseline": st.sampled_from(["group", "leave_one_out"]),
        "fallback": st.sampled_from(["none", "episode"]),
    },
    optional={
        "skip": st.sampled_from(["item", "group", "never"]),
        "std": st.sampled_from(["population", "sample"]),
        "weight_offset": st.integers(0, 2),
    },
)


@st.composite
def with_ends(draw: st.DrawFn, rows: st.SearchStrategy[Rows]) -> Rows:
    """The same rows, sometimes with how rollouts end, with `success`, with what came next, or without actions.

    `done` false at the end is a cut, or a step limit where `truncated` says so.
    """
    made = draw(rows)
    following = {(row["task"], row["trajectory"], row["step"] - 1): row["observation"] for row in made}
    last = {(row["task"], row["trajectory"]): row for row in made}
    ends, limits, success, after, acts = (draw(st.booleans()) for _ in range(5))
    for row in made:
        final = row is last[row["task"], row["trajectory"]]
        if ends:
            row["done"] = final and draw(st.booleans())
        if limits:
            row["truncated"] = final and not row.get("done") and draw(st.booleans())
        if success:
            row["success"] = draw(st.booleans())
        if after:
            beyond = st.sampled_from([None, "hall", "kitchen", "Nothing happens.", "attic"])
            row["next_observation"] = following.get(
                (row["task"], row["trajectory"], row["step"]), draw(beyond)
            )
        if not acts:
            row["action"] = "wait"
    return made


FIXED = {"similarity"}  # merges texts before anything is compared: tests/estimators/test_contexts.py
KEYS = ("observation", "observation_action")  # those whose columns `step_rows` has


def _values(one: Setting) -> list[Any]:
    """A few values that a setting may have, from its type and bounds."""
    options = get_args(one.kind) if get_origin(one.kind) in (Union, UnionType) else (one.kind,)
    values: list[Any] = []
    for option in options:
        if get_origin(option) is Literal:
            values += [name for name in get_args(option) if one.name != "key" or name in KEYS]
        elif option is bool:
            values += [False, True]
        elif option is int:
            low = int(one.low or 0)
            values += range(low, low + 5)
        elif option is float:
            low, high = one.low or 0.0, 10.0 if one.high is None else one.high
            values += sorted(
                {low, 0.1, 0.5, 0.95, min(high, 2.0)} - {v for v in (0.1, 0.5, 0.95) if v > high}
            )
    return values


def estimator_settings(name: str) -> st.SearchStrategy[dict[str, Any]]:
    """Settings of an estimator, any of them given or left to its default; a new estimator needs nothing here."""
    known = settings_of(ESTIMATORS[name].settings)
    drawn = {key: st.sampled_from(_values(one)) for key, one in known.items() if key not in FIXED}
    return st.fixed_dictionaries({}, optional=drawn)
