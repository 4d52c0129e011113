"""Compare runs: table, learning curves (PNG and HTML), intervals over training seeds.

    hgpo compare runs/hgpo-* runs/gigpo-* --out comparison

Runs that differ only in their seed form one group. All are read at the last iteration at which every one was evaluated,
and the table says which. Runs evaluated on different task panels, and a run given twice, are refused.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from ._options import path_word


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("runs", nargs="+", type=path_word, metavar="RUN", help="folders of runs")
    parser.add_argument("--split", default="in-domain", help="which evaluation (default: in-domain)")
    parser.add_argument(
        "--out", default="comparison", type=path_word, metavar="FOLDER", help="default: comparison/"
    )
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def _is_comparison(path: Path) -> bool:
    """Whether an earlier comparison wrote the file, so that this one may replace it."""
    from ..errors import BadFile
    from ..files import read_json

    try:
        return {"groups", "differences", "panel"} <= read_json(path, "a comparison").keys()
    except BadFile:
        return False


def run(args: argparse.Namespace) -> int:
    from ..files import check_folder, check_new, write_text
    from ..runs.compare import compare, table_text
    from ..runs.curves import write_html, write_png

    folder = Path(args.out)
    check_folder(folder)
    files = [folder / f"comparison.{ending}" for ending in ("json", "html", "png")]
    if not _is_comparison(files[0]):
        check_new(files, "It is no comparison of ours: choose another folder with --out, or move it away.")
    result = compare(args.runs, args.split)
    print(json.dumps(result) if args.json else table_text(result))
    folder.mkdir(parents=True, exist_ok=True)
    write_text(files[0], json.dumps(result, indent=1) + "\n")
    write_html(result, files[1])
    drawn = write_png(result, files[2])
    if args.json:
        return 0
    kinds = "comparison.json, .html" + (" and .png" if drawn else " (no .png: matplotlib is missing)")
    print(f"in {folder}: {kinds}")
    return 0
