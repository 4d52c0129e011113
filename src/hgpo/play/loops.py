"""Waiting for a coroutine, wherever that is: in a program, or in a notebook, whose cells run inside an event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def complete(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end and return its result.

    Where this thread runs an event loop already, which cannot be entered again, a thread of its own does the work.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    results: list[T] = []
    failures: list[BaseException] = []

    def elsewhere() -> None:
        try:
            results.append(asyncio.run(work))
        except BaseException as error:
            failures.append(error)

    # A daemon: an interrupted notebook does not wait for episodes that nobody wants any more.
    thread = threading.Thread(target=elsewhere, name="hgpo-episodes", daemon=True)
    thread.start()
    thread.join()
    if failures:
        raise failures[0]
    return results[0]
