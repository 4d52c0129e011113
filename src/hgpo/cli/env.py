"""Your own environment: write one, check it, see what an agent sees.

    hgpo env new cave.py                 a commented environment to start from, which trains as it is
    hgpo env check cave.py:Cave          the contract, the first prompt, a random episode, times
    hgpo env list                        the environments there are
    hgpo train cave.py:Cave              train the small model in it

An environment is named by a registered name, `module:Class` or `path/file.py:Class`, here and in every other command.
"""

from __future__ import annotations

import argparse
import inspect
import itertools
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING

from ._ending import one_line
from ._options import number

if TYPE_CHECKING:
    from ..envs import TextEnv
    from ..play import Stage

SHOWN = 2000
"""Characters of a prompt that are printed."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    new = actions.add_parser("new", help="write a commented environment that trains as it is")
    new.add_argument("file", metavar="FILE.py", help="where it is written; its name gives the class its name")
    check = actions.add_parser("check", help="check an environment and show what an agent would see")
    check.add_argument("name", metavar="ENV", help="a registered name, module:Class or path/file.py:Class")
    check.add_argument("settings", nargs="*", metavar="key=value", help="settings of the environment")
    check.add_argument("--seed", type=number(int), default=0, metavar="N", help="seed of the random episode")
    actions.add_parser("list", help="list the environments there are")


def run(args: argparse.Namespace) -> int:
    """Do what was asked."""
    if args.action == "new":
        return _new(Path(args.file))
    if args.action == "list":
        return _list()
    return _check(args.name, args.settings, args.seed)


def class_name(file: Path) -> str:
    """The class that a file of this name holds.

    >>> class_name(Path("worlds/deep_cave.py"))
    'DeepCave'
    """
    words = re.findall(r"[A-Za-z0-9]+", file.stem)
    return "".join(word[:1].upper() + word[1:] for word in words)


def _new(file: Path) -> int:
    from ..envs import template
    from ..errors import BadSetting
    from ..files import write_text

    name = class_name(file)
    if file.suffix != ".py" or not name.isidentifier() or not file.stem.isidentifier():
        raise BadSetting(
            f"{file} was given; expected a Python file whose name can name a module, for example cave.py."
        )
    if file.exists():
        raise BadSetting(f"{file} already exists. Choose another name, or remove it first.")
    file.parent.mkdir(parents=True, exist_ok=True)
    write_text(file, re.sub(r"\bCave\b", name, inspect.getsource(template)))
    print(f"wrote {file}: the environment {name}. Change it, then")
    print(f"  hgpo env check {file}:{name}")
    print(f"  hgpo train {file}:{name} --max-minutes 3")
    return 0


def _list() -> int:
    from ..envs.registry import described

    rows = described()
    width = max(len(name) for name, _ in rows)
    for name, sentence in rows:
        print(f"{name:<{width}}  {sentence}")
    print("Yours: path/file.py:Class or module:Class (hgpo env new FILE.py writes one).")
    return 0


def _check(name: str, words: list[str], seed: int) -> int:
    from ..config import load
    from ..config.stage import open_stage
    from ..envs import check_env, make
    from ..envs.registry import settings_of_env
    from ..settings import parse_all

    given = parse_all(words, settings_of_env(name), f"the environment {name!r}")
    env = make(name, **given)
    try:
        check_env(env)
        print(f"{name} keeps the contract (hgpo.envs.check_env)")
        counts = ", ".join(f"{split} {len(env.tasks(split))}" for split in env.splits)
        print(f"tasks: {counts}")
    finally:
        env.close()
    config = load(_preset(name), [f"env={name}", *(f"env.{word}" for word in words)])
    stage = open_stage(config)
    try:
        _show(stage, config.env.split, seed)
    finally:
        stage.close()
    print(_brings(stage.expert_source))
    return 0


def _preset(name: str) -> str:
    """The settings by which an environment is shown: those it would be trained with."""
    from ..config.own import PRESET
    from ..config.preset import is_environment

    return name if is_environment(name) else PRESET


def _show(stage: Stage, split: str, seed: int) -> None:
    """The first prompt, a random episode and the time of a step."""
    from ..errors import EnvironmentFailed
    from ..play import Job
    from ..policies.scripted import ExploringPolicy
    from ..seeds import derive

    task = stage.tasks(split)[0]
    policy = ExploringPolicy(stage.style)
    jobs = [Job(task, task, index, derive("check", seed, index)) for index in range(8)]
    stage.play(policy, jobs)  # copies of the environment are made once, and not timed
    start = time.perf_counter()
    played = stage.play(policy, jobs)
    seconds = time.perf_counter() - start
    if not played.episodes:
        raise EnvironmentFailed(f"No episode could be played. {played.causes[0] if played.causes else ''}")
    steps = sum(len(one.steps) for one in played.episodes)
    episode = played.episodes[0]
    first = episode.steps[0]
    prompt = first.prompt if len(first.prompt) <= SHOWN else f"{first.prompt[:SHOWN]} ..."
    print(f"\nthe first prompt of {task} (agent.prompt={stage.style.name}):\n")
    print("\n".join(f"    {line}" for line in prompt.splitlines()))
    print(f"\na random episode, {len(episode.steps)} steps:\n")
    for step in itertools.islice(episode.steps, 12):
        print(f"    > {one_line(step.action, 100)}")
        print(f"      {one_line(' '.join(step.next_observation.split()), 160)}")
    if len(episode.steps) > 12:
        print(f"      ... {len(episode.steps) - 12} more")
    how = "solved" if episode.success else "not solved"
    print(f"\n    {how}, return {episode.reward:g}, score {episode.score:g}")
    print(f"\n{1000 * seconds / steps:.2f} ms a step over 8 random episodes, resets and prompts included")


def _brings(env: TextEnv) -> str:
    """What the environment has besides the contract, in words."""
    from ..envs.actions import action_form

    parts = [part for part in ("expert", "prompt", "memory") if callable(getattr(env, part, None))]
    has = f"it brings its own {' and '.join(parts)}" if parts else "no expert, which none needs"
    return f"{has}; actions are sent {action_form(env)}"
