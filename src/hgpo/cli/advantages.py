"""Compute the advantage of every recorded step in a file.

Reads steps from JSON lines or Parquet, writes the same rows with the columns `advantage`, `return` and
`level_0` ... `level_K` (the group of the step at each level, -1 for none), and reports how much each level had to say.
Columns of these names that the file has already become `original_advantage` and so on. Steps of different iterations
(the column `iteration`) are never compared.

    hgpo advantages rollouts.jsonl --estimator hgpo --depth 2 -o advantages.parquet
    hgpo advantages rollouts.parquet --estimator gigpo --json
"""

from __future__ import annotations

import argparse
import json
import re
import sys

from ..errors import BadSetting
from ..estimators.table import ESTIMATORS
from ._options import add_columns, add_settings, column_map, given_settings, parsed_settings, path_word


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments; every setting of every estimator is an option."""
    parser.add_argument("file", nargs="?", metavar="FILE", help="steps: .jsonl, .jsonl.gz or .parquet")
    parser.add_argument(
        "--estimator", default="hgpo", metavar="NAME", help=f"one of {', '.join(ESTIMATORS)} (default hgpo)"
    )
    parser.add_argument(
        "-o", "--output", type=path_word, metavar="OUT", help="where to write the rows with their advantages"
    )
    parser.add_argument(
        "--json",
        nargs="?",
        const="-",
        type=path_word,
        metavar="METRICS",
        help="metrics as JSON, to a file or to the terminal",
    )
    add_columns(parser)
    add_settings(parser)


def run(args: argparse.Namespace) -> int:
    """Read, estimate, write, report."""
    from ..estimators.estimate import estimate
    from ..files import check_outputs, is_standard_output, write_text
    from ..steps.batch import StepBatch
    from ..steps.files import check_form
    from ..steps.names import KEPT

    if args.file is None and args.json not in (None, "-"):
        args.file, args.json = args.json, "-"  # `hgpo advantages --json FILE`
    if args.file is None:
        raise BadSetting("No file was given; expected the path of a .jsonl or .parquet file with steps.")
    metrics_file = None if args.json == "-" else args.json
    if args.output:
        check_form(args.output)
    check_outputs({"-o": args.output, "--json": metrics_file}, [args.file])
    batch = StepBatch.read(args.file, column_map(args.columns))
    result = estimate(batch, args.estimator, **parsed_settings(args.estimator, given_settings(args)))
    if args.output:
        levels = {f"level_{number}": labels for number, labels in enumerate(result.levels)}
        found = {"advantage": result.advantages, "return": result.returns, **levels}
        # Columns of an earlier estimate are kept, also those of levels that this one does not have.
        taken = [name for name in batch.column_names if re.fullmatch(r"advantage|return|level_\d+", name)]
        extended = batch.renamed({name: f"{KEPT}{name}" for name in taken}).with_columns(**found)
        extended.write(args.output)
    if args.json == "-":
        print(json.dumps(result.metrics, indent=2))
        return 0
    if metrics_file:
        write_text(metrics_file, json.dumps(result.metrics, indent=2) + "\n")
    # Rows or metrics on standard output are for a program to read; the summary is for a person.
    printed = is_standard_output(args.output) or is_standard_output(metrics_file)
    said = summary(args.estimator, result.metrics, len(batch.by_iteration()))
    print(said, file=sys.stderr if printed else sys.stdout)
    return 0


def summary(name: str, metrics: dict[str, float], iterations: int) -> str:
    """The metrics in a few lines for a person."""
    apart = f" of {iterations} iterations, each by itself" if iterations > 1 else ""
    lines = [
        f"{name}: {metrics['steps']:.0f} steps of {metrics['trajectories']:.0f} trajectories in "
        f"{metrics['tasks']:.0f} tasks{apart}; mean |A| {metrics['advantage/abs_mean']:.3f}, "
        f"{metrics['advantage/zero_share']:.0%} of the steps have no signal"
    ]
    level = 0
    while f"level/{level}/groups" in metrics:
        m = {k.split("/", 2)[2]: v for k, v in metrics.items() if k.startswith(f"level/{level}/")}
        lines.append(
            f"  level {level}: {m['groups']:.0f} groups, {m['singleton_share']:.0%} of {m['steps']:.0f} steps alone, "
            f"{m['constant_share']:.0%} of shared groups constant, {m['signal_share']:.0%} with signal"
        )
        level += 1
    if "context/inconsistency" in metrics and level > 1:
        lines.append(
            f"  {metrics['context/inconsistency']:.0%} of the pairs in the same state have different histories"
        )
    return "\n".join(lines)
