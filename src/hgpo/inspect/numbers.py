"""From counts to the numbers of a report: shares, means and spreads."""

from __future__ import annotations

import math
from typing import Any

from ..estimators.metrics import BIN_NAMES
from .tally import Tally


def summary(tally: Tally) -> dict[str, float]:
    """The plain numbers of all rollouts, or of one iteration."""
    steps = ("steps",)
    found = {name: tally.number(name) for name in ("iterations", "tasks", "trajectories", "steps")}
    found |= {
        "return": tally.ratio(("return",), ("trajectories",)),
        "episode_length": tally.ratio(steps, ("trajectories",)),
        "invalid_share": tally.ratio(("invalid",), steps),
        "peers_share": tally.ratio(("steps_with_peers",), steps),
        "inconsistency": 1.0 - tally.ratio(("pairs_agreeing",), ("pairs",)) if tally.number("pairs") else 0.0,
        "mixed_share": tally.ratio(("steps_mixed",), steps),
        "baseline_shift": tally.ratio(("shift",), ("shift_steps",)),
        "baseline_shift_share": tally.ratio(("shift",), ("shift_scale",)),
        "history_effect": history_effect(tally),
        "coverage": tally.ratio(("covered",), steps),
        "loop_dominated_share": tally.ratio(("loop_dominated",), steps),
        "loop_alone_share": tally.ratio(("loop_alone",), steps),
        "revisit_share": tally.ratio(("revisits",), steps),
        "aliased_share": tally.ratio(("aliased",), steps),
        "flat_task_share": tally.ratio(("tasks_flat",), ("tasks",)),
        "flat_won_share": tally.ratio(("tasks_flat_won",), ("tasks",)),
        "flat_lost_share": tally.ratio(("tasks_flat_lost",), ("tasks",)),
        "single_task_share": tally.ratio(("tasks_single",), ("tasks",)),
    }
    if ("successes",) in tally:
        found["success"] = tally.ratio(("successes",), ("trajectories",))
    return found


def history_effect(tally: Tally) -> float:
    """Share of the variance of returns inside groups of equal state that the history explains, 0 to 1.

    Mean squares, not sums, are compared, so that splitting groups at random explains nothing on average.
    """
    state = tally.ratio(("history", "state", "squares"), ("history", "state", "freedom"))
    context = tally.ratio(("history", "context", "squares"), ("history", "context", "freedom"))
    if state <= 0 or not tally.number("history", "context", "freedom"):
        return 0.0
    return min(1.0, max(0.0, 1.0 - context / state))


def levels(tally: Tally) -> list[dict[str, Any]]:
    """One entry per level of the hierarchy of groups."""
    return [_level(tally, number) for number in sorted(tally.names("level"))]


def _level(tally: Tally, number: int) -> dict[str, Any]:
    key = ("level", number)
    steps, all_steps = (*key, "steps"), tally.number("steps")
    total, within = tally.number(*key, "total", "squares"), tally.number(*key, "within", "squares")
    rows = tally.number(*steps)
    freedom = tally.number(*key, "within", "freedom"), tally.number(*key, "total", "freedom")
    return {
        "level": number,
        "steps": rows,
        "groups": tally.number(*key, "groups"),
        "mean_size": tally.ratio(steps, (*key, "groups")),
        "peers_share": tally.number(*key, "with_peers") / all_steps if all_steps else 0.0,
        "other_trajectory_share": tally.number(*key, "with_other_trajectory") / all_steps
        if all_steps
        else 0.0,
        "singleton_share": tally.ratio((*key, "alone"), steps),
        "constant_share": tally.ratio((*key, "constant"), (*key, "shared")),
        "signal_share": tally.ratio((*key, "used"), steps),
        "tiny_share": tally.ratio((*key, "tiny"), (*key, "used")),
        "abs_advantage": tally.ratio((*key, "abs_value"), steps),
        "mean_weight": tally.number(*key, "weight") / all_steps if all_steps else 0.0,
        "advantage_share": tally.ratio((*key, "contribution"), ("contributions",)),
        "sign_agreement": tally.ratio((*key, "sign_agree"), (*key, "sign_counted"))
        if tally.number(*key, "sign_counted")
        else None,
        "variance_within": within / rows if rows else 0.0,
        "variance_between": max(0.0, total - within) / rows if rows else 0.0,
        "explained": _explained(total, within, freedom),
        "groups_by_size": dict(zip(BIN_NAMES, tally.array(*key, "group_bins"))),
        "steps_by_size": dict(zip(BIN_NAMES, tally.array(*key, "step_bins"))),
    }


def _explained(total: float, within: float, freedom: tuple[float, float]) -> float:
    """Share of the variance inside tasks that the groups explain, by mean squares."""
    inside, outside = freedom
    if total <= 0 or inside <= 0 or outside <= 0:
        return 0.0
    return min(1.0, max(0.0, 1.0 - (within / inside) / (total / outside)))


def estimators(tally: Tally) -> dict[str, dict[str, Any]]:
    """One entry per estimator."""
    steps = tally.number("steps")
    found = {}
    for name in tally.names("estimator"):
        key = ("estimator", name)
        mean = tally.number(*key, "sum") / steps
        terms = tally.names(*key, "term")
        total = sum(tally.number(*key, "term", term, "contribution") for term in terms)
        found[name] = {
            "mean": mean,
            "std": math.sqrt(max(0.0, tally.number(*key, "squares") / steps - mean * mean)),
            "abs_mean": tally.number(*key, "abs") / steps,
            "penalty_share": tally.ratio((*key, "penalty"), (*key, "abs")),
            "zero_share": tally.number(*key, "zero") / steps,
            "positive_share": tally.number(*key, "positive") / steps,
            "silent_task_share": tally.ratio((*key, "tasks_silent"), ("tasks",)),
            "terms": {
                term: {
                    "advantage_share": tally.number(*key, "term", term, "contribution") / total
                    if total
                    else 0.0,
                    "mean_weight": tally.number(*key, "term", term, "weight") / steps,
                    "used_share": tally.number(*key, "term", term, "steps") / steps,
                }
                for term in terms
            },
        }
    return found


def pairs(tally: Tally) -> list[dict[str, Any]]:
    """One entry per pair of estimators: where and by how much they disagree."""
    steps = tally.number("steps")
    found = []
    for one in tally.names("pair"):
        for other in tally.names("pair", one):
            key = ("pair", one, other)
            found.append(
                {
                    "first": one,
                    "second": other,
                    "sign_disagreement": tally.ratio((*key, "opposite"), (*key, "both")),
                    "opposite_steps": tally.number(*key, "opposite"),
                    "only_first_share": tally.number(*key, "only_first") / steps,
                    "only_second_share": tally.number(*key, "only_second") / steps,
                    "mean_difference": tally.number(*key, "difference") / steps,
                    "mean_opposite_difference": tally.ratio(
                        (*key, "opposite_difference"), (*key, "opposite")
                    ),
                    "correlation": _correlation(tally.array(*key, "moments"), steps),
                }
            )
    return found


def _correlation(moments: list[float], steps: float) -> float | None:
    a, b, ab, aa, bb = moments
    spread = (aa / steps - (a / steps) ** 2) * (bb / steps - (b / steps) ** 2)
    if spread <= 0:
        return None
    return max(-1.0, min(1.0, (ab / steps - a * b / steps**2) / math.sqrt(spread)))


def types(tally: Tally) -> list[dict[str, Any]]:
    """Success by task type."""
    found = []
    for name in tally.names("type"):
        key = ("type", name)
        entry = {
            "type": name,
            "trajectories": tally.number(*key, "trajectories"),
            "return": tally.ratio((*key, "return"), (*key, "trajectories")),
        }
        if (*key, "successes") in tally:
            entry["success"] = tally.ratio((*key, "successes"), (*key, "trajectories"))
        found.append(entry)
    return sorted(found, key=lambda entry: str(entry["type"]))
