"""Independent jobs on several processes: each is decided by itself, so the results do not depend on how many."""

from __future__ import annotations

import multiprocessing
import multiprocessing.pool
import signal
from collections.abc import Callable, Sequence
from multiprocessing import resource_tracker
from typing import Any, TypeVar, cast

J = TypeVar("J")
R = TypeVar("R")

_work: Callable[[Any], Any] | None = None
"""What this process does with a job; set once in every worker."""


def _open(opener: Callable[[], Callable[[Any], Any]]) -> None:
    global _work
    _work = opener()


def _do(job: Any) -> Any:
    assert _work is not None
    return _work(job)


def _pool(count: int, opener: Callable[[], Callable[[Any], Any]]) -> multiprocessing.pool.Pool:
    """Processes that leave Ctrl-C to this one, which ends them; it reaches the whole group of a terminal."""
    resource_tracker.ensure_running()  # on its start it lets interrupts through again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        return multiprocessing.get_context("spawn").Pool(count, _open, (opener,))
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def work_through(
    opener: Callable[[], Callable[[J], R]], jobs: Sequence[J], processes: int, done: Callable[[R], None]
) -> None:
    """Do all jobs and hand each result to `done` as it comes.

    Args:
        opener: called once in every process; makes the function that does a job. It travels to the processes.
        jobs: what there is to do; long ones first fill the last minutes evenly.
        processes: how many; one works here.
        done: called in this process.
    """
    if processes <= 1:
        work = opener()
        for job in jobs:
            done(work(job))
        return
    # No generator: an interrupt must end the processes here, not when somebody lets go of it.
    with _pool(min(processes, len(jobs)), opener) as pool:
        for result in pool.imap_unordered(_do, jobs):
            done(cast(R, result))
