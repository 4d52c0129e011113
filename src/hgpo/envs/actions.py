"""From what a model wrote to what is sent to the environment, with a typed reason when that goes wrong."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ..errors import BadEnv

Outcome = Literal["ok", "malformed", "inadmissible"]

FORMS = ("verbatim", "line", "lower")
"""How an environment wants its actions, in its attribute `action_form`: as they were written (the default), on one line
with single spaces, or that in lower case."""

TAGS = ("<think>", "</think>", "<action>", "</action>")
"""What marks the parts of a reply where a prompt asks for marks."""

_ACTION = re.compile(r"<action>(.*?)</action>", re.DOTALL | re.IGNORECASE)
_THINK = re.compile(r"<think>.*?</think>", re.DOTALL | re.IGNORECASE)
_CHINESE = re.compile("[\u4e00-\u9fff]")
# An unparsable reply is still sent (the environment answers in words), but only this much of it: it also
# becomes part of the next prompt's history.
TAIL = 30


@dataclass(frozen=True)
class ParsedAction:
    """The action in a reply."""

    action: str
    """What is sent to the environment, in the form that it wants."""
    outcome: Outcome
    """`ok`, `malformed` (the reply does not have the asked form) or `inadmissible` (it has, but the action
    is not among those that do something now)."""
    reason: str = ""
    """Why the outcome is not `ok`, in words."""


def action_form(env: Any) -> str:
    """How `env` wants its actions: its attribute `action_form`, one of `FORMS`; `verbatim` where it has none."""
    form = getattr(env, "action_form", FORMS[0])
    if form not in FORMS:
        raise BadEnv(
            type(env).__name__,
            [f"Given: action_form is {form!r}. Expected: one of {', '.join(FORMS)}. Fix: name one of them."],
        )
    return str(form)


def formed(text: str, form: str = FORMS[0], admissible: Sequence[str] = ()) -> str:
    """An action in one of `FORMS`.

    Only the space around it goes from a verbatim one, and it stays where an admissible action has it too.

    >>> formed(" Open  Door 1 "), formed("Open\\n Door 1", "line"), formed("Open  Door 1", "lower")
    ('Open  Door 1', 'Open Door 1', 'open door 1')
    """
    if form == "verbatim":
        return text if text in admissible else text.strip()
    line = " ".join(text.split())
    return line.lower() if form == "lower" else line


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
    form: str = FORMS[0],
    chinese: bool = True,
) -> ParsedAction:
    """Read the action out of a model's reply.

    With `tags` the action is what stands in the first `<action>...</action>`; with `reasoning` there must be a
    `<think>...</think>` too. Without `tags` the whole reply is the action. Where `chinese` is false, a reply with
    Chinese characters is malformed. An action that could be read is sent even if something else is amiss.

    >>> parse("<action>Open fridge 1</action>", ["open fridge 1"], form="lower").outcome
    'ok'
    >>> parse("open fridge 1").outcome
    'malformed'
    >>> parse("fly", ["look"], tags=False).outcome
    'inadmissible'
    """
    action = text
    if tags:
        match = _ACTION.search(text)
        if match is None:
            return _unread(text, form, "no <action>...</action> in the reply")
        action = match.group(1)
    action = formed(action, form, admissible)
    if not action:
        return _unread(text, form, "the action is empty")
    if tags and reasoning and not _THINK.search(text):
        return ParsedAction(action, "malformed", "no <think>...</think> in the reply")
    if not chinese and _CHINESE.search(text):
        return ParsedAction(action, "malformed", "Chinese characters in the reply")
    if not is_admissible(action, admissible):
        return ParsedAction(action, "inadmissible", "not among the admissible actions")
    return ParsedAction(action, "ok")


def _unread(text: str, form: str, reason: str) -> ParsedAction:
    line = formed(text, "lower" if form == "lower" else "line")
    return ParsedAction(line[-TAIL:].strip(), "malformed", reason)
