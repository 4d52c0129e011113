"""A device without enough memory: smaller passes first, then an error that says what to set lower.

Nothing here imports torch before it is needed: scripted policies and servers are played without it.
"""

from __future__ import annotations

import contextlib
import gc
import warnings
from collections.abc import Callable, Iterator
from typing import TypeVar

from ..errors import OutOfMemory

T = TypeVar("T")

HALVINGS = 4
"""The smallest pass that is tried: a sixteenth of the first one that failed. Below that, settings have to change."""


def is_out_of_memory(error: BaseException) -> bool:
    """Whether torch says that the device is full; known by its name, without torch."""
    return any(kind.__name__ == "OutOfMemoryError" for kind in type(error).__mro__)


@contextlib.contextmanager
def out_of_memory_explained() -> Iterator[None]:
    """Turn torch's out-of-memory error into ours, which says what to set lower."""
    try:
        yield
    except RuntimeError as error:
        if not is_out_of_memory(error):
            raise
        # torch goes on to list every process on the card.
        raise OutOfMemory(". ".join(str(error).split(". ")[:2]).rstrip(".") + ".") from error


class TokenBudget:
    """Token positions of one pass through a model, from the setting called `name`; halved while the device is full.

    `says`: warn of it; of several processes that halve together one does.
    """

    def __init__(self, tokens: int, name: str, *, says: bool = True) -> None:
        self.tokens, self.name, self.says = tokens, name, says
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
                if not is_out_of_memory(error) or self.halvings == HALVINGS:
                    raise
            # Only here, when the error and with it the tensors of the failed pass are gone.
            clean()
            _release()
            self.halvings += 1
            self.tokens = max(1, min(self.tokens, self.used) // 2)
            if self.says:
                warnings.warn(
                    f"The GPU had no memory for a pass of {self.used} tokens; going on with {self.tokens}. Set "
                    f"{self.name}={self.tokens} to start with that.",
                    RuntimeWarning,
                    stacklevel=2,
                )


def _release() -> None:
    """Give back what torch keeps for later."""
    import torch

    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
