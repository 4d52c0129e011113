"""Measure estimators against exactly known advantages in small worlds.

Draws small worlds, computes the truth in each by dynamic programming, and reports for every estimator its error, the
cosine of its gradient with the true one (beside the ceiling) and how fast policies learn with it.

    hgpo lab --quick                                     # all worlds and estimators, within a minute
    hgpo lab --out docs                                  # the page in the documentation, with tables and plots
    hgpo lab --worlds maze,slips --estimators hgpo,hgpo_lambda:lam=0.9 --seeds 10 --json found.json
"""

from __future__ import annotations

import argparse
import os


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--quick", action="store_true", help="few seeds and short training: within a minute")
    parser.add_argument("--worlds", metavar="NAME,...", help="kinds of worlds (default: all)")
    parser.add_argument(
        "--estimators",
        metavar="NAME,...",
        help="labels, estimators, or name:setting=value:setting=value (default: all)",
    )
    parser.add_argument("--seeds", type=int, metavar="N", help="worlds drawn of each kind")
    parser.add_argument("--json", metavar="FILE", help="write all numbers as JSON")
    parser.add_argument("--out", metavar="FOLDER", help="write lab.md and lab/ with plots and numbers there")
    parser.add_argument("--processes", type=int, metavar="N", help="default: one per core, at most 8")
    parser.add_argument("--list", action="store_true", help="list worlds and estimators and stop")


def run(args: argparse.Namespace) -> int:
    """Run the study, print its main table, write what was asked for."""
    import json
    from pathlib import Path

    from ..errors import BadSetting, UnknownName
    from ..files import write_text
    from ..lab import entries, report, study
    from ..lab.summary import summarise
    from ..lab.worlds import WORLDS

    if args.list:
        print("worlds:", *(f"  {name}: {kind.purpose}" for name, kind in WORLDS.items()), sep="\n")
        print("estimators:", *(f"  {label}" for label in entries.ENTRIES), sep="\n")
        return 0
    for name, value in (("--seeds", args.seeds), ("--processes", args.processes)):
        if value is not None and value < 1:
            raise BadSetting(f"{name} {value} was given; expected a whole number from 1.")
    worlds = args.worlds.split(",") if args.worlds else None
    for name in worlds or ():
        if name not in WORLDS:
            raise UnknownName("world", name, WORLDS)
    chosen = entries.choose(args.estimators.split(",")) if args.estimators else None
    make = study.quick_plan if args.quick else study.full_plan
    folder = Path(args.out) if args.out else None
    if folder is not None:
        (folder / "lab").mkdir(parents=True, exist_ok=True)
    processes = args.processes or min(8, os.cpu_count() or 1)
    document = summarise(study.run(make(worlds, chosen, args.seeds), processes))
    text = json.dumps(document, indent=1) + "\n"
    if args.json:
        write_text(args.json, text)
    if folder is not None:
        from ..lab.plots import draw

        plots = draw(document, folder / "lab")
        write_text(folder / "lab" / "lab.json", text)
        write_text(folder / "lab.md", report.page(document, plots, command(args)))
    print(report.aggregate_table(document))
    if len(document["aggregate"]) > 1:
        print("\n" + report.verdict(document))
    return 0


def command(args: argparse.Namespace) -> str:
    """The command that writes the same page again."""
    parts = ["hgpo lab"]
    parts += ["--quick"] if args.quick else []
    for name in ("worlds", "estimators", "seeds"):
        if getattr(args, name):
            parts.append(f"--{name} {getattr(args, name)}")
    return " ".join([*parts, f"--out {folder_name(args.out)}"])


def folder_name(folder: str) -> str:
    """The folder's own name: the page should not know where a checkout lies."""
    return os.path.basename(os.path.normpath(folder)) or folder
