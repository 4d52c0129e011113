"""Follow runs while they train, on a page served to this machine alone.

    hgpo watch runs/quickstart               also before it begins, and when it has long ended
    hgpo watch runs/one runs/two             side by side
    hgpo watch runs/                         every run in the folder, and those that begin later

Learning curves, entropy and KL with their alarms, where the time goes, groups and advantages of the rollouts that were
kept, and episodes to read. Nothing is written. On a machine that you reach by ssh: start it there with --port 8765,
here run `ssh -L 8765:127.0.0.1:8765 MACHINE`, and open the printed address here. Ctrl-C ends it.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from ._options import number, path_word


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("runs", nargs="+", type=path_word, metavar="RUN", help="a run, or a folder of runs")
    parser.add_argument(
        "--port", type=number(int, 0, 65535), default=0, metavar="N", help="of the address (default: any)"
    )
    parser.add_argument("--open", action="store_true", help="open the page in a browser")


def run(args: argparse.Namespace) -> int:
    """Serve the page until Ctrl-C."""
    from ..watch.board import check_place
    from ..watch.server import Server

    places = [Path(word) for word in args.runs]
    for place in places:
        check_place(place)
    with Server(places, args.port) as server:
        for place in places:
            if not place.exists():
                print(f"{place} does not exist yet; the page waits for a run to begin there")
        print(f"watching {', '.join(map(str, places))} at {server.address} (Ctrl-C ends it)", flush=True)
        if args.open:
            _open(server.address)
        server.serve_forever()
    return 0


def _open(address: str) -> None:
    import webbrowser

    if not webbrowser.open(address):
        print("hgpo watch: no browser was found; open the address yourself", file=sys.stderr)
