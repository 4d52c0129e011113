"""Ctrl-C while the command line runs: an answer in any case, soon."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from types import FrameType

GRACE = 1.5
"""Seconds from Ctrl-C to the end of the process, whatever is under way."""


def answer_interrupts() -> None:
    """Let Ctrl-C end this process: as an exception first, and by force when that gets lost or stuck.

    An exception in the middle of an import or of a callback may be swallowed, and threads that wait for a server keep
    a process alive; neither may leave a person without an answer. Code with something to save installs its own handler
    for the time being (`hgpo.runs.stopping`).
    """
    asked = threading.Event()

    def interrupted(number: int, frame: FrameType | None) -> None:
        if asked.is_set():
            _leave()
        asked.set()
        try:
            patience = threading.Timer(GRACE, _leave)
            patience.daemon = True
            patience.start()
        except RuntimeError:  # the interpreter is about to end and starts no more threads
            _leave()
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, interrupted)


def _leave() -> None:
    with contextlib.suppress(OSError):
        os.write(2, b"hgpo: interrupted\n")
    os._exit(130)
