"""What `hgpo watch` costs a run: processor seconds of the watching process for each of the training one.

    python benchmarks/watch.py                       # the whole quick start, with a page open in Chromium
    python benchmarks/watch.py iterations=20         # any settings of the run

Processor seconds are compared, not times: on a busy machine the same run takes longer by chance. The page asks every
three seconds; where there is no Chromium a loop asks as the page does. The browser's own seconds are printed beside it,
for it may be on another machine.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

TICK = os.sysconf("SC_CLK_TCK")
FLAGS = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
]


def seconds(pid: int) -> float:
    """Processor seconds of a process so far, with those of children that it has waited for."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / TICK


def family(pid: int) -> list[int]:
    """A process and all that came from it."""
    parents = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
    found = [pid]
    for one in found:
        found += [child for child, parent in parents.items() if parent == one]
    return found


def ask(address: str, ended: threading.Event) -> None:
    """What the page does: news every three seconds, kept rollouts when there are new ones."""
    have, kept = "", ""
    while not ended.wait(3.0):
        with urllib.request.urlopen(f"{address}news?have={have}", timeout=30) as reply:
            (run,) = json.load(reply)["runs"]
        have = f"{run['id']}.{run['generation']}.{run['count']}.{run['version']}"
        newest = (run.get("about") or {}).get("kept", [""])[-1:] or [""]
        if newest[0] and newest[0] != kept:
            kept = newest[0]
            urllib.request.urlopen(f"{address}groups?run={run['id']}&key={kept}", timeout=30).read()


def main() -> None:
    words = sys.argv[1:]
    folder = Path(tempfile.mkdtemp(prefix="hgpo-watch-"))
    run = folder / "run"
    command = [sys.executable, "-m", "hgpo"]
    watch = subprocess.Popen([*command, "watch", str(run)], stdout=subprocess.PIPE, text=True)
    address = ""
    while not address:
        line = watch.stdout.readline() if watch.stdout else ""
        address = "".join(re.findall(r"http://127\.0\.0\.1:\d+/", line))
    started = seconds(watch.pid)
    browser, ended = shutil.which("chromium") or shutil.which("google-chrome"), threading.Event()
    page = None
    if browser:
        profile = [
            "--remote-debugging-port=0",
            f"--user-data-dir={folder / 'profile'}",
            "--window-size=1280,900",
        ]
        page = subprocess.Popen(
            [browser, *FLAGS, *profile, address], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
    else:
        threading.Thread(target=ask, args=(address, ended), daemon=True).start()
    began = time.monotonic()
    train = subprocess.Popen([*command, "train", "quickstart", *words, "--run", str(run), "--quiet"])
    _, status, usage = os.wait4(train.pid, 0)
    took = time.monotonic() - began
    time.sleep(4.0)
    trained, watched = usage.ru_utime + usage.ru_stime, seconds(watch.pid)
    shown = sum(seconds(pid) for pid in family(page.pid)) if page else 0.0
    ended.set()
    for process in (watch, page):
        if process is not None:
            process.terminate()
            process.wait()
    lines = len((run / "metrics.jsonl").read_text().splitlines())
    print(f"run       {trained:8.2f} s of processor, {took:.0f} s, {lines} lines, status {status}")
    print(
        f"watch     {watched:8.2f} s of processor ({started:.2f} to start): {watched / trained:.2%} of the run"
    )
    if page:
        print(f"browser   {shown:8.2f} s of processor: {shown / trained:.2%} of the run")
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
