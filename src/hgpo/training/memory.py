"""A device without enough memory, explained."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from ..errors import OutOfMemory


@contextlib.contextmanager
def memory_explained() -> Iterator[None]:
    """Turn torch's out-of-memory error into ours, which says what to set lower."""
    try:
        yield
    except RuntimeError as error:
        # By name: evaluating a scripted policy or a server does not need torch at all.
        if type(error).__name__ != "OutOfMemoryError":
            raise
        # torch goes on to list every process on the card.
        raise OutOfMemory(". ".join(str(error).split(". ")[:2]).rstrip(".") + ".") from error
