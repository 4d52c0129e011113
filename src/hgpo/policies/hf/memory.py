"""A device without enough memory, explained."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from ...errors import OutOfMemory
from .budget import out_of_memory


@contextlib.contextmanager
def memory_explained() -> Iterator[None]:
    """Turn torch's out-of-memory error into ours, which says what to set lower."""
    try:
        yield
    except RuntimeError as error:
        if not out_of_memory(error):
            raise
        # torch goes on to list every process on the card.
        raise OutOfMemory(". ".join(str(error).split(". ")[:2]).rstrip(".") + ".") from error
