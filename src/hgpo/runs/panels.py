"""Panels: frozen lists of tasks with a digest, so that two results are known to be about the same thing."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..errors import PanelMismatch

# Where data lies and how it is run does not change what the tasks are.
INCIDENTAL = ("data", "engine", "workers", "step_timeout")


@dataclass(frozen=True)
class Panel:
    """The tasks of an evaluation, each played once per seed."""

    env: str
    """Name of the environment."""
    split: str
    """Name of the split."""
    tasks: tuple[str, ...]
    """Task ids in order."""
    max_steps: int
    """Longest episode; part of the protocol."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the environment."""

    @property
    def digest(self) -> str:
        """First 16 hex digits of the sha256 over everything that decides the episodes."""
        world = {key: value for key, value in self.settings.items() if key not in INCIDENTAL}
        content = [self.env, self.split, sorted(world.items()), list(self.tasks), self.max_steps]
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]

    def summary(self) -> dict[str, Any]:
        """What is stored with a result."""
        return {
            "env": self.env,
            "split": self.split,
            "tasks": len(self.tasks),
            "max_steps": self.max_steps,
            "digest": self.digest,
        }


def same_panel(digests: Mapping[str, str]) -> None:
    """Refuse names whose digests differ."""
    if len(set(digests.values())) > 1:
        shown = ", ".join(f"{name}: {digest}" for name, digest in digests.items())
        raise PanelMismatch(
            f"These results are about different task panels ({shown}), so their numbers cannot be compared. "
            "Evaluate them again with the same environment, split, tasks and max_steps."
        )


def spread(tasks: Sequence[str], limit: int) -> tuple[str, ...]:
    """`limit` tasks evenly spaced over the list (so that all types appear); all when `limit` is 0."""
    if not limit or limit >= len(tasks):
        return tuple(tasks)
    return tuple(tasks[index * len(tasks) // limit] for index in range(limit))
