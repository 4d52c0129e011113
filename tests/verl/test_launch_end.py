"""Whatever ends `hgpo verl launch` ends verl and what it started, too."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

# Two processes, the second deaf to Ctrl-C, that write down who they are.
FOREIGN = """
import os, pathlib, signal, subprocess, sys, time
if {deaf}:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
code = "import signal, time; signal.signal(2, signal.SIG_IGN); time.sleep(600)"
child = subprocess.Popen([sys.executable, "-c", code])
pathlib.Path({marks!r}, "pids").write_text(f"{{os.getpid()}} {{child.pid}}")
time.sleep(600)
"""
LAUNCH = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from pathlib import Path
from hgpo.verl import processes
class Deaf:
    def line(self, text): pass
    def tick(self): pass
processes.PATIENCE = {patience}
processes.execute([sys.executable, "-c", {foreign!r}], Path({marks!r}, "log"), {{}}, Deaf())
"""


def ended(number: int) -> bool:
    """Whether a process is gone, or only waits to be counted."""
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize(
    ("how", "deaf"),
    [("int", False), ("group", False), ("int", True), ("twice", True), ("term", False), ("kill", False)],
)
def test_nothing_is_left_behind(tmp_path: Path, how: str, deaf: bool) -> None:
    foreign = FOREIGN.format(marks=str(tmp_path), deaf=deaf)
    patience = 60 if how == "twice" else 2
    launcher = subprocess.Popen(
        [sys.executable, "-c", LAUNCH.format(foreign=foreign, marks=str(tmp_path), patience=patience)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    pids = tmp_path / "pids"
    until = time.monotonic() + 60
    while not (pids.exists() and len(pids.read_text().split()) == 2):
        assert time.monotonic() < until
        assert launcher.poll() is None
        time.sleep(0.05)
    started = [int(word) for word in pids.read_text().split()]
    if how == "group":
        os.killpg(launcher.pid, signal.SIGINT)
    elif how == "twice":
        launcher.send_signal(signal.SIGINT)
        time.sleep(0.5)
        launcher.send_signal(signal.SIGINT)
    else:
        launcher.send_signal({"int": signal.SIGINT, "term": signal.SIGTERM, "kill": signal.SIGKILL}[how])
    launcher.wait(20)
    # Of a launcher that is killed itself, verl's first process learns; Ray ends the others when that one is gone.
    mine = started[:1] if how == "kill" else started
    while not all(map(ended, mine)):
        assert time.monotonic() < until + 20, "left behind"
        time.sleep(0.05)
    for number in started:
        if not ended(number):
            os.kill(number, signal.SIGKILL)
