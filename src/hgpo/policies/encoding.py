"""From a prompt to token ids: one user message where the tokenizer has a chat template, else the bare text."""

from __future__ import annotations

import functools
from typing import Any

MARK = " \n hgpo-prompt-mark \n "
"""Spaces and line ends at both sides show whether a template trims what it is given."""


class Encoder:
    """Encodes prompts for one tokenizer.

    Rendering a chat template costs about as much as tokenizing a short prompt, so templates that put the message
    unchanged between two fixed texts are rendered once; others are rendered every time. Equal prompts, which the
    rollouts of a group produce, are encoded once.
    """

    def __init__(self, tokenizer: Any, remember: int = 4096) -> None:
        self.tokenizer = tokenizer
        self.ends = self._fixed_ends()
        self.encode = functools.lru_cache(remember)(self._encode)

    def __call__(self, prompt: str) -> tuple[int, ...]:
        """The prompt as token ids."""
        return self.encode(prompt)

    def _fixed_ends(self) -> tuple[str, str] | None:
        """What the template puts before and after the message; None when the message itself is changed."""
        if not getattr(self.tokenizer, "chat_template", None):
            return "", ""
        before, found, after = self._render(MARK).partition(MARK)
        if not found or MARK.strip() in before + after:
            return None
        return (before, after) if self._render("") == before + after else None

    def _render(self, prompt: str) -> str:
        text: str = self.tokenizer.apply_chat_template(
            [{"role": "user", "content": prompt}], add_generation_prompt=True, tokenize=False
        )
        return text

    def _encode(self, prompt: str) -> tuple[int, ...]:
        text = self._render(prompt) if self.ends is None else prompt.join(self.ends)
        return tuple(self.tokenizer.encode(text, add_special_tokens=False))
