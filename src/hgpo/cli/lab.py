"""Measure estimators against the truth: in small worlds, or in a real engine.

By default: draws small worlds, computes the truth in each by dynamic programming, and reports for every estimator its
error, the cosine of its gradient with the true one (beside the ceiling) and how fast policies learn with it.

    hgpo lab --quick                                     # all worlds and estimators, within a minute
    hgpo lab --out docs                                  # the page in the documentation, with tables and plots
    hgpo lab --worlds maze,slips --estimators hgpo,hgpo_lambda:lam=0.9 --seeds 10 --json found.json

With --engine: a policy plays groups of games, copies of every state it comes through are played on for its value, and
the advantages of every estimator are compared with those values, over games.

    hgpo lab --engine household                          # a noisy expert in generated houses, minutes on two cores
    hgpo lab --engine household --policy runs/quickstart # a trained model, under the settings it was trained with
    hgpo lab --engine alfworld                           # the official games (`hgpo data` says where to get them)
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

from ..errors import BadSetting, UnknownName
from ._options import add_allow_env, number

WORLDS_ONLY = ("worlds", "seeds", "first_seed")
ENGINE_ONLY = (
    "policy",
    "noise",
    "games",
    "rollouts",
    "continuations",
    "split",
    "seed",
    "temperature",
    "preset",
    "checkpoint",
    "url",
    "name",
    "steps",
)
NOISE = 0.7
"""Of the expert: it solves four generated houses in ten."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--quick", action="store_true", help="a small study: within a minute")
    parser.add_argument(
        "--estimators",
        metavar="NAME,...",
        help="labels, estimators, or name:setting=value:setting=value (default: all)",
    )
    parser.add_argument("--json", metavar="FILE", help="write all numbers as JSON")
    parser.add_argument("--out", metavar="FOLDER", help="write lab.md and lab/ with plots and numbers there")
    parser.add_argument("--numbers", metavar="FILE", help="make tables and plots from an earlier --json file")
    parser.add_argument(
        "--processes",
        type=number(int, low=1, high=1024),
        metavar="N",
        help="default: one per core, at most 8; one where a model plays on a GPU",
    )
    parser.add_argument("--list", action="store_true", help="list worlds and estimators and stop")
    small = parser.add_argument_group("small worlds")
    small.add_argument("--worlds", metavar="NAME,...", help="kinds of worlds (default: all)")
    small.add_argument(
        "--seeds", type=number(int, low=1, high=1000000), metavar="N", help="worlds drawn of each kind"
    )
    small.add_argument(
        "--first-seed",
        type=number(int),
        metavar="N",
        help="number the seeds from N, for draws not seen before",
    )
    real = parser.add_argument_group("a real engine")
    real.add_argument("--engine", metavar="ENV", help="household, alfworld, shop, webshop, or one of yours")
    real.add_argument(
        "settings", nargs="*", metavar="key=value", help="settings, as in `hgpo eval`: env.size=tiny"
    )
    real.add_argument("--policy", metavar="WHO", help="expert (default), a run, a model folder or hub id")
    real.add_argument(
        "--noise",
        type=number(float, high=1),
        metavar="SHARE",
        help=f"share of the expert's steps that go wrong (default: {NOISE})",
    )
    real.add_argument("--games", type=number(int, low=1, high=100000), metavar="N", help="default: 16")
    real.add_argument(
        "--rollouts", type=number(int, low=1, high=4096), metavar="N", help="of each game (default: 8)"
    )
    real.add_argument(
        "--continuations",
        type=number(int, low=2, high=100000),
        metavar="N",
        help="played from every state for its value (default: 32)",
    )
    real.add_argument("--split", metavar="SPLIT", help="where the games are from (default: train)")
    real.add_argument("--seed", type=number(int), metavar="N", help="decides games and draws (default: 0)")
    real.add_argument(
        "--temperature", type=number(float, high=100), help="of a model (default: its rollouts' temperature)"
    )
    real.add_argument("--preset", help="settings for a model that was not trained here")
    real.add_argument("--checkpoint", help="of a run: last (default), best, or an iteration")
    real.add_argument("--url", help="base address of an OpenAI-compatible server that has the model")
    real.add_argument("--steps", metavar="FILE", help="write the steps with their true advantages")
    real.add_argument("--name", metavar="NAME", help="of the record in --out (default: by engine and policy)")
    add_allow_env(parser)


def run(args: argparse.Namespace) -> int:
    """Run the study, print its main table, write what was asked for."""
    from ..files import check_folder, check_outputs, is_standard_output, write_text
    from ..lab import games_report, report
    from ..lab.records import dump, read

    if args.list:
        listing()
        return 0
    check_options(args)
    folder = Path(args.out) if args.out else None
    if folder is not None:
        check_folder(folder / "lab")
    outputs = {"--json": args.json, "--steps": args.steps}
    check_outputs(outputs, [args.numbers] if args.numbers else [])
    if args.numbers:
        document = read(args.numbers)
    else:
        document = measured_games(args) if args.engine else measured(args)
    # Said first: a disk that is full by now does not take the study with it.
    stream = sys.stderr if any(is_standard_output(path) for path in outputs.values()) else sys.stdout
    print((games_report if document["kind"] == "games" else report).terminal(document), file=stream)
    stream.flush()
    if args.json:
        write_text(args.json, dump(document))
    if folder is not None:
        from ..lab.page import write_page

        write_page(folder, document, args.name)
    return 0


def listing() -> None:
    """What there is to choose from."""
    from ..lab import entries
    from ..lab.worlds import WORLDS

    print("worlds:", *(f"  {name}: {kind.purpose}" for name, kind in WORLDS.items()), sep="\n")
    print("estimators:", *(f"  {label}" for label in entries.ENTRIES), sep="\n")


def check_options(args: argparse.Namespace) -> None:
    """Refuse options of the one truth beside those of the other."""
    wrong = WORLDS_ONLY if args.engine else ENGINE_ONLY
    given = [name for name in wrong if getattr(args, name) is not None]
    if args.numbers and not args.engine:
        given = [name for name in given if name != "name"]
    if given:
        option = f"--{given[0].replace('_', '-')}"
        raise BadSetting(
            f"{option} is about small worlds; leave it out, or leave --engine out."
            if args.engine
            else f"{option} is about a real engine; name one: --engine household."
        )
    if args.settings and not args.engine:
        raise BadSetting(
            f"The setting {args.settings[0]!r} is one of a real engine's; name it: --engine household. Settings of "
            "estimators are written --estimators name:setting=value."
        )


def measured(args: argparse.Namespace) -> dict[str, Any]:
    """Run the study of small worlds that the arguments ask for."""
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
    plan = replace(make(worlds, chosen, args.seeds), first_seed=args.first_seed or 0)
    document = summarise(study.run(plan, args.processes or cores()))
    return {"command": command(args), **document}


def measured_games(args: argparse.Namespace) -> dict[str, Any]:
    """Play the games that the arguments ask for."""
    from ..lab import games

    plan = games_plan(args)
    games.check(plan)
    processes = args.processes or (1 if games.on_gpu(plan) else cores())
    played = games.play(plan, processes)
    if args.steps:
        played.with_truth().write(args.steps)
    return {"command": command(args), **games.summarise(plan, played)}


def games_plan(args: argparse.Namespace) -> Any:
    """The plan of a study in a real engine."""
    from ..config.load import load
    from ..lab import entries, games
    from ..runs.evaluation import Target, find_target

    words, policy = list(args.settings), args.policy or "expert"
    if args.url:
        target = Target(policy.replace("/", "_"), policy, load(args.preset or "household-smollm2", words))
    elif policy == "expert" and not args.preset and not Path(policy).exists():
        plain = [f"env.name={args.engine}", "agent.prompt=compact", "agent.reasoning=false"]
        target = Target(policy, policy, load(None, [*plain, *words]))
    else:
        target = find_target(policy, args.preset, words, args.checkpoint or "last", allow_env=args.allow_env)
    if target.config.env.name != args.engine:
        raise BadSetting(
            f"--engine is {args.engine}, but {policy} plays in {target.config.env.name!r}; expected the same. Give "
            f"--engine {target.config.env.name}, or settings of another preset (--preset)."
        )
    scripted = not args.url and games.is_scripted(target)
    if args.noise is not None and not scripted:
        raise BadSetting("--noise is about the expert; a model has its --temperature.")
    if args.temperature is not None and scripted:
        raise BadSetting("--temperature is about a model; the expert has its --noise.")
    sampler = "endpoint" if args.url else "scripted" if scripted else target.config.rollout.engine
    temperature = target.config.rollout.temperature if args.temperature is None else args.temperature
    quick = {"games": 4, "continuations": 8} if args.quick else {}
    asked = {name: getattr(args, name) for name in ("games", "rollouts", "continuations", "split", "seed")}
    chosen = entries.choose(args.estimators.split(",")) if args.estimators else entries.with_engine()
    return games.GamesPlan(
        target,
        engine=sampler,
        url=args.url or "",
        noise=NOISE if args.noise is None else args.noise,
        temperature=temperature,
        entries=tuple(chosen),
        **{**quick, **{name: value for name, value in asked.items() if value is not None}},
    )


def cores() -> int:
    """One process per core, at most 8."""
    return min(8, os.cpu_count() or 1)


def command(args: argparse.Namespace) -> str:
    """The command that measures the same again."""
    parts = ["hgpo lab"] + (["--quick"] if args.quick else [])
    named = ["engine", "worlds", "estimators", "seeds", "first_seed", *ENGINE_ONLY[:-2]]
    given = {name: getattr(args, name) for name in named}
    if given["policy"]:
        given["policy"] = (
            Path(given["policy"]).name if Path(given["policy"]).is_absolute() else given["policy"]
        )
    parts += [
        f"--{name.replace('_', '-')} {value}" for name, value in given.items() if value not in (None, "")
    ]
    # Where the data lie on this machine concerns nobody else.
    return " ".join([*parts, *(word for word in args.settings if not word.startswith("env.data="))])
