"""See whether compared steps really share their context.

Reads recorded rollouts (a .jsonl or .parquet file, a run folder, or a folder of verl rollout dumps), says in plain
words what the groups of compared steps look like and what to do about it, and writes a page to browse them.

    hgpo inspect runs/household --html report.html
    hgpo inspect rollouts.jsonl --depth 4 --json report.json
    hgpo inspect theirs.jsonl --columns uid=task,traj=trajectory,turn=step,obs=observation
    hgpo inspect runs/one --compare runs/two
    hgpo inspect rollouts.parquet --compare hgpo gigpo
    hgpo inspect cave.py:Cave                            random play in an environment that was never trained in
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import BadSetting
from ..estimators.table import ESTIMATORS
from ._options import add_columns, add_settings, column_map, given_settings, parsed_settings, path_word

if TYPE_CHECKING:
    from ..inspect import Rollouts

TASKS = 8
"""So many tasks of an environment are played to be inspected."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "path",
        nargs="?",
        metavar="PATH|ENV",
        help="a rollout file, a run folder, a folder of dumps, or an environment (FILE.py:Class)",
    )
    parser.add_argument(
        "--html", type=path_word, metavar="OUT.html", help="write the page, one file that needs nothing else"
    )
    parser.add_argument(
        "--json",
        nargs="?",
        const="-",
        type=path_word,
        metavar="OUT.json",
        help="every number, to a file or to the terminal",
    )
    parser.add_argument(
        "--estimator",
        metavar="NAMES",
        help=f"compared estimators, from {','.join(ESTIMATORS)} (hgpo,gigpo,grpo)",
    )
    parser.add_argument(
        "--compare",
        nargs="+",
        metavar="OTHER",
        help="a second file or run, or an estimator (or two) on the same rollouts",
    )
    add_columns(parser)
    add_settings(parser)


def run(args: argparse.Namespace) -> int:
    """Read, count, write, say."""
    path, other, pair = _what(args)
    columns = column_map(args.columns)
    with tempfile.TemporaryDirectory() as folder:
        return _report(args, _steps(path, Path(folder)), other, pair, columns)


def _steps(path: str, folder: Path) -> str:
    """The path; where it is an environment, that of a file of random play in it."""
    from ..config.preset import is_environment

    if Path(path).exists() or not is_environment(path):
        return path
    from ..config import load
    from ..config.stage import open_stage
    from ..errors import EnvironmentFailed
    from ..play import Job, record
    from ..policies.scripted import ExploringPolicy
    from ..seeds import derive

    config = load(path)
    stage = open_stage(config)
    try:
        jobs = [
            Job(task, task, index, derive("inspect", task, index), derive("inspect", task))
            for task in stage.tasks(config.env.split, TASKS)
            for index in range(config.rollout.group_size)
        ]
        played = stage.play(ExploringPolicy(stage.style), jobs)
        if not played.episodes:
            raise EnvironmentFailed(f"No episode of {path} could be played. {played.causes[0]}")
    finally:
        stage.close()
    file = folder / "random-play.jsonl"
    record(played.episodes).write(file)
    return str(file)


def _report(
    args: argparse.Namespace, path: str, other: str | None, pair: list[str], columns: dict[str, str]
) -> int:
    import json
    import sys

    from ..files import check_outputs, is_standard_output, write_text
    from ..inspect import inspect, open_rollouts
    from ..inspect.side_by_side import compare_estimators, compare_runs
    from ..inspect.terminal import terminal

    rollouts = open_rollouts(path, columns)
    beside = open_rollouts(other, columns) if other is not None else None
    json_file = None if args.json == "-" else args.json
    inputs = [*rollouts.inputs(), *(beside.inputs() if beside is not None else [])]
    check_outputs({"--html": args.html, "--json": json_file}, inputs)
    plan = _plan(args, rollouts, pair)
    second = None
    if beside is not None:
        second = inspect(beside, _plan(args, beside, []), shown_steps=0).content
    report = inspect(rollouts, plan)
    if second is not None:
        names = _names(report.content["source"]["name"], second["source"]["name"], path, str(other))
        configs = (rollouts.config, beside.config) if beside is not None else ()
        report.content["compare"] = compare_runs(report.content, second, names, configs)
    elif pair:
        report.content["compare"] = compare_estimators(report.content, *pair)
    if args.html:
        from ..inspect.page import write_page

        write_page(report, args.html)
    taken = is_standard_output(args.html) or is_standard_output(json_file)
    # A page or numbers on standard output are for a program to read; the report is for a person.
    stream = sys.stderr if taken else sys.stdout
    if args.json:
        from ..inspect.report import finite
        from ..inspect.step_columns import step_columns

        text = json.dumps(finite({**report.content, "steps": step_columns(report.shown)}), allow_nan=False)
        if json_file is None:
            print(text)
            return 0
        write_text(json_file, text + "\n")
    print(terminal(report.content), file=stream)
    for written in (args.html, json_file):
        if written:
            print(f"wrote {written}", file=stream)
    return 0


def _what(args: argparse.Namespace) -> tuple[str, str | None, list[str]]:
    """The path, a second path, and two estimators: `PATH --compare OTHER` and `--compare A B` both work."""
    words: list[str] = list(args.compare or [])
    path: str | None = args.path
    if path is None and args.json not in (None, "-") and not words:
        path, args.json = args.json, "-"  # `hgpo inspect --json PATH`
    if path is None and len(words) > 1:
        # `--compare A B`: two paths; `--compare gigpo PATH` and `--compare hgpo gigpo PATH`: estimators first.
        path = words.pop(0) if words[0] not in ESTIMATORS else words.pop()
    if path is None:
        raise BadSetting(
            "No rollouts were given; expected the path of a .jsonl or .parquet file or of a run folder."
        )
    named = [word for word in words if word in ESTIMATORS]
    if len(words) > 2 or (len(words) == 2 and len(named) < 2):
        raise BadSetting(
            f"--compare was given {', '.join(words)} beside {path}; expected one other path, or one or two estimators "
            f"from {', '.join(ESTIMATORS)}."
        )
    if not named:
        return path, words[0] if words else None, []
    first = (args.estimator or "hgpo").split(",")[0].strip()
    return path, None, named if len(named) == 2 else [first, named[0]]


def _plan(args: argparse.Namespace, rollouts: Rollouts, pair: list[str]) -> Any:
    from ..inspect.analysis import choose_estimators

    trained_with = rollouts.estimator if rollouts.estimator in ESTIMATORS else None
    if args.estimator is not None:
        names = [name.strip() for name in args.estimator.split(",") if name.strip()]
    else:
        names = [*([trained_with] if trained_with else []), "hgpo", "gigpo", "grpo"]
    names = list(dict.fromkeys([*pair, *names]))
    given: dict[str, Any] = {}
    for name in [*names, "hgpo"]:
        given = {**parsed_settings(name, given_settings(args)), **given}
    return choose_estimators(names, given, rollouts.settings if trained_with else None)


def _names(first: str, second: str, path: str, other: str) -> tuple[str, str]:
    return (first, second) if first != second else (path, other)
