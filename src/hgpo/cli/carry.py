"""Take a run along to another machine, in small parts, and go on there.

    hgpo carry pack runs/mine --out parcel             parts of at most 16 MB, and a list with their digests
    hgpo carry unpack parcel --run runs/mine           on the other machine: checks every part
    hgpo train --resume runs/mine                      goes on

A parcel has the settings, the metrics and the checkpoints of a run; of a run with adapters these are small. The model
that such a run starts from has to be there, too, at the same path. Where the run made its start itself (a warm start),
the parcel has it, too; `--without-start` leaves it out, and the run makes it again on the other machine and checks that
it is the same, which it is on a machine of the same kind.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from ._options import number, path_word


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    ways = parser.add_subparsers(dest="way", required=True, metavar="WAY")
    one = ways.add_parser("pack", help="write a run as a parcel")
    one.add_argument("run_folder", type=path_word, metavar="RUN", help="the folder of a run")
    one.add_argument(
        "--out", type=path_word, required=True, metavar="FOLDER", help="a new folder for the parts"
    )
    one.add_argument(
        "--part-mb",
        type=number(float, 0.001, 1e6),
        default=16.0,
        metavar="N",
        help="largest part (default: 16)",
    )
    one.add_argument("--last", action="store_true", help="of the checkpoints only the last, not the best")
    one.add_argument(
        "--without-start",
        action="store_true",
        help="leave out the policy that the run began with; it is made again when the run goes on",
    )
    other = ways.add_parser("unpack", help="put a parcel together again")
    other.add_argument(
        "parcel", type=path_word, metavar="FOLDER", help="the folder with the parts and their list"
    )
    other.add_argument("--run", type=path_word, required=True, metavar="RUN", help="a new folder for the run")


def run(args: argparse.Namespace) -> int:
    """Pack or unpack."""
    from ..models.folder import left_out
    from ..runs.folder import RunFolder
    from ..runs.folder.parcel import pack, unpack

    if args.way == "pack":
        out = Path(args.out)
        made = pack(
            Path(args.run_folder), out, int(args.part_mb * 1e6), last=args.last, start=not args.without_start
        )
        size = f"{made.size / 1e6:,.1f} MB in {len(made.parts)} part{'s' if len(made.parts) != 1 else ''}"
        print(f"{len(made.files)} files, {size}, in {out}")
        print(f"on the other machine: hgpo carry unpack {out.name} --run {args.run_folder}")
        return 0
    made = unpack(Path(args.parcel), Path(args.run))
    folder = RunFolder(Path(args.run))
    iteration = folder.checkpoints()[-1].iteration
    print(f"{args.run} is complete, {made.size / 1e6:,.1f} MB, at iteration {iteration}")
    again, model = left_out(folder.start), folder.description().config["model"]["path"]
    if again:
        print("its start was left out, and is made again when the run goes on")
    if model != "tiny" and (again or not folder.start.is_dir()):
        print(f"it starts from {model}: that model has to be here, too")
    print(f"go on with: hgpo train --resume {args.run}")
    return 0
