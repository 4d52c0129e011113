"""How situations in the shop are written."""

from __future__ import annotations

import re
from dataclasses import replace

from ..prompt import PromptWords, Situation

_INSTRUCTION = re.compile(r"(?:WebShop \[SEP\] )?Instruction: \[SEP\] .+? \[SEP\] ")


def without_instruction(page: str) -> str:
    """A page without the instruction, which every page repeats."""
    return _INSTRUCTION.sub("", page)


def _tidy(situation: Situation) -> Situation:
    """The prompt has given the instruction as the task already."""
    history = [
        replace(entry, observation=without_instruction(entry.observation)) for entry in situation.history
    ]
    return replace(situation, observation=without_instruction(situation.observation), history=history)


PROMPT = PromptWords(
    opening="You are shopping on a web page: you can search for words and click on what the page offers.",
    tidy=_tidy,
    chinese=False,
)
