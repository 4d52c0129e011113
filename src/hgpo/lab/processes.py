"""Independent jobs on several processes: each is decided by itself, so the results do not depend on how many."""

from __future__ import annotations

import multiprocessing
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
    resource_tracker.ensure_running()  # on its start it lets interrupts through again
    pressed: list[int] = []
    # The processes leave Ctrl-C, which reaches the whole group of a terminal, to this one, which ends them: that it is
    # blocked they inherit. Here it waits until the pool is in hands that end it, for processes that are just starting
    # complain when it vanishes; blocking alone does not hold it back, since another thread may take it.
    answer = signal.signal(signal.SIGINT, lambda number, frame: pressed.append(number))
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        with multiprocessing.get_context("spawn").Pool(min(processes, len(jobs)), _open, (opener,)) as pool:
            signal.signal(signal.SIGINT, answer)
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            if pressed:
                signal.raise_signal(signal.SIGINT)
            for result in pool.imap_unordered(_do, jobs):
                done(cast(R, result))
    finally:
        signal.signal(signal.SIGINT, answer)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
