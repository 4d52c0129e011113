"""What a run says, once, when its metrics tell that something goes wrong.

The penalty for invalid actions makes most of the advantages; or the policy stops exploring: its entropy, or the variety
of its actions, has collapsed.

Group estimators live on rollouts that differ. A policy that always does the same in the same place gets no advantages,
and one whose entropy falls to a fraction of what it was has mostly learned its training rooms by heart.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..estimators.penalty import HIGH_PENALTY_SHARE

PENALTY_SHARE = "estimator/advantage/penalty_share"

FIRST = 3
"""Iterations whose mean is what the policy began with."""

SHARE, SMALL = 1 / 3, 0.1
"""A value has collapsed when it is under this share of its beginning, and small besides: a policy that began wide open
may well settle."""

WATCHED = {
    "entropy": "The entropy of the policy",
    "action_disagreement": "How often rollouts act differently where they see the same (action_disagreement)",
}
"""Metric -> its name in the message."""

REMEDY = (
    "Its rollouts grow alike, and what it learns now may not hold in other rooms. A smaller update.lr or a falling "
    "update.schedule, update.kl_coef=0.01, update.entropy_coef=0.001 or update.clip_high=0.28 keep it open "
    "(docs/training.md)."
)


KL = "kl_old"
FAR = 0.1
"""A policy that is this far (kl_old) from the one that played has left what its episodes can tell it about.

Healthy runs stay under 0.03."""


@dataclass(frozen=True)
class Alarm:
    """Something that is to be said about an iteration."""

    iteration: int
    metric: str
    sentence: str

    def __str__(self) -> str:
        return f"iteration {self.iteration}: {self.sentence}"


@dataclass
class Alarms:
    """Watches the rows of metrics.jsonl; each alarm is given once."""

    first: dict[str, list[float]] = field(default_factory=dict)
    given: set[str] = field(default_factory=set)

    @classmethod
    def after(cls, rows: Sequence[Mapping[str, Any]]) -> Alarms:
        """As it stands after the rows of the iterations so far, so that a resumed run does not repeat itself."""
        alarms = cls()
        for row in rows:
            alarms.check(row)
        return alarms

    def check(self, row: Mapping[str, Any]) -> list[str]:
        """What is to be said after the iteration of `row`."""
        return [str(alarm) for alarm in self.raised(row)]

    def raised(self, row: Mapping[str, Any]) -> list[Alarm]:
        """The alarms of the iteration of `row`, each metric's the first time only."""
        said = [
            Alarm(row["iteration"], metric, sentence)
            for metric, sentence in self._sentences(row)
            if metric not in self.given
        ]
        self.given.update(alarm.metric for alarm in said)
        return said

    def _sentences(self, row: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        penalty = row.get(PENALTY_SHARE, 0.0)
        if penalty > HIGH_PENALTY_SHARE:
            yield (
                PENALTY_SHARE,
                f"{min(1.0, penalty):.0%} of the advantages come from the penalty for invalid actions, not from "
                "success. If success falls, set invalid_penalty=0, agent.inadmissible_is_invalid=false or "
                "estimator.std_floor=1.0 (docs/training.md).",
            )
        moved = row.get(KL)
        if moved is not None and moved > FAR:
            yield (
                KL,
                f"The policy moved away from the one that played (kl_old) by {moved:.3f}; under 0.03 is usual. "
                "A smaller update.lr, fewer update.epochs or a smaller update.clip_high keep an update near its "
                "episodes (docs/training.md).",
            )
        for name, words in WATCHED.items():
            value = row.get(name)
            if value is None or row["iteration"] < 1:
                continue
            began = self.first.setdefault(name, [])
            if len(began) < FIRST:
                began.append(float(value))
            start = sum(began) / len(began)
            if value < min(SHARE * start, SMALL):
                yield name, f"{words} is {value:.3f}, it began at {start:.3f}. {REMEDY}"
