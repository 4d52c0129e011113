"""How situations in a house are written."""

from __future__ import annotations

import re
from dataclasses import replace

from ..prompt import PromptWords, Situation

_OPENING = re.compile(r"-=.*?=-|[Yy]our task is to:.*")


def without_opening(observation: str) -> str:
    """An observation without the game's banner and the task sentence."""
    return _OPENING.sub(" ", observation)


def _tidy(situation: Situation) -> Situation:
    """`help` only lists the commands that the prompt lists anyway."""
    return replace(situation, admissible=[command for command in situation.admissible if command != "help"])


PROMPT = PromptWords(
    opening="You are in a house and act in it by short text commands.",
    noun="command",
    listing="Commands that work now:",
    tidy=_tidy,
    chinese=False,
)
