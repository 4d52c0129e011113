"""One process at a time trains into a folder.

The lock is the operating system's (`flock`): it ends with the process that holds it, however that ends, so there is
none to clean up after a kill. Who only reads a run asks for no lock.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ..errors import BadFile, FolderBusy

LOCK = ".lock"
"""The file in a run's folder that the training process holds: its id, host and since when."""


@contextlib.contextmanager
def hold(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder, which is made if needed and taken away again if nothing was put into it.

    On a file system without locks nothing is held.

    Raises:
        FolderBusy: another process holds it.
    """
    made = [place for place in (folder, *folder.parents) if not place.exists()]
    path = folder / LOCK
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = _acquire(folder, path)
    except OSError as error:
        raise BadFile(
            f"Cannot write {folder}: {error.strerror}. Choose a folder that is writable with --run."
        ) from error
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(handle)
        with contextlib.suppress(OSError):  # not empty: something was made
            for place in made:
                place.rmdir()


@dataclass(frozen=True)
class Holder:
    """The process that trains into a folder."""

    pid: int
    host: str
    since: str

    def alive(self) -> bool | None:
        """Whether it still runs; None where it runs on another machine and nobody here can know."""
        if self.host != socket.gethostname():
            return None
        try:
            os.kill(self.pid, 0)
        except (ProcessLookupError, OverflowError):
            return False
        except OSError:  # of another user: it runs
            return True
        return True


def holder_of(folder: Path) -> Holder | None:
    """Who holds the lock of a folder, or held it when it was killed. Asks for no lock: that could be in the way."""
    try:
        with open(os.open(folder / LOCK, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
            content = json.loads(file.read(1000) or b"")
        pid = int(content["pid"])
        return Holder(pid, str(content["host"]), str(content["since"])) if pid > 0 else None
    except (OSError, ValueError, KeyError, TypeError, RecursionError, OverflowError):
        return None


def _acquire(folder: Path, path: Path) -> int:
    import fcntl

    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = _holder(handle)
            os.close(handle)
            raise FolderBusy(
                f"Another process trains into {folder}: {holder}. Wait until it has ended or stop it, or choose "
                "another folder with --run."
            ) from None
        except OSError:
            return handle
        # The process that held it before may have taken the file away after it was opened here.
        if path.exists() and os.path.samestat(os.fstat(handle), os.stat(path)):
            break
        os.close(handle)
    content = {
        "pid": os.getpid(),
        "host": socket.gethostname(),
        "since": time.strftime("%Y-%m-%d %H:%M:%S %z"),
    }
    os.ftruncate(handle, 0)
    os.write(handle, json.dumps(content).encode())
    return handle


def _holder(handle: int) -> str:
    try:
        content = json.loads(os.pread(handle, 1000, 0))
        return f"process {content['pid']} on {content['host']}, since {content['since']}"
    except (OSError, ValueError, KeyError, TypeError):
        return "it has just begun"
