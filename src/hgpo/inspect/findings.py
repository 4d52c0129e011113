"""What the numbers mean, in plain words, each with what to do about it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from ..estimators.penalty import HIGH_PENALTY_SHARE
from .text import printable


@dataclass(frozen=True)
class Finding:
    """One thing worth knowing."""

    name: str
    number: float
    sentence: str
    suggestion: str
    status: Literal["look", "fine"]
    """`look` where something should be done or understood."""


def findings(content: Mapping[str, Any]) -> list[dict[str, Any]]:
    """All findings of a report, those to look at first."""
    ordered = sorted(_all(content), key=lambda finding: finding.status != "look")
    return [asdict(finding) for finding in ordered]


def _all(content: Mapping[str, Any]) -> Iterator[Finding]:
    summary, levels = content["summary"], content["levels"]
    yield _peers(summary, levels)
    if len(levels) > 1:
        yield _mixed(summary, len(levels) - 1)
        yield _history(summary)
    yield _level_shares(content)
    yield from _disagreement(content)
    yield _no_signal(content)
    yield _zero(content)
    yield _aliasing(content)
    yield _loops(summary)
    yield _constant(levels)
    yield _tiny(levels)
    if summary["single_task_share"] > 0:
        yield _single(summary)
    if summary["invalid_share"] > 0:
        yield _invalid(summary)
    yield from _penalty(content)
    if content.get("recorded"):
        yield _recorded(content["recorded"])


def percent(share: float) -> str:
    """A share for a sentence."""
    if share in (0, 1):
        return f"{share:.0%}"
    if 0 < share < 0.001 or 0.999 < share < 1:
        return "under 0.1%" if share < 0.5 else "over 99.9%"
    return f"{100 * share:.1f}%" if share < 0.1 else f"{100 * share:.0f}%"


def _status(bad: bool) -> Literal["look", "fine"]:
    return "look" if bad else "fine"


def _peers(summary: Mapping[str, float], levels: list[dict[str, Any]]) -> Finding:
    listed = ", ".join(f"{percent(level['peers_share'])} at level {level['level']}" for level in levels)
    single = 1.0 - summary["peers_share"]
    bad = single > 0.35
    return Finding(
        "peers",
        single,
        f"Steps with at least one peer to be compared with: {listed} (level k shares the state and k steps of "
        f"history); {percent(single)} of all steps have no peer in their state.",
        "Play more rollouts per task, merge near-equal observations (--similarity 0.9), or give steps without a "
        "group the episode's advantage (fallback=episode)."
        if bad
        else "Enough to compare with; no change needed.",
        _status(bad),
    )


def _mixed(summary: Mapping[str, float], depth: int) -> Finding:
    number = summary["inconsistency"]
    bad = number > 0.25
    return Finding(
        "mixed_histories",
        number,
        f"{percent(number)} of the pairs of steps in the same state have different histories within their last "
        f"{depth} step{'s' if depth > 1 else ''}; {percent(summary['mixed_share'])} of all steps are compared with "
        f"such a step when only the state counts.",
        "Grouping by state alone (GiGPO) averages over different prompts here; use hgpo, and read history_effect "
        "for whether it matters to the outcome."
        if bad
        else "Same state nearly always means same history here, so state groups are close to exact ones.",
        _status(bad),
    )


def _history(summary: Mapping[str, float]) -> Finding:
    number = summary["history_effect"]
    bad = number > 0.1
    return Finding(
        "history_effect",
        number,
        f"History explains {percent(number)} of the variance of returns among steps in the same state; the baseline "
        f"moves by {summary['baseline_shift']:.3g} on average ({percent(summary['baseline_shift_share'])} of the "
        f"returns' deviation) when only steps with the same history are averaged.",
        "Deeper levels carry information: keep the depth at the memory length, or raise length_weight_alpha."
        if bad
        else "Deeper levels mostly repeat what the state says; a small depth is enough and keeps groups large.",
        _status(bad),
    )


def _level_shares(content: Mapping[str, Any]) -> Finding:
    name = next(iter(content["estimators"]))
    terms = content["estimators"][name]["terms"]
    listed = ", ".join(f"{percent(term['advantage_share'])} from {key}" for key, term in terms.items())
    largest = max(terms, key=lambda key: terms[key]["advantage_share"])
    share = terms[largest]["advantage_share"]
    bad = len(terms) > 1 and share > 0.8
    return Finding(
        "level_shares",
        share,
        f"Where the advantage of {name} comes from: {listed}.",
        f"Nearly all of it is {largest}: the other terms could be left out, or need larger groups to matter."
        if bad
        else "Several terms take part; length_weight_alpha shifts the balance between levels.",
        _status(bad),
    )


def _disagreement(content: Mapping[str, Any]) -> Iterator[Finding]:
    pairs = content["pairs"]
    if not pairs:
        return
    worst = max(pairs, key=lambda pair: pair["sign_disagreement"])
    listed = "; ".join(
        f"{pair['first']} and {pair['second']} on {percent(pair['sign_disagreement'])} (by "
        f"{pair['mean_opposite_difference']:.2f} on average)"
        for pair in pairs
    )
    bad = worst["sign_disagreement"] > 0.1
    yield Finding(
        "sign_disagreement",
        worst["sign_disagreement"],
        f"Of the steps where both are not zero, estimators disagree on the sign: {listed}.",
        "Open the steps listed under disagreements: those actions are pushed up by one estimator and down by the other."
        if bad
        else "The estimators push nearly all actions in the same direction.",
        _status(bad),
    )


def _no_signal(content: Mapping[str, Any]) -> Finding:
    summary = content["summary"]
    number = summary["flat_task_share"]
    flat = [task for task in content["tasks"] if task["flat"]]
    examples = ", ".join(printable(task["task"], 40) for task in flat[:3])
    split = ""
    if "success" in summary:
        split = (
            f" ({percent(summary['flat_won_share'])} all won, {percent(summary['flat_lost_share'])} all lost)"
        )
    bad = number > 0.25
    return Finding(
        "no_signal_tasks",
        number,
        f"{percent(number)} of the task groups have rollouts that all end with the same total reward{split}"
        + (f", for example {examples}." if examples else "."),
        "All-lost tasks are too hard and all-won ones too easy for now: choose tasks by success rate, play more "
        "rollouts of them, or filter such groups out of the update."
        if bad
        else "Most task groups have both better and worse rollouts to learn from.",
        _status(bad),
    )


def _zero(content: Mapping[str, Any]) -> Finding:
    shares = {name: entry["zero_share"] for name, entry in content["estimators"].items()}
    name = next(iter(shares))
    listed = ", ".join(f"{percent(share)} under {key}" for key, share in shares.items())
    bad = shares[name] > 0.3
    return Finding(
        "zero_advantage",
        shares[name],
        f"Steps with an advantage of exactly zero, which teach nothing: {listed}.",
        "Give them the episode's advantage (base_group=true or fallback=episode), or get more rollouts per task."
        if bad
        else "Few steps are wasted.",
        _status(bad),
    )


def _aliasing(content: Mapping[str, Any]) -> Finding:
    number, listed = content["summary"]["aliased_share"], content["aliases"]
    bad = number > 0.05
    sentence = (
        f"{percent(number)} of the steps have an observation that stands for more than one state of its task"
    )
    if listed:
        worst = listed[0]
        sentence += (
            f'; most often "{printable(worst["text"])}" ({worst["steps"]} steps, up to {worst["states"]} '
            f"{worst['evidence']} within one task)"
        )
    return Finding(
        "aliasing",
        number,
        sentence + ".",
        "Group by more than the text: --key observation_action, or record a state_key column and use --key state_key; "
        "deeper levels also separate such steps."
        if bad
        else "Observations identify states well enough.",
        _status(bad),
    )


def _loops(summary: Mapping[str, float]) -> Finding:
    number = summary["loop_dominated_share"] + summary["loop_alone_share"]
    bad = number > 0.1
    return Finding(
        "loops",
        number,
        f"{percent(summary['loop_dominated_share'])} of the steps are in a state group where one trajectory's own "
        f"returns to the state are the majority, and {percent(summary['loop_alone_share'])} have no peer but "
        f"themselves; {percent(summary['revisit_share'])} of all steps revisit a state.",
        "Do not compare a loop with itself: --peers other_trajectory, --baseline leave_one_out."
        if bad
        else "Loops do not dominate the groups.",
        _status(bad),
    )


def _constant(levels: list[dict[str, Any]]) -> Finding:
    listed = ", ".join(f"{percent(level['constant_share'])} at level {level['level']}" for level in levels)
    deepest = levels[-1]["constant_share"]
    bad = deepest > 0.6
    return Finding(
        "constant_groups",
        deepest,
        f"Groups with peers whose returns are all equal, so that nothing can be compared: {listed}.",
        "Usual when tasks are nearly always won or lost; see no_signal_tasks, or use skip=group so that such levels "
        "leave their weight to the others."
        if bad
        else "Most groups have something to compare.",
        _status(bad),
    )


def _tiny(levels: list[dict[str, Any]]) -> Finding:
    worst = max(levels, key=lambda level: level["tiny_share"])
    number = worst["tiny_share"]
    bad = number > 0.1
    return Finding(
        "tiny_spread",
        number,
        f"At level {worst['level']}, {percent(number)} of the steps with signal are in groups whose returns differ by "
        f"less than a twentieth of the usual deviation, yet after division by it they count as much as the others.",
        "Set a floor in reward units (--std-floor 0.5), or do not divide (--mode mean_norm)."
        if bad
        else "No small differences are blown up by dividing by a group's deviation.",
        _status(bad),
    )


def _single(summary: Mapping[str, float]) -> Finding:
    number = summary["single_task_share"]
    return Finding(
        "single_rollouts",
        number,
        f"{percent(number)} of the task groups have a single rollout, which has nothing to be compared with.",
        "Check that the task column is the same for all rollouts of a task, and play several rollouts per task.",
        "look",
    )


def _invalid(summary: Mapping[str, float]) -> Finding:
    number = summary["invalid_share"]
    bad = number > 0.1
    return Finding(
        "invalid_actions",
        number,
        f"{percent(number)} of the actions were not valid.",
        "Check the prompt's format request and the parser, or warm up on demonstrations; a penalty alone is slow."
        if bad
        else "The policy keeps to the format.",
        _status(bad),
    )


def _penalty(content: Mapping[str, Any]) -> Iterator[Finding]:
    shares = {name: entry["penalty_share"] for name, entry in content["estimators"].items()}
    if not any(shares.values()):
        return
    name = next(iter(shares))
    listed = ", ".join(f"{percent(min(1.0, share))} under {key}" for key, share in shares.items())
    bad = shares[name] > HIGH_PENALTY_SHARE
    yield Finding(
        "penalty",
        shares[name],
        f"How much of the advantages the penalty for invalid actions makes, rather than success: {listed}.",
        "It outweighs success: set it to 0 (invalid_penalty=0), count malformed replies only "
        "(agent.inadmissible_is_invalid=false), or put a floor under the deviation (std_floor=1.0)."
        if bad
        else "Success decides; no change needed.",
        _status(bad),
    )


def _recorded(recorded: Mapping[str, Any]) -> Finding:
    number = recorded["largest_difference"]
    bad = number > 1e-6 * max(1.0, recorded["largest"])
    return Finding(
        "recorded_advantages",
        number,
        f"The advantages stored with the rollouts differ from {recorded['estimator']} computed here by at most "
        f"{number:.2g}.",
        "Other settings or another version computed them: compare the settings in the run's config.json."
        if bad
        else "What was trained on is what is shown here.",
        _status(bad),
    )
