"""Every prompt of the package, one style per kind of environment, in one place.

A style turns what the agent knows (`Situation`) into text. It says nothing about tokens or chat templates:
those belong to the policy. When a prompt is too long, `shrink` gives up the least useful part of what the
agent knows, never the task.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ..errors import UnknownName
from .memory import Remembered


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


@dataclass(frozen=True)
class PromptStyle:
    """How a situation is written, and which form of reply it asks for."""

    name: str
    """`household`, `webshop`, `generic` or `compact`."""
    tags: bool = True
    """The action is asked for inside <action></action>."""
    reasoning: bool = False
    """Thoughts are asked for inside <think></think> before the action."""
    show_admissible: bool = True
    """The admissible commands are listed."""

    def render(self, situation: Situation) -> str:
        """The prompt text."""
        if not self.show_admissible:
            situation = replace(situation, admissible=())
        return STYLES[self.name](situation, self)

    def reply(self, action: str) -> str:
        """A reply of the asked form that takes `action`: what a scripted policy says, and what is cloned."""
        if not self.tags:
            return action
        thought = f"<think>The next useful step is to {action}.</think>" if self.reasoning else ""
        return f"{thought}<action>{action}</action>"


def style(
    name: str, *, tags: bool | None = None, reasoning: bool = False, show_admissible: bool | None = None
) -> PromptStyle:
    """The style called `name`; `compact` asks for a bare action and lists no commands unless told to."""
    if name not in STYLES:
        raise UnknownName("prompt style", name, STYLES)
    bare = name == "compact"
    return PromptStyle(
        name,
        tags=(not bare) if tags is None else tags,
        reasoning=reasoning,
        show_admissible=(not bare) if show_admissible is None else show_admissible,
    )


def shrink(situation: Situation) -> Situation | None:
    """The same situation with its oldest memory, else its command list, else half its observation gone.

    None when nothing is left to give up.
    """
    if situation.history:
        return replace(situation, history=situation.history[1:])
    if situation.admissible:
        return replace(situation, admissible=())
    length = len(situation.observation)
    if length > 80:
        half = length // 4
        cut = situation.observation[:half] + " ... " + situation.observation[-half:]
        return replace(situation, observation=cut)
    return None


def _past(situation: Situation) -> str:
    return "\n".join(
        f"Step {entry.step + 1}. You saw: {entry.observation.strip()} You did: {entry.action}"
        for entry in situation.history
    )


def _ask(style: PromptStyle, noun: str) -> str:
    if not style.tags:
        return f"Reply with one {noun} and nothing else."
    answer = f"write exactly one {noun} as <action>your {noun}</action>."
    if style.reasoning:
        return f"First reason about what to do, inside <think></think>. Then {answer}"
    return answer[0].upper() + answer[1:]


def _verbose(situation: Situation, style: PromptStyle, opening: str, noun: str, listing: str) -> str:
    parts = [opening]
    if situation.task:
        parts.append(f"Your task: {situation.task}")
    if situation.step:
        parts.append(f"You have taken {situation.step} step{'s' if situation.step > 1 else ''} so far.")
    if situation.history:
        shown = len(situation.history)
        parts.append(f"The last {shown}:" if shown > 1 else "The last one:")
        parts.append(_past(situation))
    parts.append(f"Now you see: {situation.observation.strip()}")
    if situation.admissible:
        parts.append(listing + "\n" + "\n".join(f"- {command}" for command in situation.admissible))
    parts.append(_ask(style, noun))
    return "\n".join(parts)


def _household(situation: Situation, style: PromptStyle) -> str:
    commands = [command for command in situation.admissible if command != "help"]
    return _verbose(
        replace(situation, admissible=commands),
        style,
        "You are in a house and act in it by short text commands.",
        "command",
        "Commands that work now:",
    )


def _webshop(situation: Situation, style: PromptStyle) -> str:
    # Every page repeats the instruction, which the prompt has already given as the task.
    pages = [replace(entry, observation=_page(entry.observation)) for entry in situation.history]
    return _verbose(
        replace(situation, observation=_page(situation.observation), history=pages),
        style,
        "You are shopping on a web page: you can search for words and click on what the page offers.",
        "action",
        "Actions that work now:",
    )


def _generic(situation: Situation, style: PromptStyle) -> str:
    return _verbose(
        situation, style, "You act in a world by short text commands.", "action", "Actions that work now:"
    )


def _compact(situation: Situation, style: PromptStyle) -> str:
    """As few words as possible, for small models trained from nothing.

    No instructions and no step numbers; banners, the task sentence inside an observation and commands that only
    look around are left out.
    """
    lines = [f"task : {situation.task}"] if situation.task else []
    lines += [f"{_bare(entry.observation)} > {entry.action}" for entry in situation.history]
    commands = [one for one in situation.admissible if one.split(" ")[0] not in _LOOKING]
    if commands:
        lines.append("can : " + _grouped(tuple(commands)))
    lines.append(f"{_bare(situation.observation)} >")
    return "\n".join(lines)


@functools.lru_cache(4096)  # an agent comes by the same places again and again
def _grouped(commands: tuple[str, ...]) -> str:
    """Commands that start alike written once: `go to desk 1 , shelf 1`."""
    groups: dict[str, list[list[str]]] = {}
    for command in commands:
        words = command.split(" ")
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


_LOOKING = frozenset({"help", "inventory", "look", "examine"})
_BANNER = re.compile(r"-=.*?=-|[Yy]our task is to:.*")
_INSTRUCTION = re.compile(r"(?:WebShop \[SEP\] )?Instruction: \[SEP\] .+? \[SEP\] ")


def _page(observation: str) -> str:
    return _INSTRUCTION.sub("", observation)


@functools.lru_cache(4096)  # every observation is written K + 1 times
def _bare(observation: str) -> str:
    return " ".join(_BANNER.sub(" ", _page(observation)).replace("[SEP]", "|").split())


STYLES: dict[str, Callable[[Situation, PromptStyle], str]] = {
    "household": _household,
    "webshop": _webshop,
    "generic": _generic,
    "compact": _compact,
}
