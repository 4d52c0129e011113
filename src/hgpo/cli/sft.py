"""Clone demonstrations into a model (a warm start): hgpo sft PRESET key=value ... --out FOLDER.

    hgpo sft quickstart --out models/warm
    hgpo sft household-smollm2 warm.episodes=500 --out models/smollm2-warm
    hgpo sft cave.py:Cave warm.source=demonstrations.jsonl --out models/cave

They are played by the environment's expert, or come from elsewhere (`warm.source`): random play that succeeded, a file
of steps.

The folder is in Hugging Face format; train from it with `hgpo train PRESET model=FOLDER warm.episodes=0`.
"""

from __future__ import annotations

import argparse
import json
import os

from ._options import add_words, path_word, split_preset


def configure(parser: argparse.ArgumentParser) -> None:
    add_words(parser, "quickstart")
    parser.add_argument(
        "--out", required=True, type=path_word, metavar="FOLDER", help="where the model is written"
    )
    parser.add_argument("--quiet", action="store_true", help="print nothing but errors")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def run(args: argparse.Namespace) -> int:
    from pathlib import Path

    import torch

    from ..config import load
    from ..config.stage import open_stage
    from ..errors import BadSetting
    from ..files import check_folder
    from ..models.device import pick_device
    from ..models.hub import check_hub
    from ..models.out_of_memory import out_of_memory_explained
    from ..models.source import check_source
    from ..policies.engine import check_engine
    from ..runs.start import prepare
    from ..runs.tracking import Screen

    check_engine("hf")
    preset, words = split_preset(args.words)
    config = load(preset or "quickstart", words)
    if config.warm.episodes < 1:
        raise BadSetting("warm.episodes is 0; say how many episodes to clone: warm.episodes=300.")
    if config.model.path != "tiny":
        check_source(config.model.path)
        check_hub(config.model.path)
    folder = Path(args.out)
    if os.path.lexists(folder):
        raise BadSetting(f"{folder} already exists. Choose another folder, or remove it first.")
    check_folder(folder.parent)
    folder.parent.mkdir(parents=True, exist_ok=True)
    if config.threads:
        torch.set_num_threads(config.threads)
    stage = open_stage(config)
    screen = Screen(0, quiet=args.quiet)
    try:
        with out_of_memory_explained():
            prepare(config, stage, folder, pick_device(config.device), screen)
    finally:
        stage.close()
    screen.say(f"model in {folder}")
    if args.json:
        print(json.dumps({"model": str(folder), "episodes": config.warm.episodes}))
    return 0
