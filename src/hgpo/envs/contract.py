"""What an environment is: text in, text out, and a task id that decides the whole episode.

An environment that follows this contract works with every part of the package: playing, training,
evaluation, the distributed engine. Conventions are Gymnasium's: `terminated` (the task ended) is apart from
`truncated` (time ran out), and a seed is keyword-only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable


@dataclass(frozen=True)
class Observation:
    """What the agent sees at the start of an episode.

    The contract of the text: everything the agent may know is in `text` (the task sentence included, at
    reset) and in `admissible`.
    """

    text: str
    """The observation as shown to the agent."""
    admissible: Sequence[str] = ()
    """Commands, or templates such as `search[...]`, that do something now; empty if there are none."""
    info: Mapping[str, Any] = field(default_factory=dict)
    """Anything else, JSON-like values only. Four keys mean something: `goal`, the task in words, stands in every prompt
    of the episode; `task_type` names the kind of task in reports; `status` says what the agent knows of itself and
    the text does not show (it stands in prompts with `agent.show_status`); `state_key` is a text that is the same for
    the same state (estimators compare by it with `key=state_key`). The last two are of every transition, too."""


@dataclass(frozen=True)
class Transition:
    """What one action led to."""

    text: str
    """The observation after the action."""
    reward: float = 0.0
    """The training reward of this step."""
    terminated: bool = False
    """The episode ended because of what happened in it."""
    truncated: bool = False
    """The episode was cut because its step limit was reached."""
    admissible: Sequence[str] = ()
    """Commands that do something now."""
    success: bool = False
    """The task is solved."""
    score: float = 0.0
    """How well the task is solved so far, 0 to 1; equals `success` where there are no degrees."""
    info: Mapping[str, Any] = field(default_factory=dict)
    """Anything else, JSON-like."""

    @property
    def done(self) -> bool:
        """The episode is over, for either reason."""
        return self.terminated or self.truncated


@runtime_checkable
class TextEnv(Protocol):
    """One live episode at a time over a set of tasks.

    A task id (with a seed where the environment is random) fully determines the episode on every machine.

    An attribute `world_version` (a whole number, 1 where there is none) may say which version of its world an
    environment is: raise it by one when the same actions in the same task get other answers. Results of different
    versions are never compared.

    A method `clone()` may return an independent copy in the middle of the episode; the lab values states with it.
    """

    @property
    def splits(self) -> Sequence[str]:
        """Names of the task sets, for example `("train", "in-domain", "out-of-domain")`."""
        ...

    def tasks(self, split: str) -> Sequence[str]:
        """The task ids of a split, always in the same order."""
        ...

    def reset(self, task: str, *, seed: int | None = None) -> Observation:
        """Start the episode of `task`; any unfinished one is forgotten."""
        ...

    def step(self, action: str) -> Transition:
        """Do one action. An action that makes no sense is answered in words, never by an exception."""
        ...

    def close(self) -> None:
        """Release what the environment holds; it is not used afterwards."""
        ...
