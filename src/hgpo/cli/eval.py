"""Evaluate a run, a model, a server or a scripted policy on a frozen panel of tasks.

    hgpo eval runs/quickstart --split in-domain,out-of-domain --seeds 123,456,789
    hgpo eval runs/quickstart --temperature 0.4,1
    hgpo eval Qwen/Qwen2.5-1.5B-Instruct --preset alfworld-qwen2.5-1.5b
    hgpo eval my-model --engine endpoint --url http://localhost:8000/v1 --preset household-smollm2
    hgpo eval expert --preset quickstart
    hgpo eval runs/cave cave.py:Cave

Every task of a split's panel is played once per seed, at every temperature; the model is read once. K, prompts and
limits come from the run or the model's own hgpo.json; `key=value` changes them (`eval.max_steps=50`: longer episodes).
Logs go to logs/<name>/output_seed{seed}.log, each result to one JSON file; those of another evaluation are never
overwritten (a name that is taken gets the evaluation's digits). An episode that cannot be played counts as not solved
and is named.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
from pathlib import Path
from typing import Any

from ..envs.registry import is_address
from ._options import add_allow_env, named_envs, number, path_word


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("target", help="a run, a model folder or hub id, `expert` or `random`")
    parser.add_argument(
        "settings",
        nargs="*",
        metavar="ENV|key=value",
        help="changes to the stored settings; an environment of yours (FILE.py:Class) has to be named",
    )
    parser.add_argument(
        "--split",
        default="",
        metavar="SPLIT,...",
        help="in-domain, out-of-domain, ... (default: that of training)",
    )
    parser.add_argument("--seeds", default="123,456,789", help="comma-separated (default: 123,456,789)")
    parser.add_argument(
        "--tasks", type=number(int), default=0, help="so many tasks, evenly spaced (default: all)"
    )
    parser.add_argument(
        "--temperature",
        type=_temperatures,
        default=[None],
        metavar="TEMPERATURE,...",
        help="default: the evaluation temperature of the run",
    )
    parser.add_argument("--checkpoint", default="last", help="last (default), best, or an iteration")
    parser.add_argument("--preset", help="settings for a model that was not trained here")
    parser.add_argument("--engine", default="hf", help="hf (default), vllm, endpoint or completions")
    parser.add_argument("--url", default="", help="base address of an OpenAI-compatible server")
    add_allow_env(parser)
    parser.add_argument("--logs", type=path_word, metavar="FOLDER", help="default: logs/<name>")
    parser.add_argument("--json", action="store_true", help="print each result as a line of JSON")


def _temperatures(text: str) -> list[float]:
    """The `type` of an option that is one number or several with commas."""
    return [number(float, high=100)(one) for one in text.split(",")]


def run(args: argparse.Namespace) -> int:
    from ..errors import BadSetting, NotWritten
    from ..progress import Progress
    from ..runs.evaluation import evaluations

    try:
        seeds = [int(seed) for seed in args.seeds.split(",") if seed.strip()]
    except ValueError:
        raise BadSetting(
            f"--seeds is {args.seeds!r}; expected whole numbers with commas, for example 123,456,789."
        ) from None
    if args.target in ("expert", "random") and args.preset is None:
        # Without a run or preset, the environment decides all settings.
        named = [word for word in args.settings if "=" not in word and is_address(word)]
        args.preset = named[0] if named else None
    # Of several processes under torchrun one talks.
    first = os.environ.get("RANK", "0") == "0"
    bar = Progress("evaluating")
    results = evaluations(
        args.target,
        splits=[one.strip() for one in args.split.split(",")],
        seeds=seeds,
        tasks=args.tasks,
        temperatures=args.temperature,
        preset=args.preset,
        overrides=named_envs(args.settings),
        checkpoint=args.checkpoint,
        engine=args.engine,
        url=args.url,
        logs=args.logs,
        allow_env=args.allow_env,
        on_episode=(lambda _: bar.add(1)) if first else None,
    )
    with contextlib.closing(results):
        while True:
            bar = Progress("evaluating")
            try:
                with bar:
                    result = next(results, None)
            except NotWritten as error:
                show(error.result, args)  # hours of play are not lost to a full disk
                raise
            if result is None:
                return 0
            if first:
                show(result, args)


def show(result: dict[str, Any], args: argparse.Namespace) -> None:
    """Print the result, for a program or for a person."""
    if args.json:
        print(json.dumps(result))
        return
    low, high = result["success_interval_95"]
    panel, seeds = result["panel"], result["protocol"]["seeds"]
    which = "" if result["iteration"] is None else f" after iteration {result['iteration']}"
    print(
        f"{args.target}{which}: {panel['env']} {panel['split']}, {panel['tasks']} tasks x {len(seeds)} seeds, "
        f"K = {result['history_length']}, temperature {result['protocol']['temperature']}"
    )
    for kind, part in result["success_by_type"].items():
        inner = part["interval_95"]
        print(f"  {kind:<34} {part['success']:6.1%}  [{inner[0]:.1%}, {inner[1]:.1%}]  {part['tasks']} tasks")
    spread = result["success_std_over_seeds"]
    by_seed = ", ".join(f"{seed}: {value:.1%}" for seed, value in result["success_by_seed"].items())
    print(f"  {'success':<34} {result['success']:6.1%}  [{low:.1%}, {high:.1%}]  (95%, over tasks)")
    print(f"  by seed: {by_seed}" + (f"; deviation {100 * spread:.1f} points" if spread is not None else ""))
    print(f"  mean score {result['score']:.3f}, mean steps {result['steps']:.1f}, panel {panel['digest']}")
    if result["unsolved"]:
        from ..runs.failures import sentence

        print(f"  {sentence(result['unsolved'])}")
    if result["failed_episodes"]:
        print(
            f"  {result['failed_episodes']} of {result['episodes']} episodes could not be played to their end and "
            f"count as not solved; the first: {result['failed'][0]['reason']}"
        )
    if result["files"]:
        print(
            f"  logs and JSON in {result['logs']}: {', '.join(Path(file).name for file in result['files'])}"
        )
