"""From a prompt to token ids: one user message where the tokenizer has a chat template, else the bare text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..errors import BadFile

MARK = " \n hgpo-prompt-mark \n "
"""Spaces and line ends at both sides show whether a template trims what it is given."""


class PromptEncoder:
    """Encodes prompts for one tokenizer.

    Tokenizing is half of what a step costs outside the model. Prompts that are asked for together go to the tokenizer
    together, which spreads them over the processor's cores; equal ones, which the rollouts of a group produce, are
    encoded once. Templates that put the message unchanged between two fixed texts are rendered once, others every
    time.
    """

    def __init__(self, tokenizer: Any, remember: int = 4096) -> None:
        self.tokenizer, self.remember = tokenizer, remember
        self.ends = self._fixed_ends()
        self.known: dict[str, tuple[int, ...]] = {}
        """Ids of the last prompts, oldest first."""

    def __call__(self, prompt: str) -> tuple[int, ...]:
        """The prompt as token ids."""
        return self.many([prompt])[0]

    def many(self, prompts: Sequence[str]) -> list[tuple[int, ...]]:
        """The token ids of every prompt."""
        new = [prompt for prompt in dict.fromkeys(prompts) if prompt not in self.known]
        if new:
            texts = [self._render(prompt) if self.ends is None else prompt.join(self.ends) for prompt in new]
            encoded = self.tokenizer(texts, add_special_tokens=False, return_attention_mask=False)[
                "input_ids"
            ]
            self.known.update(zip(new, map(tuple, encoded)))
        ids = [self.known[prompt] for prompt in prompts]
        while len(self.known) > self.remember:
            del self.known[next(iter(self.known))]
        return ids

    def _fixed_ends(self) -> tuple[str, str] | None:
        """What the template puts before and after the message; None when the message itself is changed."""
        if not getattr(self.tokenizer, "chat_template", None):
            return "", ""
        before, mark, after = self._render(MARK).partition(MARK)
        if not mark or MARK.strip() in before + after:
            return None
        return (before, after) if self._render("") == before + after else None

    def _render(self, prompt: str) -> str:
        try:
            text: str = self.tokenizer.apply_chat_template(
                [{"role": "user", "content": prompt}], add_generation_prompt=True, tokenize=False
            )
        except (
            Exception
        ) as error:  # the template is a small program of the model's; anything may be wrong with it
            where = getattr(self.tokenizer, "name_or_path", "") or "the model"
            said = " ".join(str(error).split())[:300].rstrip(".")
            raise BadFile(
                f"The chat template of {where} cannot be used: {type(error).__name__}: {said}. "
                "Repair chat_template in its tokenizer_config.json (or chat_template.jinja), or use another model."
            ) from error
        return text
