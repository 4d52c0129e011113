"""Train an agent: hgpo train PRESET key=value ... --run FOLDER.

Presets are shipped with the package (`--list` names them); a path that ends in .toml works too. Settings are
`key=value` with dots for sections, for example `estimator=gigpo rollout.tasks=4 update.lr=1e-5`; `--settings` explains
every one. The published names work at the top: mode, weight_type, length_weight_alpha, base_group, history_length,
group_size.

The run folder gets config.json, metrics.jsonl, rollouts/, checkpoints/, model/, results.json and curves.png.
Ctrl-C saves and stops; `hgpo train --resume --run FOLDER` goes on as if nothing had happened.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from ._ending import say
from ._options import add_allow_env, add_words, number, path_word, split_preset
from ._resume import as_asked, resumed_folder

if TYPE_CHECKING:
    from ..config import Config
    from ..runs.folder import RunFolder

DEFAULT = "quickstart"


def configure(parser: argparse.ArgumentParser) -> None:
    add_words(parser, DEFAULT)
    # Two names: torchrun cannot pass on an option that starts one of its own (--run-path).
    parser.add_argument(
        "--run",
        "--folder",
        dest="folder",
        type=path_word,
        metavar="FOLDER",
        help="where everything is written (default: runs/<preset>/<name>); under torchrun say --folder",
    )
    parser.add_argument(
        "--resume",
        nargs="?",
        const="",
        metavar="RUN",
        help="continue the run in this folder (or in --run)",
    )
    add_allow_env(parser)
    parser.add_argument(
        "--max-minutes", type=number(float), metavar="M", help="stop in time; the run can be resumed"
    )
    parser.add_argument("--list", action="store_true", help="list the presets and stop")
    parser.add_argument(
        "--settings",
        dest="explain",
        action="store_true",
        help="explain every setting with its value in the preset (without one: the defaults) and stop",
    )
    parser.add_argument("--show", action="store_true", help="print the resolved settings as JSON and stop")
    parser.add_argument("--quiet", action="store_true", help="print nothing but errors")
    parser.add_argument("--json", action="store_true", help="print the result as JSON on standard output")


def run(args: argparse.Namespace) -> int:
    from ..config import as_dict, load
    from ..config.stored import named_env
    from ..runs.folder import RunFolder

    if args.list:
        print(preset_list())
        return 0
    if args.resume and "=" in args.resume and not Path(args.resume).exists():
        # A setting that follows `--resume` is no folder: `--run FOLDER --resume iterations=9`.
        args.words, args.resume = [*args.words, args.resume], ""
    preset, words = split_preset(args.words)
    if args.explain:
        print(explained(preset, words))
        return 0
    going_on = resumed_folder(args.resume, args.folder, preset)
    resume = going_on is not None
    given = going_on or args.folder
    folder = RunFolder(Path(given)) if given else None
    if resume and folder is not None and folder.exists():
        # A preset or a word that names the environment again asks for it as the flag does.
        allow_env = [*args.allow_env, *named_env(preset, words)]
        config = as_asked(_resumed(folder, words, allow_env), folder, preset, words)
    else:
        config = load(preset or DEFAULT, words)
    if args.show:
        print(json.dumps(as_dict(config), indent=1))
        return 0
    folder = folder or RunFolder.default(preset or DEFAULT, config)
    from ..runs.training import train

    result = train(config, folder.path, resume=resume, max_minutes=args.max_minutes, quiet=args.quiet)
    if args.json:
        print(json.dumps(result))
    if result["ended"] == "interrupted":
        say(f"hgpo train: interrupted; go on with: hgpo train --resume {folder.path}")
    return 130 if result["ended"] == "interrupted" else 0


def preset_list() -> str:
    """The presets, a sentence each."""
    from ..config import preset_description, preset_names

    width = max(map(len, preset_names()))
    return "\n".join(f"{name:<{width}}  {preset_description(name)}" for name in preset_names())


def explained(preset: str | None, words: list[str]) -> str:
    """Every setting of a preset, explained."""
    from ..config import describe_settings, load, preset_description

    title = f"{preset}: {preset_description(preset)}" if preset else "The defaults of all settings."
    return describe_settings(load(preset, words), title)


def _resumed(folder: RunFolder, words: list[str], allow_env: list[str]) -> Config:
    """The run's own settings; only its length may be changed on resuming, other words must say what is so already."""
    from dataclasses import replace

    from ..config import apply, as_dict, build
    from ..errors import BadSetting

    asked = folder.config(words, allow_env=allow_env)
    config = build(folder.description().config)

    def changed(words: list[str]) -> bool:
        asked = build(apply(as_dict(config), words))
        return (
            replace(asked, iterations=config.iterations, save_every=config.save_every, keep=config.keep)
            != config
        )

    if changed(words):
        word = next((word for word in words if changed([word])), " ".join(words))
        raise BadSetting(
            f"{word!r} cannot be changed on resuming: the run's own settings are in {folder.config_file}. "
            "Only iterations, save_every and keep can. Start a new run for the rest."
        )
    return asked
