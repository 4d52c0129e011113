"""Where an iteration's time goes."""

from __future__ import annotations

import time


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
