"""How the process of a command ends: Ctrl-C has an answer in any case, soon, and nothing aborts it on its way out."""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import socket
import sys
import threading
from typing import NoReturn

GRACE = 1.5
"""Seconds from Ctrl-C to the end of the process, whatever is under way."""
INTERRUPTED = 130
"""The exit status of a command that was interrupted."""


def answer_interrupts() -> None:
    """Let Ctrl-C end this process: as an exception, as everywhere, and by force when that gets lost or stuck.

    An exception in the middle of an import or of a callback may be swallowed, and threads that wait for a server keep
    a process alive; neither may leave a person without an answer. Where this package has something to save it handles
    the signal itself for the time being (`hgpo.runs.stopping`), and nothing is forced.
    """
    signals, wakeup = socket.socketpair()
    wakeup.setblocking(False)
    signal.set_wakeup_fd(wakeup.fileno(), warn_on_full_buffer=False)
    # The pair lives as long as the thread.
    threading.Thread(target=_watch, args=(signals, wakeup), name="hgpo-interrupts", daemon=True).start()


def leave(status: int = INTERRUPTED) -> NoReturn:
    """End this process here and now, without taking the interpreter down.

    Of an interrupted command, what is left to do at exit could wait for threads, or complain. Nor does the interpreter
    always keep to the status: it ends itself with the signal where the interrupt met code that was being made from
    text, as in the imports of many packages. Of several processes, torch's threads that exchange tensors may still hold
    one, and abort the process when they let it go while the interpreter is taken down.
    """
    with contextlib.suppress(Exception):
        atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.flush()
    os._exit(status)


def _watch(signals: socket.socket, wakeup: socket.socket) -> None:
    """Read the number of every signal that arrives, from the moment it arrives."""
    asked = False
    while number := signals.recv(1):
        handler = signal.getsignal(signal.SIGINT)
        if number[0] != signal.SIGINT or str(getattr(handler, "__module__", "")).startswith("hgpo."):
            continue
        if asked:
            _force()
        asked = True
        patience = threading.Timer(GRACE, _force)
        patience.daemon = True
        patience.start()


def _force() -> NoReturn:
    with contextlib.suppress(OSError):
        os.write(2, b"hgpo: interrupted\n")
    os._exit(INTERRUPTED)
