"""What the lab compares: estimators with settings, under a label."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ..errors import UnknownName
from ..estimators.table import ESTIMATORS
from ..settings import parse_all, settings_of


@dataclass(frozen=True)
class Entry:
    """An estimator as the lab runs it."""

    label: str
    estimator: str
    settings: dict[str, Any] = field(default_factory=dict)
    needs: str = ""
    """A column without which there is nothing to measure: the entry is then left out."""


OURS = "hgpo_lambda"
ENTRIES: dict[str, Entry] = {
    entry.label: entry
    for entry in (
        Entry("grpo", "grpo", {"normalise_over": "trajectories"}),
        Entry("grpo_rows", "grpo", {"normalise_over": "steps"}),
        Entry("dr_grpo", "dr_grpo"),
        Entry("rloo", "rloo"),
        Entry("reinforce_plus_plus", "reinforce_plus_plus"),
        Entry("gigpo", "gigpo"),
        Entry("gigpo_mean", "gigpo", {"mode": "mean_norm"}),
        Entry("hgpo", "hgpo"),
        Entry("hgpo_mean", "hgpo", {"mode": "mean_norm"}),
        Entry("hgpo_paper", "hgpo", {"variant": "paper"}),
        Entry("hgpo_shrinkage", "hgpo", {"weight_type": "shrinkage"}),
        Entry("graphgpo", "graphgpo"),
        Entry("g2po", "g2po"),
        Entry(OURS, "hgpo_lambda"),
    )
}

LEARNERS = ("grpo", "gigpo", "hgpo", "hgpo_mean", "hgpo_shrinkage", "graphgpo", "g2po", OURS)
"""Those that also train policies: one of each family, since a run costs as much as many measurements."""


LEVELLED = ("hgpo", "hgpo_mean", OURS)
"""Those whose levels are also measured one by one."""
LAMBDAS = (0.0, 0.25, 0.5, 0.75, 0.9, 1.0)


def lambdas() -> list[Entry]:
    """Ours by lambda, measured wherever the estimators are, to say which suits how many tasks an update."""
    return [Entry(f"{OURS} lam={lam:g}", OURS, {"lam": lam}) for lam in LAMBDAS if lam != 0.5]


def ablations() -> list[Entry]:
    """The variations that the released code cannot run, and those of our own estimator.

    First come the estimators as they are: the others are compared with the one of the same name.
    """
    entries = [Entry(name, name) for name in ("hgpo", OURS, "g2po", "graphgpo")]
    entries += [Entry(f"hgpo depth={depth}", "hgpo", {"depth": depth}) for depth in (0, 1, 4)]
    entries += [
        Entry(f"hgpo alpha={alpha:g}", "hgpo", {"length_weight_alpha": alpha}) for alpha in (0.0, 2.0)
    ]
    entries += [
        Entry("hgpo base_group=true", "hgpo", {"base_group": True}),
        Entry("hgpo key=observation_action", "hgpo", {"key": "observation_action"}),
        Entry("hgpo mode=mean_norm", "hgpo", {"mode": "mean_norm"}),
        Entry("hgpo peers=other_trajectory", "hgpo", {"peers": "other_trajectory"}),
        Entry("hgpo baseline=leave_one_out", "hgpo", {"baseline": "leave_one_out"}),
        Entry("hgpo shrinkage", "hgpo", {"weight_type": "shrinkage"}),
        Entry(
            "hgpo shrinkage leave_one_out", "hgpo", {"weight_type": "shrinkage", "baseline": "leave_one_out"}
        ),
    ]
    ours: dict[str, Sequence[Any]] = {
        "lam": LAMBDAS,
        "depth": (0, 1, 2, 4, 8),
        "sweeps": (0, 1, 2, 20),
        "shrinkage": ("none",),
        "pool_actions": (False,),
        "baseline": ("leave_one_out",),
        "key": ("observation_action",),
    }
    for name, values in ours.items():
        entries += [Entry(f"{OURS} {name}={_text(value)}", OURS, {name: value}) for value in values]
    entries.append(Entry(f"{OURS} lam=0 depth=0 plain", OURS, PLAIN))
    entries.append(Entry(f"{OURS} lam=0 depth=0 plain, no sweeps", OURS, {**PLAIN, "sweeps": 0}))
    entries.append(Entry("g2po mean_norm", "g2po", {"mode": "mean_norm"}))
    entries.append(Entry("g2po mean_norm, no episode term", "g2po", {"mode": "mean_norm", "episode_w": 0.0}))
    entries.append(Entry("g2po depth=2", "g2po", {"depth": 2}))
    entries.append(Entry("graphgpo gamma=0.95", "graphgpo", {"gamma": 0.95}))
    entries.append(Entry("graphgpo depth=2", "graphgpo", {"depth": 2}))
    return entries


PLAIN = {"lam": 0.0, "depth": 0, "shrinkage": "none", "pool_actions": False}


def with_engine() -> list[Entry]:
    """What is measured in a real engine: all of the above, and the settings that are in question there."""
    depths = [Entry(f"{OURS} depth={depth}", OURS, {"depth": depth}) for depth in (0, 1, 4)]
    depths += [Entry(f"hgpo depth={depth}", "hgpo", {"depth": depth}) for depth in (0, 1, 4)]
    cuts = [
        Entry(f"{OURS} time_limit=cut", OURS, {"time_limit": "cut"}),
        Entry(f"{OURS} lam=0 time_limit=cut", OURS, {"lam": 0.0, "time_limit": "cut"}),
    ]
    fitted: list[dict[str, Any]] = [
        {"value_lam": 0.9},
        {"prior": 0.5},
        {"value_lam": 0.9, "prior": 0.5},
        {"value_lam": 0.9, "prior": 0.5, "time_limit": "cut"},
        {"value_lam": 0.9, "prior": 0.5, "lam": 0.25},
    ]
    values = [Entry(_label(OURS, settings), OURS, settings) for settings in fitted]
    taken_apart: list[dict[str, Any]] = [
        {"episode_w": 0.0},
        {"episode_w": 0.0, "mode": "mean_norm"},
        {"step_advantage_w": 0.0},
    ]
    parts = [Entry(_label("g2po", settings), "g2po", settings) for settings in taken_apart]
    return [*ENTRIES.values(), *lambdas(), *depths, *cuts, *values, *parts, *known_states()]


def known_states() -> list[Entry]:
    """The estimators that compare states, told by the environment which state it is instead of by what is seen."""
    names = ("gigpo", "hgpo", "graphgpo", "g2po", OURS)
    settings: list[tuple[str, dict[str, Any]]] = [(name, {"key": "state_key"}) for name in names]
    settings += [
        (OURS, {"key": "state_key", **more}) for more in ({"prior": 1.0}, {"prior": 1.0, "lam": 0.25})
    ]
    return [Entry(_label(name, chosen), name, chosen, "state_key") for name, chosen in settings]


def _label(name: str, settings: dict[str, Any]) -> str:
    return " ".join([name, *(f"{key}={_text(value)}" for key, value in settings.items())])


def choose(names: Sequence[str] | None) -> list[Entry]:
    """Entries by label, by estimator name, or as `name:setting=value:...`; all of them for None."""
    if not names:
        return list(ENTRIES.values())
    return [_entry(name) for name in names]


def _entry(text: str) -> Entry:
    if text in ENTRIES:
        return ENTRIES[text]
    name, *pairs = text.split(":")
    if name not in ESTIMATORS:
        raise UnknownName("estimator", name, {*ENTRIES, *ESTIMATORS})
    settings = parse_all(pairs, settings_of(ESTIMATORS[name].settings), f"estimator {name!r}")
    return Entry(text, name, settings)


def _text(value: object) -> str:
    return (
        str(value).lower()
        if isinstance(value, bool)
        else f"{value:g}"
        if isinstance(value, float)
        else str(value)
    )
