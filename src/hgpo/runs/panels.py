"""Panels: frozen lists of tasks with a digest, so that two results are known to be about the same thing."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..errors import PanelMismatch

# Where data lies and how it is run does not change what the tasks are; which rooms are held back shows in their list.
INCIDENTAL = ("data", "engine", "workers", "step_timeout", "validation_rooms")


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
    world_version: int = 1
    """The environment's `world_version`: which answers it gives to the same actions in the same task."""

    @property
    def world(self) -> dict[str, Any]:
        """The settings that decide what the tasks are."""
        return {key: value for key, value in sorted(self.settings.items()) if key not in INCIDENTAL}

    @property
    def digest(self) -> str:
        """First 16 hex digits of the sha256 over everything that decides the episodes.

        Digests that were recorded before worlds had versions are of first versions, and stay valid: the version
        enters from 2 on.
        """
        content = [self.env, self.split, sorted(self.world.items()), list(self.tasks), self.max_steps]
        if self.world_version != 1:
            content.append({"world_version": self.world_version})
        return _digest(content)

    def summary(self) -> PanelSummary:
        """What is stored with a result."""
        return PanelSummary(
            self.env,
            self.split,
            len(self.tasks),
            self.max_steps,
            self.world_version,
            self.digest,
            self.world,
            tasks_digest(self.tasks),
        )


@dataclass(frozen=True)
class PanelSummary:
    """A panel as it is stored with results: enough to tell two panels apart and to say in what they differ."""

    env: str = ""
    split: str = ""
    tasks: int = 0
    """How many tasks."""
    max_steps: int = 0
    world_version: int = 1
    digest: str = ""
    """`Panel.digest`."""
    settings: Mapping[str, Any] | None = None
    """The settings that decide what the tasks are; None in records of earlier versions."""
    tasks_digest: str = ""
    """Of the task ids alone; empty in records of earlier versions."""

    @classmethod
    def read(cls, content: Mapping[str, Any]) -> PanelSummary:
        """From JSON; raises KeyError where there is no digest."""
        known = {name: content[name] for name in cls.__dataclass_fields__ if name in content}
        return cls(**{**known, "digest": str(content["digest"])})

    def content(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "env": self.env,
            "split": self.split,
            "tasks": self.tasks,
            "max_steps": self.max_steps,
            "world_version": self.world_version,
            "digest": self.digest,
            "settings": None if self.settings is None else dict(self.settings),
            "tasks_digest": self.tasks_digest,
        }


def same_panel(panels: Mapping[str, PanelSummary]) -> None:
    """Refuse results of different panels, and say in which parts they differ.

    Raises:
        PanelMismatch: the digests are not all equal.
    """
    if len({panel.digest for panel in panels.values()}) < 2:
        return
    first, *others = panels.items()
    name, other = next(one for one in others if one[1].digest != first[1].digest)
    raise PanelMismatch(
        f"{first[0]} (panel {first[1].digest}) and {name} (panel {other.digest}) are about different task panels, so "
        f"their numbers cannot be compared. They differ in {'; '.join(_parts(first[1], other))}. Evaluate them again "
        "with the same environment, split, tasks and max_steps, and with one version of the package."
    )


def _parts(one: PanelSummary, two: PanelSummary) -> list[str]:
    """In what two panels differ, in words."""
    parts = []
    for label, field_name in (
        ("environment", "env"),
        ("split", "split"),
        ("number of tasks", "tasks"),
        ("max_steps", "max_steps"),
        ("version of the world", "world_version"),
    ):
        mine, theirs = getattr(one, field_name), getattr(two, field_name)
        if mine != theirs:
            parts.append(f"{label}: {mine} and {theirs}")
    if one.settings is not None and two.settings is not None:
        for key in sorted({*one.settings, *two.settings}):
            mine, theirs = one.settings.get(key, "not given"), two.settings.get(key, "not given")
            if mine != theirs:
                parts.append(f"setting {key} of the environment: {mine} and {theirs}")
    if (
        one.tasks == two.tasks
        and one.tasks_digest != two.tasks_digest
        and one.tasks_digest
        and two.tasks_digest
    ):
        parts.append("which tasks, or their order")
    return parts or ["settings of the environment, or which tasks (one record does not say)"]


def spread(tasks: Sequence[str], limit: int) -> tuple[str, ...]:
    """`limit` tasks evenly spaced over the list (so that all types appear); all when `limit` is 0."""
    if not limit or limit >= len(tasks):
        return tuple(tasks)
    return tuple(tasks[index * len(tasks) // limit] for index in range(limit))


def tasks_digest(tasks: Sequence[str]) -> str:
    """The digest of task ids in their order."""
    return _digest(list(tasks))


def _digest(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]
