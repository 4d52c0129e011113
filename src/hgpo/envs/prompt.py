"""What a prompt may contain, and the words in which an environment wants its situations written.

A folder of environments brings its words as `PROMPT` in a module `prompt`; the prompt style of the folder's name
is written with them (`hgpo.play.prompts`). Any other environment may have a method `prompt(situation) -> str`.
"""

from __future__ import annotations

import functools
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
    opening: str = ""
    """What the agent saw first in this episode."""


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


@functools.lru_cache(4096)  # an agent comes by the same places again and again
def together(commands: tuple[str, ...]) -> str:
    """Commands that start alike written once: `go to desk 1 , shelf 1`.

    What stands in brackets is one word: `click[bright white]` and `click[bright aqua]` are written whole.
    """
    groups: dict[str, list[list[str]]] = {}
    for command in dict.fromkeys(commands):
        words = [command] if "[" in command else command.split(" ")
        groups.setdefault(words[0], []).append(words)
    written = []
    for members in groups.values():
        shared = 1
        while all(len(one) > shared + 1 for one in members) and len({one[shared] for one in members}) == 1:
            shared += 1
        if len(members) == 1:
            written.append(" ".join(members[0]))
        else:
            rest = " , ".join(" ".join(one[shared:]) for one in members)
            written.append(" ".join(members[0][:shared]) + " " + rest)
    return " ; ".join(written)
