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
