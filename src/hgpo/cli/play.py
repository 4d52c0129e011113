"""Play an environment in the terminal, to feel what the agent sees.

Type a command, or the number of a listed one; `quit` ends. A scripted policy can play instead of you.

    hgpo play household                              a generated house
    hgpo play household size=alfworld --split out-of-domain --task 3
    hgpo play alfworld --policy expert
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import sys
from collections.abc import Callable
from typing import Any, TypeVar

from ..errors import BadSetting, EnvironmentFailed, HgpoError
from ._options import number

T = TypeVar("T")
OPEN = "[...]"
"""What stands in an admissible command for words of one's own: `search[...]`."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("name", metavar="NAME", help="a registered environment, for example household")
    parser.add_argument("settings", nargs="*", metavar="key=value", help="settings of the environment")
    parser.add_argument("--split", metavar="SPLIT", help="task set to play from (default: the first)")
    parser.add_argument("--task", default="0", metavar="TASK", help="task id, or its number in the split")
    parser.add_argument(
        "--seed", type=number(int), metavar="N", help="seed of a random environment or policy"
    )
    parser.add_argument("--policy", metavar="NAME", help="let a scripted policy play: random or expert")
    parser.add_argument("--steps", type=number(int, low=1), metavar="N", help="stop after so many steps")
    parser.add_argument("--no-commands", action="store_true", help="do not list the admissible commands")


def run(args: argparse.Namespace) -> int:
    """Play one episode; status 0 when it was solved or left, 1 when it ended unsolved."""
    from ..envs import answers, make
    from ..envs.actors import actor
    from ..envs.registry import settings_of_env
    from ..settings import parse_all

    def foreign(call: Callable[[], T], task: str = "") -> T:
        """Call the environment, or its expert; what they raise is their failure."""
        try:
            return answers.contained(call)
        except HgpoError:
            raise
        except Exception as error:
            where = f" on task {task!r}" if task else ""
            raise EnvironmentFailed(
                f"The environment {args.name} failed{where}: {answers.cause(error)}"
            ) from error

    given = parse_all(args.settings, settings_of_env(args.name), f"the environment {args.name!r}")
    env = foreign(lambda: make(args.name, **given))
    try:
        policy = foreign(lambda: actor(args.policy, env, seed=args.seed or 0)) if args.policy else None
        task = foreign(lambda: _task(env, args.split, args.task))
        print(f"[{args.name}, task {task}]")
        seen: Any = foreign(lambda: answers.observation(env.reset(task, seed=args.seed)), task)
        if policy is not None:
            opening = seen
            foreign(lambda: policy.reset(opening), task)
        steps = 0
        while True:
            print(f"\n{seen.text}")
            if getattr(seen, "done", False) or steps == args.steps:
                break
            action = (
                foreign(functools.partial(_act, policy, seen), task)
                if policy is not None
                else _ask(seen.admissible, not args.no_commands)
            )
            if action is None:
                print("\nLeft.")
                return 0
            if policy is not None:
                print(f"> {action}")
            seen = foreign(functools.partial(_step, env, action), task)
            steps += 1
    finally:
        with contextlib.suppress(Exception):
            answers.contained(env.close)
    success = getattr(seen, "success", False)
    how = "Solved" if success else "Out of steps" if getattr(seen, "truncated", False) else "Not solved"
    print(f"\n{how} after {steps} step{'' if steps == 1 else 's'}.")
    return 0 if success else 1


def _act(policy: Any, seen: Any) -> str:
    from ..envs import answers

    return answers.action(policy.act(seen))


def _step(env: Any, action: str) -> Any:
    from ..envs import answers

    return answers.transition(env.step(action))


def _task(env: Any, split: str | None, word: str) -> str:
    from ..envs import answers

    if not word.isdecimal():
        return word
    split = split if split is not None else answers.split_names(env.splits)[0]
    tasks = answers.task_ids(env.tasks(split), split)
    if int(word) >= len(tasks):
        raise BadSetting(f"--task {word}: the split has {len(tasks)} tasks, numbered from 0.")
    return str(tasks[int(word)])


def _ask(admissible: Any, show: bool) -> str | None:
    """A command from the person; None when they leave."""
    if show and admissible:
        width = len(str(len(admissible)))
        print()
        for number, command in enumerate(admissible, 1):
            print(f"  {number:{width}}. {command.replace(OPEN, '[your words]')}")
    print("\n> ", end="", flush=True)
    line = sys.stdin.readline()
    if not line or line.strip().lower() in ("quit", "exit"):
        return None
    word = line.strip()
    if not (word.isdecimal() and 1 <= int(word) <= len(admissible)):
        return line.rstrip("\n")
    chosen = str(admissible[int(word) - 1])
    if OPEN in chosen:
        print(chosen.replace(OPEN, "[your words]") + ": ", end="", flush=True)
        words = sys.stdin.readline()
        if not words:
            return None
        chosen = chosen.replace(OPEN, f"[{words.strip()}]")
    print(chosen)
    return chosen
