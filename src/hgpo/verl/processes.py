"""Run verl to its end, or end it: with all the processes that it started."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from .narration import Listener

FAMILY = "HGPO_VERL_FAMILY"
"""Environment variable by which the processes of a run know that they belong together; Ray hands it on to its own."""
PATIENCE = 30.0
"""Seconds that an interrupted verl has to end by itself."""


def execute(
    words: Sequence[str], log: Path, environment: Mapping[str, str | None], listener: Listener
) -> int:
    """Run a command to its end, its output into `log` and to `listener`; an interrupt is passed on, then enforced.

    Whatever ends it, none of the processes that it started on this machine are left: Ray's are asked to end first.
    """
    family = uuid.uuid4().hex
    wanted = {**os.environ, "HYDRA_FULL_ERROR": "1", "PYTHONUNBUFFERED": "1", **environment, FAMILY: family}
    variables = {name: value for name, value in wanted.items() if value is not None}
    over = threading.Event()
    with open(log, "ab") as kept, _termination():
        # A session of its own: Ctrl-C at the terminal reaches verl once, from here, and not its workers.
        process = subprocess.Popen(
            words,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=variables,
            start_new_session=True,
            preexec_fn=_dies_with(os.getpid()),
        )
        threading.Thread(target=_ticking, args=(listener, over), daemon=True).start()
        try:
            assert process.stdout is not None
            for line in process.stdout:
                kept.write(line)
                kept.flush()
                # Hours of training do not end over a line on the terminal.
                with contextlib.suppress(Exception):
                    listener.line(line.decode("utf-8", errors="replace").rstrip())
            return process.wait()
        except BaseException:
            process.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(PATIENCE)
            raise
        finally:
            over.set()
            end_family(family)
            process.wait()


def _dies_with(parent: int) -> Callable[[], None] | None:
    """What a child does first, so that it is interrupted when its parent is killed; None where that cannot be had."""
    # The system minds the thread that started the child, not the process.
    if sys.platform != "linux" or threading.current_thread() is not threading.main_thread():
        return None
    prctl = ctypes.CDLL(None).prctl  # looked up here: a child of several threads must not

    def first() -> None:
        prctl(1, int(signal.SIGINT))  # PR_SET_PDEATHSIG
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell in the background has it ignored
        if os.getppid() != parent:  # killed before
            os._exit(1)

    return first


def _ticking(listener: Listener, over: threading.Event) -> None:
    while not over.wait(1.0):
        with contextlib.suppress(Exception):
            listener.tick()


def end_family(family: str, patience: float = 5.0) -> int:
    """End every process of this machine that belongs to `family`; how many there were.

    Needs the folder /proc; where there is none (not on Linux), Ray's own processes end with their driver.
    """
    left = found = _members(family)
    for number in (signal.SIGTERM, signal.SIGKILL):
        for process in left:
            with contextlib.suppress(OSError):
                os.kill(process, number)
        end = time.monotonic() + patience
        while left and time.monotonic() < end:
            time.sleep(0.1)
            left = _members(family)
    return len(found)


def _members(family: str) -> set[int]:
    mark = f"{FAMILY}={family}".encode()
    members = set()
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            # The state after the name in brackets: Z is a process that has ended.
            state = (folder / "stat").read_bytes().rpartition(b")")[2].split()[:1]
            if state != [b"Z"] and mark in (folder / "environ").read_bytes().split(b"\0"):
                members.add(int(folder.name))
    return members - {os.getpid()}


@contextlib.contextmanager
def _termination() -> Iterator[None]:
    """A polite kill or a closed terminal counts as an interrupt: verl is given the time to end, and not left behind."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(*_: Any) -> None:
        with contextlib.suppress(OSError):
            os.write(2, b"\nhgpo verl: stopping; verl has half a minute to end\n")
        raise KeyboardInterrupt

    numbers = [signal.SIGINT, signal.SIGTERM]
    # A closed terminal ends the run too, unless it was started with nohup.
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
        numbers.append(signal.SIGHUP)
    before = {number: signal.signal(number, interrupt) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
