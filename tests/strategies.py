"""Random batches of steps for property tests."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

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
    """The same rows, sometimes with `done` (rollouts end or are cut), with `success`, or without actions."""
    made = draw(rows)
    last = {(row["task"], row["trajectory"]): row for row in made}
    ends, success, acts = draw(st.booleans()), draw(st.booleans()), draw(st.booleans())
    for row in made:
        if ends:
            row["done"] = row is last[row["task"], row["trajectory"]] and draw(st.booleans())
        if success:
            row["success"] = draw(st.booleans())
        if not acts:
            row["action"] = "wait"
    return made


MODE = st.sampled_from(["mean_std_norm", "mean_norm"])
KEY = st.sampled_from(["observation", "observation_action"])
GAMMA = st.sampled_from([1.0, 0.95, 0.5, 0.0])
PENALTY = st.sampled_from([0.0, 0.1])
STD = st.sampled_from(["population", "sample"])
EPSILON = st.sampled_from([0.0, 1e-6])
OVER = st.sampled_from(["steps", "trajectories"])
SINGLE = st.sampled_from(["raw", "zero"])
WEIGHT = st.sampled_from([0.0, 0.5, 1.0])
VARIANT = st.sampled_from(["released", "paper"])
WHEN = st.sampled_from(["after_discount", "before_discount"])
BASELINE = st.sampled_from(["group", "leave_one_out"])


class Settings:
    """Settings to draw: those of `mapping` always, those of `optional` sometimes."""

    def __init__(self, mapping: dict[str, Any], optional: dict[str, Any]) -> None:
        self.mapping, self.optional = mapping, optional
        self.strategy = st.fixed_dictionaries(mapping, optional=optional)


_SUCCESSOR = {
    "depth": st.integers(0, 3),
    "mode": MODE,
    "episode_w": WEIGHT,
    "step_advantage_w": WEIGHT,
    "invalid_penalty": PENALTY,
    "gamma": GAMMA,
    "key": KEY,
}
ESTIMATOR_SETTINGS = {
    "hgpo": Settings(
        {
            "depth": st.integers(0, 4),
            "mode": MODE,
            "weight_type": st.sampled_from(["length", "uniform", "shrinkage"]),
            "length_weight_alpha": st.sampled_from([0.0, 1.0, 2.0]),
            "base_group": st.booleans(),
            "gamma": GAMMA,
            "invalid_penalty": PENALTY,
            "key": KEY,
            "variant": VARIANT,
            "min_peers": st.integers(1, 3),
            "peers": st.sampled_from(["any", "other_trajectory"]),
            "baseline": BASELINE,
            "fallback": st.sampled_from(["none", "episode"]),
        },
        {
            "skip": st.sampled_from(["item", "group", "never"]),
            "std": STD,
            "epsilon": EPSILON,
            "weight_epsilon": EPSILON,
            "weight_offset": st.integers(0, 2),
            "penalty": WHEN,
            "normalise_over": OVER,
            "base_std": STD,
            "single": SINGLE,
            "std_floor": st.sampled_from([0.0, 0.5]),
        },
    ),
    "hgpo_lambda": Settings(
        {
            "depth": st.integers(0, 4),
            "lam": st.sampled_from([0.0, 0.5, 1.0]),
            "gamma": GAMMA,
            "sweeps": st.sampled_from([0, 1, 5]),
            "shrinkage": st.sampled_from(["empirical", "none"]),
            "pool_actions": st.booleans(),
            "baseline": BASELINE,
            "mode": MODE,
            "normalise_over": st.sampled_from(["batch", "task"]),
            "std_floor": st.sampled_from([0.0, 0.1]),
            "invalid_penalty": PENALTY,
            "key": KEY,
        },
        {},
    ),
    "gigpo": Settings(
        {
            "mode": MODE,
            "step_advantage_w": WEIGHT,
            "gamma": GAMMA,
            "invalid_penalty": PENALTY,
            "key": KEY,
            "variant": VARIANT,
        },
        {"normalise_over": OVER, "std": STD, "epsilon": EPSILON, "single": SINGLE, "penalty": WHEN},
    ),
    "graphgpo": Settings({**_SUCCESSOR, "goal": st.sampled_from([1.0, 10.0]), "progress": st.booleans()}, {}),
    "g2po": Settings(_SUCCESSOR, {}),
    "grpo": Settings(
        {
            "mode": MODE,
            "normalise_over": OVER,
            "std": STD,
            "epsilon": EPSILON,
            "single": SINGLE,
            "gamma": GAMMA,
            "invalid_penalty": PENALTY,
        },
        {},
    ),
    "dr_grpo": Settings({"gamma": GAMMA, "invalid_penalty": PENALTY}, {}),
    "rloo": Settings({"gamma": GAMMA, "invalid_penalty": PENALTY}, {}),
    "reinforce_plus_plus": Settings(
        {
            "baseline": st.sampled_from(["none", "group"]),
            "std": STD,
            "epsilon": EPSILON,
            "gamma": GAMMA,
            "invalid_penalty": PENALTY,
        },
        {},
    ),
}
