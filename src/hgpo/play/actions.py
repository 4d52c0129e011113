"""From what a model wrote to what is sent to the environment, with a typed reason when that goes wrong."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Outcome = Literal["ok", "malformed", "inadmissible"]

_ACTION = re.compile(r"<action>(.*?)</action>", re.DOTALL | re.IGNORECASE)
_THINK = re.compile(r"<think>.*?</think>", re.DOTALL | re.IGNORECASE)
# An unparsable reply is still sent (the environment answers in words), but only this much of it: it also
# becomes part of the next prompt's history.
TAIL = 30


@dataclass(frozen=True)
class ParsedAction:
    """The action in a reply."""

    action: str
    """What is sent to the environment: one line, trimmed."""
    outcome: Outcome
    """`ok`, `malformed` (the reply does not have the asked form) or `inadmissible` (it has, but the action
    is not among those that do something now)."""
    reason: str = ""
    """Why the outcome is not `ok`, in words."""


def is_admissible(action: str, admissible: Sequence[str]) -> bool:
    """Whether `action` is one of the commands, or fits a template such as `search[...]` among them.

    An empty list means that the environment does not say, so everything passes.

    >>> is_admissible("search[red shoes]", ["search[...]"]), is_admissible("search[]", ["search[...]"])
    (True, False)
    """
    if not admissible or action in admissible:
        return True
    for template in admissible:
        head, dots, tail = template.partition("...")
        if dots and action.startswith(head) and action.endswith(tail):
            inside = action[len(head) : len(action) - len(tail)]
            if len(action) > len(head) + len(tail) and inside.strip():
                return True
    return False


def parse(
    text: str,
    admissible: Sequence[str] = (),
    *,
    tags: bool = True,
    reasoning: bool = False,
    lowercase: bool = True,
) -> ParsedAction:
    """Read the action out of a model's reply.

    With `tags` the reply must hold exactly one `<action>...</action>`; with `reasoning` also a
    `<think>...</think>` before it. Without `tags` the whole reply is the action.

    >>> parse("<action>Open fridge 1</action>", ["open fridge 1"]).action
    'open fridge 1'
    >>> parse("open fridge 1").outcome
    'malformed'
    >>> parse("fly", ["look"], tags=False).outcome
    'inadmissible'
    """

    def malformed(reason: str) -> ParsedAction:
        return ParsedAction(_one_line(text, lowercase)[-TAIL:].strip(), "malformed", reason)

    if tags:
        actions = list(_ACTION.finditer(text))
        if not actions:
            return malformed("no <action>...</action> in the reply")
        if len(actions) > 1:
            return malformed(f"{len(actions)} actions in the reply, expected one")
        if reasoning and not _THINK.search(text[: actions[0].start()]):
            return malformed("no <think>...</think> before the action")
        action = _one_line(actions[0].group(1), lowercase)
    else:
        action = _one_line(text, lowercase)
    if not action:
        return malformed("the action is empty")
    if not is_admissible(action, admissible):
        return ParsedAction(action, "inadmissible", "not among the admissible actions")
    return ParsedAction(action, "ok")


def _one_line(text: str, lowercase: bool) -> str:
    line = " ".join(text.split())
    return line.lower() if lowercase else line
