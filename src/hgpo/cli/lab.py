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
import sys
from typing import Any

from ..errors import BadFile, UnknownName
from ._options import number


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--quick", action="store_true", help="few seeds and short training: within a minute")
    parser.add_argument("--worlds", metavar="NAME,...", help="kinds of worlds (default: all)")
    parser.add_argument(
        "--estimators",
        metavar="NAME,...",
        help="labels, estimators, or name:setting=value:setting=value (default: all)",
    )
    parser.add_argument(
        "--seeds", type=number(int, low=1, high=1000000), metavar="N", help="worlds drawn of each kind"
    )
    parser.add_argument(
        "--first-seed",
        type=number(int),
        default=0,
        metavar="N",
        help="number the seeds from N, for draws not seen before",
    )
    parser.add_argument("--json", metavar="FILE", help="write all numbers as JSON")
    parser.add_argument("--out", metavar="FOLDER", help="write lab.md and lab/ with plots and numbers there")
    parser.add_argument("--numbers", metavar="FILE", help="make tables and plots from an earlier --json file")
    parser.add_argument(
        "--processes",
        type=number(int, low=1, high=1024),
        metavar="N",
        help="default: one per core, at most 8",
    )
    parser.add_argument("--list", action="store_true", help="list worlds and estimators and stop")


def run(args: argparse.Namespace) -> int:
    """Run the study, print its main table, write what was asked for."""
    from pathlib import Path

    from ..files import check_folder, check_outputs, is_standard_output, write_text
    from ..lab import entries, report
    from ..lab.summary import dump
    from ..lab.worlds import WORLDS

    if args.list:
        print("worlds:", *(f"  {name}: {kind.purpose}" for name, kind in WORLDS.items()), sep="\n")
        print("estimators:", *(f"  {label}" for label in entries.ENTRIES), sep="\n")
        return 0
    folder = Path(args.out) if args.out else None
    if folder is not None:
        check_folder(folder / "lab")
    check_outputs({"--json": args.json}, [args.numbers] if args.numbers else [])
    document = read(args.numbers) if args.numbers else measured(args)
    # Said first: a disk that is full by now does not take the study with it.
    stream = sys.stderr if is_standard_output(args.json) else sys.stdout
    print(report.aggregate_table(document), file=stream)
    if len(document["aggregate"]) > 1:
        print("\n" + report.verdict(document), file=stream)
    stream.flush()
    if args.json:
        write_text(args.json, dump(document))
    if folder is not None:
        from ..lab.plots import draw

        (folder / "lab").mkdir(parents=True, exist_ok=True)
        write_text(folder / "lab" / "lab.json", dump(document))
        plots = draw(document, folder / "lab")
        write_text(folder / "lab.md", report.page(document, plots))
    return 0


def measured(args: argparse.Namespace) -> dict[str, Any]:
    """Run the study that the arguments ask for."""
    from dataclasses import replace

    from ..lab import entries, study
    from ..lab.summary import summarise
    from ..lab.worlds import WORLDS

    worlds = args.worlds.split(",") if args.worlds else None
    for name in worlds or ():
        if name not in WORLDS:
            raise UnknownName("world", name, WORLDS)
    chosen = entries.choose(args.estimators.split(",")) if args.estimators else None
    make = study.quick_plan if args.quick else study.full_plan
    processes = args.processes or min(8, os.cpu_count() or 1)
    plan = replace(make(worlds, chosen, args.seeds), first_seed=args.first_seed)
    document = summarise(study.run(plan, processes))
    return {"command": command(args), **document}


def read(path: str) -> dict[str, Any]:
    """Numbers that an earlier run wrote."""
    import json

    try:
        with open(path, encoding="utf-8") as file:
            document = json.load(file)
        if document["schema_version"] != 1:
            raise BadFile(f"{path} has schema version {document['schema_version']}; this version reads 1.")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BadFile(
            f"Cannot read {path} as numbers of the lab ({error}); expected a file that `hgpo lab --json` wrote."
        ) from error
    return dict(document)


def command(args: argparse.Namespace) -> str:
    """The command that measures the same again."""
    parts = ["hgpo lab"] + (["--quick"] if args.quick else [])
    parts += [f"--{n} {getattr(args, n)}" for n in ("worlds", "estimators", "seeds") if getattr(args, n)]
    parts += [f"--first-seed {args.first_seed}"] if args.first_seed else []
    return " ".join(parts)
