"""Prompt styles: how what the agent knows (`Situation`) becomes text.

Two styles suit every environment: `generic`, in sentences, and `plain`, in as few words as possible. `compact` is the
even shorter one of the built-in worlds, and each folder of them brings the words of one more, which has the folder's
name. An environment may write its prompts itself (`env`). A style says nothing about tokens or chat templates: those
belong to the policy. When a prompt is too long, `shrink` gives up the least useful part of what the agent knows, never
the task.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from ..envs import answers, registry
from ..envs.household.prompt import without_opening
from ..envs.prompt import PromptWords, Situation, together
from ..envs.webshop.prompt import without_instruction
from ..errors import BadEnv, HgpoError, UnknownName

OWN = "env"
"""The style that is a function of the environment itself."""
BARE = ("compact", "plain")
"""Styles without instructions, for small models: the reply is the action and nothing else."""
GENERIC = PromptWords("You act in a world by short text commands.")
NOW = "Now you see:"
"""What stands before the present observation in every style that is written in sentences."""


@dataclass(frozen=True)
class PromptStyle:
    """How a situation is written, and which form of reply it asks for."""

    name: str
    """One of `styles()`, or `env`."""
    tags: bool = True
    """The action is asked for inside <action></action>."""
    reasoning: bool = False
    """Thoughts are asked for inside <think></think> before the action."""
    show_admissible: bool = True
    """The admissible commands are listed."""
    show_status: bool = False
    """What the agent knows of itself is said, and how many steps it took."""
    write: Callable[[Situation], str] | None = None
    """The environment's own function, where the style is `env`."""

    def render(self, situation: Situation) -> str:
        """The prompt text."""
        if not self.show_admissible:
            situation = replace(situation, admissible=())
        if not self.show_status:
            situation = replace(situation, status="")
        if self.write is not None:
            return _own(self.write, situation)
        if self.name in BARE:
            return _compact(situation) if self.name == "compact" else _plain(situation)
        return _written(situation, self, _words(self.name))

    def asks(self, prompt: str) -> tuple[bool, bool]:
        """Whether `prompt` asks for the action in tags, and for thoughts before it.

        An environment that writes its prompts itself asks for what it mentions: `<action>`, `<think>`.
        """
        if self.write is None:
            return self.tags, self.reasoning
        return "<action>" in prompt, "<action>" in prompt and "<think>" in prompt

    @property
    def chinese(self) -> bool:
        """Whether a reply may have Chinese characters."""
        return self.name in BARE or self.write is not None or _words(self.name).chinese

    def reply(self, action: str, prompt: str = "") -> str:
        """A reply to `prompt`, in the form that it asks for, that takes `action`: what a scripted policy says."""
        tags, reasoning = self.asks(prompt)
        if not tags:
            return action
        thought = f"<think>The next useful step is to {action}.</think>" if reasoning else ""
        return f"{thought}<action>{action}</action>"


def styles() -> list[str]:
    """The names of all styles that are written here."""
    return ["compact", "generic", "plain", *registry.prompts()]


@functools.cache
def _words(name: str) -> PromptWords:
    return GENERIC if name == "generic" else registry.prompt(name)


def style(
    name: str,
    *,
    tags: bool | None = None,
    reasoning: bool = False,
    show_admissible: bool | None = None,
    show_status: bool = False,
    write: Callable[[Situation], str] | None = None,
) -> PromptStyle:
    """The style called `name`; `env` is the environment's function `write`.

    `compact` and `plain` ask for a bare action; `compact` lists no commands unless told to.
    """
    if name == OWN and write is not None:
        return PromptStyle(
            OWN, show_admissible=show_admissible is not False, show_status=show_status, write=write
        )
    if name not in styles():
        raise UnknownName("prompt style", name, styles())
    return PromptStyle(
        name,
        tags=name not in BARE if tags is None else tags,
        reasoning=reasoning,
        show_admissible=name != "compact" if show_admissible is None else show_admissible,
        show_status=show_status,
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


def _written(situation: Situation, style: PromptStyle, words: PromptWords) -> str:
    if words.tidy is not None:
        situation = words.tidy(situation)
    parts = [words.opening]
    if situation.task:
        parts.append(f"Your task: {situation.task}")
    if situation.step:
        parts.append(f"You have taken {situation.step} step{'s' if situation.step > 1 else ''} so far.")
    if situation.history:
        shown = len(situation.history)
        parts.append(f"The last {shown}:" if shown > 1 else "The last one:")
        parts.append(_past(situation))
    if situation.status:
        parts.append(f"You are {situation.status}.")
    parts.append(f"{NOW} {situation.observation.strip()}")
    if situation.admissible:
        parts.append(words.listing + "\n" + "\n".join(f"- {command}" for command in situation.admissible))
    parts.append(_ask(style, words.noun))
    return "\n".join(parts)


def _own(write: Callable[[Situation], Any], situation: Situation) -> str:
    """What the environment's own function writes."""
    try:
        prompt = write(situation)
    except HgpoError:
        raise
    except Exception as error:
        raise BadEnv("Its prompt(situation)", [f"It raised {answers.cause(error)}."]) from error
    if not isinstance(prompt, str):
        raise BadEnv("Its prompt(situation)", [f"It returned {type(prompt).__name__}; expected a string."])
    return prompt


def _plain(situation: Situation) -> str:
    """All that is known and nothing else: no instructions, no step numbers, every text as it is."""
    lines = [f"task : {situation.task}"] if situation.task else []
    lines += [f"{entry.observation.strip()} > {entry.action}" for entry in situation.history]
    lines += _status(situation)
    if situation.admissible:
        lines += ["can :", *(f"- {command}" for command in situation.admissible)]
    lines.append(f"{situation.observation.strip()} >")
    return "\n".join(lines)


def _compact(situation: Situation) -> str:
    """The fewest words, for small models in the built-in worlds.

    No instructions and no step numbers; banners, the task sentence inside an observation and commands that only
    look around are left out, and commands that start alike are written together.
    """
    lines = [f"task : {situation.task}"] if situation.task else []
    lines += [f"{_bare(entry.observation)} > {entry.action}" for entry in situation.history]
    lines += _status(situation)
    commands = [one for one in situation.admissible if one.split(" ")[0] not in _LOOKING]
    if commands:
        lines.append("can : " + together(tuple(commands)))
    lines.append(f"{_bare(situation.observation)} >")
    return "\n".join(lines)


def _status(situation: Situation) -> list[str]:
    return [f"step {situation.step + 1} , {situation.status}"] if situation.status else []


_LOOKING = frozenset({"help", "inventory", "look", "examine"})


@functools.lru_cache(4096)  # every observation is written K + 1 times
def _bare(observation: str) -> str:
    return " ".join(without_opening(without_instruction(observation)).replace("[SEP]", "|").split())


def observation_marks() -> tuple[str, tuple[str, ...]]:
    """What stands before the present observation in a prompt, and the lines that may follow it."""
    words = [_words(name) for name in styles() if name not in BARE]
    listings = (one.listing.rstrip(":") for one in words)
    asked = (
        _ask(PromptStyle("generic", tags=tags, reasoning=reasoning), "").split(" ", 2)
        for tags, reasoning in ((True, False), (True, True), (False, False))
    )
    return NOW, tuple(
        f"\n{line}" for line in dict.fromkeys([*listings, *(" ".join(ask[:2]) for ask in asked)])
    )
