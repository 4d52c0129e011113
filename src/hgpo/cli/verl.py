"""Train on a cluster with verl: doctor, dry-run, launch, memory, data.

    hgpo verl doctor [--cpu]                      what is installed, what fits, what is missing and how to repair it
    hgpo verl dry-run PRESET --run FOLDER         two real steps of verl on the CPU with a tiny random model
    hgpo verl launch PRESET key=value ... --run FOLDER --gpus 2
    hgpo verl memory PRESET --machine 8x80gb      what a run takes of each GPU's memory, with the arithmetic
    hgpo verl data PRESET key=value ... --out FOLDER

Presets and settings are those of `hgpo train`. Words that start with one of verl's own sections (trainer.,
actor_rollout_ref., data., ...) or with + go to verl as they are. `launch --print` shows the whole command.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ._options import add_allow_env, add_words, number, path_word, split_preset
from ._resume import as_asked

if TYPE_CHECKING:
    from ..verl.overrides import Cluster

TOO_LARGE = (
    "use more GPUs, model.lora_rank=16, --offload, a smaller --gpu-memory or a smaller update.micro_tokens."
)


def configure(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)

    doctor = actions.add_parser("doctor", help="check the installation", allow_abbrev=False)
    doctor.add_argument("--cpu", action="store_true", help="check for a dry run, not for training on GPUs")
    doctor.add_argument("--ray-address", default="", metavar="ADDRESS", help="also look at this Ray cluster")
    doctor.add_argument("--json", action="store_true", help="print the findings as JSON")

    dry = actions.add_parser("dry-run", help="two real steps on the CPU", allow_abbrev=False)
    add_words(dry)
    dry.add_argument(
        "--run", required=True, type=path_word, metavar="FOLDER", help="where everything is written"
    )
    dry.add_argument(
        "--processes", type=number(int, low=1, high=1024), default=1, help="training processes (default: 1)"
    )
    dry.add_argument("--steps", type=number(int, low=1), default=2, help="training steps (default: 2)")
    dry.add_argument("--resume", action="store_true", help="go on with the dry run in that folder")
    add_allow_env(dry)
    dry.add_argument("--verbose", action="store_true", help="show verl's own output (it is in RUN/verl.log)")
    dry.add_argument("--json", action="store_true", help="print the result as JSON")

    launch = actions.add_parser("launch", help="train on GPUs", allow_abbrev=False)
    add_words(launch)
    launch.add_argument(
        "--run", type=path_word, metavar="FOLDER", help="where everything is written (default: runs/<name>)"
    )
    launch.add_argument("--resume", action="store_true", help="continue the run in that folder")
    add_allow_env(launch)
    launch.add_argument(
        "--verbose", action="store_true", help="show all of verl's output (it is in RUN/verl.log)"
    )
    launch.add_argument("--print", action="store_true", help="print the command and stop")
    _add_cluster(launch)

    memory = actions.add_parser("memory", help="reckon the memory of a run", allow_abbrev=False)
    add_words(memory)
    _add_cluster(memory)
    memory.add_argument(
        "--gpu-gb", type=number(float, low=1, high=10000), default=80.0, help="of each GPU (default: 80)"
    )

    data = actions.add_parser("data", help="only write the dataset rows", allow_abbrev=False)
    add_words(data)
    data.add_argument(
        "--out", required=True, type=path_word, metavar="FOLDER", help="where the Parquet files go"
    )
    data.add_argument("--json", action="store_true", help="print what was written as JSON")


def _add_cluster(parser: argparse.ArgumentParser) -> None:
    """Where a run happens; an option that is not given is the machine's, or the default."""
    parser.add_argument("--machine", metavar="NAME", help="1x80gb, 2x80gb or 8x80gb: sets what is not given")
    parser.add_argument("--nodes", type=number(int, low=1), help="machines (default: 1)")
    parser.add_argument("--gpus", type=number(int, low=1), help="GPUs of each machine (default: 1)")
    parser.add_argument("--engine", choices=["vllm", "sglang"], help="rollout server (default: vllm)")
    parser.add_argument("--mode", help="sync (default), colocate_async or separate_async")
    parser.add_argument("--tensor-parallel", type=number(int, low=1), help="GPUs that share a rollout server")
    parser.add_argument(
        "--gpu-memory",
        type=number(float, low=0, high=1),
        help="share of it for rollouts (default: 0.6)",
    )
    parser.add_argument(
        "--offload", action="store_true", default=None, help="keep the optimiser in CPU memory while sampling"
    )
    parser.add_argument("--workers", type=number(int, low=1), help="processes that run episodes (default: 8)")
    parser.add_argument(
        "--rollout-nodes", type=number(int, low=1), help="machines for rollouts (separate_async)"
    )
    parser.add_argument("--rollout-gpus", type=number(int), help="GPUs of each of them (separate_async)")
    parser.add_argument("--ray-address", metavar="ADDRESS", help="an existing Ray cluster, or auto")


def _cluster(args: argparse.Namespace) -> Cluster:
    from ..errors import UnknownName
    from ..verl.memory import MACHINES
    from ..verl.overrides import Cluster

    if args.machine and args.machine not in MACHINES:
        raise UnknownName("machine", args.machine, MACHINES)
    base = MACHINES[args.machine] if args.machine else Cluster()
    names = [field.name for field in dataclasses.fields(Cluster)]
    given = {name: getattr(args, name) for name in names if getattr(args, name) is not None}
    return dataclasses.replace(base, **given)


def run(args: argparse.Namespace) -> int:
    actions = {"doctor": _doctor, "dry-run": _dry_run, "launch": _launch, "memory": _memory, "data": _data}
    return actions[args.action](args)


def _doctor(args: argparse.Namespace) -> int:
    from ..verl.doctor import examine

    findings = examine(cpu=args.cpu, ray_address=args.ray_address)
    ready = not any(one.level == "error" for one in findings)
    if args.json:
        print(json.dumps({"ready": ready, "findings": [one.as_dict() for one in findings]}, indent=1))
    else:
        for one in findings:
            print(f"{one.level:<7} {one.sentence}" + (f"\n        fix: {one.fix}" if one.fix else ""))
        aim = "for a dry run" if args.cpu else "to train"
        print(f"ready {aim}" if ready else f"not ready {aim}: repair the errors above")
    return 0 if ready else 1


def _words(args: argparse.Namespace) -> tuple[str, list[str], list[str]]:
    """The preset, our settings, verl's overrides."""
    from ..errors import BadSetting
    from ..verl.overrides import split_words

    preset, words = split_preset(args.words)
    if preset is None and not getattr(args, "resume", False):
        raise BadSetting(
            "Name a preset first (`hgpo train --list` shows them), or a path that ends in .toml."
        )
    return (preset or "", *split_words(words))


def _dry_run(args: argparse.Namespace) -> int:
    from ..config.stored import named_env
    from ..errors import BadSetting
    from ..verl.dryrun import dry_run
    from ..verl.launch import require_extra

    require_extra()
    preset, ours, theirs = _words(args)
    if args.resume and (preset or ours):
        raise BadSetting(
            f"{(preset or ours[0])!r} beside --resume: a dry run goes on with its own settings. Leave it out, or begin "
            "another with --run."
        )
    if not args.json:
        print(
            f"verl on the CPU, {args.steps} steps; this takes minutes (log: {args.run}/verl.log)",
            file=sys.stderr,
        )
    result = dry_run(
        preset,
        ours,
        theirs,
        Path(args.run),
        processes=args.processes,
        steps=args.steps,
        resume=args.resume,
        echo=args.verbose,
        quiet=args.json,
        allow_env=[*args.allow_env, *named_env(preset or None, ours)],
    )
    if args.json:
        print(json.dumps(result))
    else:
        print(
            f"{result['steps']} steps, {result['rows']} rows in {args.run}/rows.parquet; what verl trained on "
            f"equals hgpo.estimate to {result['largest_difference']:.1e}; {result['seconds']:.0f} s"
        )
    return 0


def _launch(args: argparse.Namespace) -> int:
    from ..config import load
    from ..config.stored import allow_flag, named_env
    from ..errors import BadSetting
    from ..runs.folder import RunFolder
    from ..verl.data import planned_data
    from ..verl.launch import launch, require_extra, resumed, run_words, show

    preset, ours, theirs = _words(args)
    if args.resume:
        if not args.run:
            raise BadSetting("--resume needs the folder of the run: hgpo verl launch --resume --run FOLDER.")
        changes = [word for word in ours if not word.startswith("iterations=")]
        if changes and not preset:
            raise BadSetting(f"{changes[0]!r} cannot be changed on resuming; only iterations can.")
        folder = RunFolder(Path(args.run))
        length = load("quickstart", ours).iterations if ours and not preset else None
        allow_env = [*args.allow_env, *named_env(preset or None, ours)]
        config = as_asked(resumed(folder, length, allow_env=allow_env), folder, preset, ours)
    else:
        config = load(preset, ours)
    run = RunFolder(Path(args.run)) if args.run else RunFolder.default(preset, config)
    cluster = _cluster(args)
    if args.print:
        run = RunFolder(run.path.resolve())
        data = planned_data(config, run.data)
        words = run_words(config, cluster, run, data, resume=args.resume)
        print(show([*words, *theirs]))
        return 0
    require_extra()
    from ..verl.doctor import require_ready

    for line in require_ready(config, cluster):
        print(line, file=sys.stderr)
    model = launch(config, run, cluster, theirs, resume=args.resume, echo=args.verbose)
    print(f"evaluate {model} with: hgpo eval {run.path}{allow_flag(config)}")
    return 0


def _memory(args: argparse.Namespace) -> int:
    from ..config import load
    from ..errors import BadSetting
    from ..models.shape import find_shape
    from ..verl.memory import GB, reckon

    preset, ours, _ = _words(args)
    config = load(preset, ours)
    shape = find_shape(config.model.path)
    if shape is None:
        raise BadSetting(
            f"The size of model {config.model.path!r} is not known: there is no config.json of it here. Give a folder "
            "with model=PATH."
        )
    found = reckon(config, _cluster(args), shape, args.gpu_gb * GB)
    print("\n".join(found.lines()))
    print("it fits" if found.fits() else "it does NOT fit: " + TOO_LARGE)
    return 0 if found.fits() else 1


def _data(args: argparse.Namespace) -> int:
    from ..config import load
    from ..errors import BadSetting
    from ..files import check_new
    from ..verl.data import planned_data, write_data

    preset, ours, theirs = _words(args)
    if theirs:
        raise BadSetting(f"{theirs[0]!r} is a setting of verl; the dataset does not depend on it.")
    config = load(preset, ours)
    planned = planned_data(config, Path(args.out))
    check_new([planned.train, *planned.validation], "Choose another folder with --out, or remove it.")
    written = write_data(config, Path(args.out))
    files = [written.train, *written.validation]
    if args.json:
        print(
            json.dumps(
                {
                    "files": [str(path) for path in files],
                    "training_rows": written.rows,
                    "validation_rows": written.validation_rows,
                }
            )
        )
    else:
        print(f"{written.rows} training rows, {written.validation_rows} validation rows:")
        print("\n".join(f"  {path}" for path in files))
    return 0
