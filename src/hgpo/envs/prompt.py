"""What a prompt may contain, and the words in which an environment wants its situations written.

A folder of environments brings its words as `PROMPT` in a module `prompt`; the prompt style of the folder's name
is written with them (`hgpo.play.prompts`). Any other environment may have a method `prompt(situation) -> str`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Remembered:
    """One earlier step as the agent remembers it."""

    step: int
    """Index of the step in its episode, from 0."""
    observation: str
    """What the agent saw before acting."""
    action: str
    """What it did, as sent to the environment."""


@dataclass(frozen=True)
class Situation:
    """All that a prompt may contain."""

    task: str
    """The task sentence."""
    observation: str
    """What the agent sees now; at step 0 this usually contains the task as well."""
    history: Sequence[Remembered] = ()
    """What the memory recalls, oldest first."""
    step: int = 0
    """How many actions were taken before this one."""
    admissible: Sequence[str] = ()
    """Commands that do something now; empty when unknown or not to be shown."""
    status: str = ""
    """What the agent knows of itself without looking, such as what it carries; empty when not to be shown."""


@dataclass(frozen=True)
class PromptWords:
    """The words of an environment's prompt."""

    opening: str
    """The first line: where the agent is and how it acts."""
    noun: str = "action"
    """What one reply names: an `action` or a `command`."""
    listing: str = "Actions that work now:"
    """The line above the admissible actions."""
    tidy: Callable[[Situation], Situation] | None = None
    """Leaves out what a prompt need not repeat."""
    chinese: bool = True
    """Whether a reply may have Chinese characters; the published runs count those as invalid."""
