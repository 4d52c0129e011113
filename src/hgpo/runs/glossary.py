"""What the metrics of a run mean: every name in metrics.jsonl, in a sentence. docs/metrics.md shows all of it."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass

from ..estimators.metrics import BIN_NAMES


@dataclass(frozen=True)
class Metric:
    """One metric, or a family of them."""

    name: str
    """`K` stands for a level, `SPLIT` for a split of tasks."""
    meaning: str


EPISODES = (
    Metric("success", "share of the episodes that succeeded"),
    Metric("return", "mean over episodes of the sum of their rewards"),
    Metric("score", "mean over episodes of the environment's own score"),
    Metric("episodes", "episodes played"),
    Metric("steps", "steps played"),
    Metric("groups", "tasks played, each by a group of rollouts"),
    Metric("episode_length", "mean number of steps of an episode"),
    Metric("malformed_share", "share of the steps whose reply did not have the asked form"),
    Metric("inadmissible_share", "share of the steps whose action does nothing in the situation"),
    Metric(
        "action_disagreement",
        "of all pairs of steps of a task that saw the same, the share that acted differently; left out without such "
        "pairs. At 0 a group has nothing to compare",
    ),
    Metric("shortened_share", "share of the steps whose prompt was too long and gave something up"),
    Metric("response_tokens", "tokens of all replies; verl counts its own"),
    Metric("prompt_tokens", "tokens of all prompts; verl counts its own"),
    Metric("dropped_groups", "groups lost to failing environments (verl: `lost_groups`)"),
    Metric("environment_failures", "failures of environments"),
    Metric("episode_retries", "episodes played again after a failure"),
    Metric(
        "filtered_groups",
        "groups left out because all their episodes have the same return (`update.filter_groups`)",
    ),
)

ESTIMATE = (
    Metric("steps", "steps that were compared, padding left out"),
    Metric("trajectories", "their trajectories"),
    Metric("tasks", "their tasks"),
    Metric("return/mean", "mean of the returns that were compared, penalties included"),
    Metric(
        "advantage/mean",
        "mean of the final advantages; it need not be zero, because each step averages over other levels",
    ),
    Metric("advantage/std", "their deviation"),
    Metric("advantage/abs_mean", "their mean size"),
    Metric("advantage/zero_share", "share of steps that get no policy gradient"),
    Metric(
        "advantage/penalty_share",
        "logged by the trainer only: how much of the advantages the penalty for invalid actions makes, sum of "
        "|A - A'| over sum of |A| with A' the estimate without it",
    ),
    Metric("context/coverage", "share of steps with at least one usable level"),
    Metric(
        "context/inconsistency",
        "share of the pairs of steps in the same state whose histories differ, up to the deepest level",
    ),
    Metric("level/K/groups", "groups at level K"),
    Metric("level/K/steps", "steps that have a level K: at least K predecessors"),
    Metric("level/K/size/SIZE", f"groups of that many steps; SIZE is {', '.join(BIN_NAMES)}"),
    Metric("level/K/singleton_share", "share of the level's steps that are alone in their group"),
    Metric(
        "level/K/constant_share", "share of the groups with two members or more whose returns are all equal"
    ),
    Metric("level/K/signal_share", "share of the level's steps for which the level entered the advantage"),
    Metric(
        "level/K/abs_advantage",
        "mean size of the advantages as far as the level (for nested means: the score less the value as far as "
        "level K)",
    ),
    Metric(
        "level/K/sign_agreement",
        "among steps with signal at levels K - 1 and K, share where both have the same sign",
    ),
)

UPDATE = (
    Metric("loss/policy", "the policy loss"),
    Metric("loss/kl", "k3 KL to the starting policy, before its weight (`update.kl_coef`)"),
    Metric("loss/total", "the sum that is minimised, entropy bonus included"),
    Metric(
        "kl_old",
        "k3 KL to the policy that sampled: how far this iteration's updates moved; on the first update also any "
        "mismatch between sampler and trainer",
    ),
    Metric("clip_share", "share of the tokens whose ratio was clipped"),
    Metric("entropy", "mean entropy of the policy per token"),
    Metric("grad_norm", "norm of the gradient before it is clipped"),
    Metric("lr", "learning rate of the last update; under verl of the next iteration"),
    Metric("updates", "optimiser steps"),
    Metric(
        "engine/logprob_gap",
        "mean distance per token between the trainer's log-probabilities and the sampler's, before the weights move",
    ),
    Metric("engine/logprob_gap_max", "the largest such distance; verl only"),
    Metric("train/rows", "steps with a gradient"),
    Metric("train/tokens", "tokens of the rows that passed through the model"),
    Metric("train/padding_share", "share of the computed tokens that were padding"),
    Metric("train/shared_share", "share of the tokens that began several rows alike and were computed once"),
    Metric("train/distinct_prompt_share", "what is left of the prompt tokens when equal prompts count once"),
)

TIME = (
    Metric("iteration", "its number; 0 is the evaluation before the first"),
    Metric("seconds", "the whole iteration"),
    Metric("seconds/rollout", "playing"),
    Metric("seconds/generate", "of that, sampling replies"),
    Metric("seconds/estimate", "from steps to advantages"),
    Metric("seconds/update", "the update"),
    Metric("seconds/eval", "the evaluation"),
    Metric("tokens_per_second", "tokens of prompts and replies over the iteration without its evaluation"),
    Metric("train/tokens_per_second", "tokens of the update over its time"),
    Metric("rollout/padding_share", "share of the tokens of generation that were padding"),
)

EVALUATION = (
    Metric("eval/SPLIT/success", "share of the panel's tasks that were solved"),
    Metric("eval/SPLIT/return", "mean sum of rewards"),
    Metric("eval/SPLIT/score", "mean of the environment's own score"),
    Metric("eval/SPLIT/steps", "mean number of steps of an episode"),
)

ESTIMATE_PREFIX = "estimator/"
"""Before the name of each metric of the estimate, in metrics.jsonl."""

GROUPS: dict[str, tuple[Metric, ...]] = {
    "episodes": EPISODES,
    "estimate": ESTIMATE,
    "update": UPDATE,
    "time": TIME,
    "evaluation": EVALUATION,
}


def meaning(name: str) -> str | None:
    """What a name in metrics.jsonl means; None where nobody says.

    >>> meaning("estimator/level/2/groups"), meaning("eval/in-domain/success")
    ('groups at level K', "share of the panel's tasks that were solved")
    """
    return next((text for pattern, text in _patterns() if pattern.fullmatch(name)), None)


@functools.cache
def _patterns() -> list[tuple[re.Pattern[str], str]]:
    found = []
    for group, metrics in GROUPS.items():
        for one in metrics:
            whole = re.escape(ESTIMATE_PREFIX + one.name if group == "estimate" else one.name)
            whole = whole.replace("/K/", r"/\d+/").replace("SIZE", r"[\d+-]+").replace("SPLIT", r"[\w-]+")
            found.append((re.compile(whole), one.meaning))
    return found
