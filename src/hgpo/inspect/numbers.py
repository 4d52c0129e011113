"""From counts to the numbers of a report: shares, means and spreads."""

from __future__ import annotations

import math
from typing import Any

from ..estimators.metrics import BIN_NAMES
from .counts import Counts


def summary(counts: Counts) -> dict[str, float]:
    """The plain numbers of all rollouts, or of one iteration."""
    steps = ("steps",)
    numbers = {name: counts.number(name) for name in ("iterations", "tasks", "trajectories", "steps")}
    numbers |= {
        "return": counts.ratio(("return",), ("trajectories",)),
        "episode_length": counts.ratio(steps, ("trajectories",)),
        "invalid_share": counts.ratio(("invalid",), steps),
        "peers_share": counts.ratio(("steps_with_peers",), steps),
        "inconsistency": 1.0 - counts.ratio(("pairs_agreeing",), ("pairs",))
        if counts.number("pairs")
        else 0.0,
        "mixed_share": counts.ratio(("steps_mixed",), steps),
        "baseline_shift": counts.ratio(("shift",), ("shift_steps",)),
        "baseline_shift_share": counts.ratio(("shift",), ("shift_scale",)),
        "history_effect": history_effect(counts),
        "coverage": counts.ratio(("covered",), steps),
        "loop_dominated_share": counts.ratio(("loop_dominated",), steps),
        "loop_alone_share": counts.ratio(("loop_alone",), steps),
        "revisit_share": counts.ratio(("revisits",), steps),
        "aliased_share": counts.ratio(("aliased",), steps),
        "flat_task_share": counts.ratio(("tasks_flat",), ("tasks",)),
        "flat_won_share": counts.ratio(("tasks_flat_won",), ("tasks",)),
        "flat_lost_share": counts.ratio(("tasks_flat_lost",), ("tasks",)),
        "single_task_share": counts.ratio(("tasks_single",), ("tasks",)),
    }
    if ("successes",) in counts:
        numbers["success"] = counts.ratio(("successes",), ("trajectories",))
    return numbers


def history_effect(counts: Counts) -> float:
    """Share of the variance of returns inside groups of equal state that the history explains, 0 to 1.

    Mean squares, not sums, are compared, so that splitting groups at random explains nothing on average.
    """
    state = counts.ratio(("history", "state", "squares"), ("history", "state", "freedom"))
    context = counts.ratio(("history", "context", "squares"), ("history", "context", "freedom"))
    if state <= 0 or not counts.number("history", "context", "freedom"):
        return 0.0
    return min(1.0, max(0.0, 1.0 - context / state))


def levels(counts: Counts) -> list[dict[str, Any]]:
    """One entry per level of the hierarchy of groups."""
    return [_level(counts, number) for number in sorted(counts.names("level"))]


def _level(counts: Counts, number: int) -> dict[str, Any]:
    key = ("level", number)
    steps, all_steps = (*key, "steps"), counts.number("steps")
    total, within = counts.number(*key, "total", "squares"), counts.number(*key, "within", "squares")
    rows = counts.number(*steps)
    freedom = counts.number(*key, "within", "freedom"), counts.number(*key, "total", "freedom")
    return {
        "level": number,
        "steps": rows,
        "groups": counts.number(*key, "groups"),
        "mean_size": counts.ratio(steps, (*key, "groups")),
        "peers_share": counts.number(*key, "with_peers") / all_steps if all_steps else 0.0,
        "other_trajectory_share": counts.number(*key, "with_other_trajectory") / all_steps
        if all_steps
        else 0.0,
        "singleton_share": counts.ratio((*key, "singletons"), steps),
        "constant_share": counts.ratio((*key, "constant"), (*key, "shared")),
        "signal_share": counts.ratio((*key, "used"), steps),
        "tiny_share": counts.ratio((*key, "tiny"), (*key, "used")),
        "abs_advantage": counts.ratio((*key, "abs_value"), steps),
        "mean_weight": counts.number(*key, "weight") / all_steps if all_steps else 0.0,
        "advantage_share": counts.ratio((*key, "contribution"), ("contributions",)),
        "sign_agreement": counts.ratio((*key, "sign_agree"), (*key, "sign_counted"))
        if counts.number(*key, "sign_counted")
        else None,
        "variance_within": within / rows if rows else 0.0,
        "variance_between": max(0.0, total - within) / rows if rows else 0.0,
        "explained": _explained(total, within, freedom),
        "groups_by_size": dict(zip(BIN_NAMES, counts.array(*key, "group_bins"))),
        "steps_by_size": dict(zip(BIN_NAMES, counts.array(*key, "step_bins"))),
    }


def _explained(total: float, within: float, freedom: tuple[float, float]) -> float:
    """Share of the variance inside tasks that the groups explain, by mean squares."""
    inside, outside = freedom
    if total <= 0 or inside <= 0 or outside <= 0:
        return 0.0
    return min(1.0, max(0.0, 1.0 - (within / inside) / (total / outside)))


def estimators(counts: Counts) -> dict[str, dict[str, Any]]:
    """One entry per estimator."""
    steps = counts.number("steps")
    entries = {}
    for name in counts.names("estimator"):
        key = ("estimator", name)
        mean = counts.number(*key, "sum") / steps
        terms = counts.names(*key, "term")
        total = sum(counts.number(*key, "term", term, "contribution") for term in terms)
        entries[name] = {
            "mean": mean,
            "std": math.sqrt(max(0.0, counts.number(*key, "squares") / steps - mean * mean)),
            "abs_mean": counts.number(*key, "abs") / steps,
            "penalty_share": counts.ratio((*key, "penalty"), (*key, "abs")),
            "zero_share": counts.number(*key, "zero") / steps,
            "positive_share": counts.number(*key, "positive") / steps,
            "silent_task_share": counts.ratio((*key, "tasks_without_signal"), ("tasks",)),
            "terms": {
                term: {
                    "advantage_share": counts.number(*key, "term", term, "contribution") / total
                    if total
                    else 0.0,
                    "mean_weight": counts.number(*key, "term", term, "weight") / steps,
                    "used_share": counts.number(*key, "term", term, "steps") / steps,
                }
                for term in terms
            },
        }
    return entries


def pairs(counts: Counts) -> list[dict[str, Any]]:
    """One entry per pair of estimators: where and by how much they disagree."""
    steps = counts.number("steps")
    entries = []
    for one in counts.names("pair"):
        for other in counts.names("pair", one):
            key = ("pair", one, other)
            entries.append(
                {
                    "first": one,
                    "second": other,
                    "sign_disagreement": counts.ratio((*key, "opposite"), (*key, "both")),
                    "opposite_steps": counts.number(*key, "opposite"),
                    "only_first_share": counts.number(*key, "only_first") / steps,
                    "only_second_share": counts.number(*key, "only_second") / steps,
                    "mean_difference": counts.number(*key, "difference") / steps,
                    "mean_opposite_difference": counts.ratio(
                        (*key, "opposite_difference"), (*key, "opposite")
                    ),
                    "correlation": _correlation(counts.array(*key, "moments"), steps),
                }
            )
    return entries


def _correlation(moments: list[float], steps: float) -> float | None:
    a, b, ab, aa, bb = moments
    spread = (aa / steps - (a / steps) ** 2) * (bb / steps - (b / steps) ** 2)
    if spread <= 0:
        return None
    return max(-1.0, min(1.0, (ab / steps - a * b / steps**2) / math.sqrt(spread)))


def types(counts: Counts) -> list[dict[str, Any]]:
    """Success by task type."""
    entries = []
    for name in counts.names("type"):
        key = ("type", name)
        entry = {
            "type": name,
            "trajectories": counts.number(*key, "trajectories"),
            "return": counts.ratio((*key, "return"), (*key, "trajectories")),
        }
        if (*key, "successes") in counts:
            entry["success"] = counts.ratio((*key, "successes"), (*key, "trajectories"))
        entries.append(entry)
    return sorted(entries, key=lambda entry: str(entry["type"]))
