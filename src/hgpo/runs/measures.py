"""The numbers of an iteration: what goes into metrics.jsonl beside what the parts report themselves."""

from __future__ import annotations

import time
from collections.abc import Mapping

from ..learn.selection import distinct_prompt_share
from ..policies.engine import Counters
from ..steps.batch import StepBatch


class Phases:
    """A stopwatch: `end("rollout")` books the time since the last phase ended under that name."""

    def __init__(self) -> None:
        self.began = self.last = time.monotonic()
        self.seconds: dict[str, float] = {}

    def end(self, name: str) -> None:
        """The phase `name` is over."""
        now = time.monotonic()
        self.seconds[name] = now - self.last
        self.last = now

    @property
    def total(self) -> float:
        """From the start to the end of the last phase."""
        return self.last - self.began

    def metrics(self) -> dict[str, float]:
        """`seconds` and `seconds/<phase>`."""
        return {
            "seconds": self.total,
            **{f"seconds/{name}": value for name, value in self.seconds.items()},
        }


def iteration_measures(
    played: Mapping[str, float],
    sampled: Counters,
    trained: StepBatch,
    losses: Mapping[str, float],
    phases: Phases,
) -> dict[str, float]:
    """Speed and padding of one iteration.

    Args:
        played: metrics of the rollout.
        sampled: what generation did.
        trained: the steps of the update.
        losses: metrics of the update; empty when there was none.
        phases: its time.
    """
    tokens = played["prompt_tokens"] + played["response_tokens"]
    return {
        **phases.metrics(),
        "seconds/generate": sampled.seconds,
        "tokens_per_second": tokens / max(1e-9, phases.total - phases.seconds["eval"]),
        "train/distinct_prompt_share": distinct_prompt_share(trained),
        "train/tokens_per_second": losses.get("train/tokens", 0.0) / max(1e-9, phases.seconds["update"]),
        "rollout/padding_share": sampled.padded_tokens
        / max(1, sampled.padded_tokens + sampled.prompt_tokens),
    }
