"""How much goes through a model at once, halved when the device has no memory for it."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

HALVINGS = 4
"""A sixteenth of the first pass that failed: who has no memory for that either needs other settings."""


def out_of_memory(error: BaseException) -> bool:
    """Whether torch says that the device is full. By name: scripted policies and servers do without torch."""
    return isinstance(error, RuntimeError) and type(error).__name__ == "OutOfMemoryError"


class Budget:
    """Token positions of one pass, from the setting called `name`."""

    def __init__(self, tokens: int, name: str) -> None:
        self.tokens, self.name = tokens, name
        self.used = tokens
        """Positions of the largest pass that is being tried; may be far below what is allowed."""
        self.halvings = 0

    def spend(self, attempt: Callable[[], T], clean: Callable[[], None]) -> T:
        """What `attempt` returns; while the device is full, `clean` up, allow half of what was used and try again.

        `attempt` must read `tokens` anew, set `used`, and be repeatable after `clean`.
        """
        while True:
            try:
                return attempt()
            except RuntimeError as error:
                if not out_of_memory(error) or self.halvings == HALVINGS:
                    raise
            # Only here, when the error and with it the tensors of the failed pass are gone.
            clean()
            release()
            self.halvings += 1
            self.tokens = max(1, min(self.tokens, self.used) // 2)
            warnings.warn(
                f"The GPU had no memory for a pass of {self.used} tokens; going on with {self.tokens}. Set "
                f"{self.name}={self.tokens} to start with that.",
                RuntimeWarning,
                stacklevel=2,
            )


def release() -> None:
    """Give back what torch keeps for later."""
    import torch

    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
