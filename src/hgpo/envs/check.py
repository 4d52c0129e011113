"""Check an environment against the contract, and say how to fix it.

    from hgpo.envs import check_env
    check_env(MyEnv())

Every finding reads: what was given, what was expected, what to do.
"""

from __future__ import annotations

import inspect
import json
import math
import random
from collections.abc import Sequence
from typing import Any

from ..errors import BadEnv
from .actions import action_form, parse
from .contract import Observation, Transition
from .prompt import Situation

NONSENSE = ("", "   ", "xyzzy plugh", "go to " + "very " * 200 + "far", "čistý hrnek ☕\n", "{0} %s \\")
"""Actions that no environment understands; each must be answered in words."""


def check_env(env: Any, *, seed: int = 0, episodes: int = 2, max_steps: int = 500) -> None:
    """Play `episodes` random episodes of every split and raise `BadEnv` with all that is wrong.

    Args:
        env: the environment, as its factory made it.
        seed: decides the random actions.
        episodes: tasks tried per split.
        max_steps: an episode must end by itself within this many steps.
    """
    check = _Check(env, seed, max_steps)
    if check.has_parts():
        for split in check.splits():
            for task in check.tasks(split)[:episodes]:
                first = check.play(task)
                if first is not None:
                    check.same_again(task, first)
                    check.nonsense(task)
        check.unknown_names()
    if check.problems:
        raise BadEnv(type(env).__name__, dict.fromkeys(check.problems))


class _Check:
    def __init__(self, env: Any, seed: int, max_steps: int) -> None:
        self.env, self.seed, self.max_steps = env, seed, max_steps
        self.problems: list[str] = []
        self.misread = False

    def wrong(self, given: str, expected: str, fix: str) -> None:
        self.problems.append(f"Given: {given}. Expected: {expected}. Fix: {fix}.")

    def call(self, what: str, function: Any, *arguments: Any) -> Any:
        """The result of a call, or None with a finding when it raised."""
        try:
            return function(*arguments)
        except Exception as error:
            self.wrong(
                f"{what} raised {type(error).__name__}: {error}",
                "an answer",
                "return one; what an agent does wrong is answered in the text",
            )
            return None

    def as_sent(self, admissible: Sequence[str], what: str) -> None:
        """What is listed must reach the environment as it is listed, whichever form of reply is asked for."""
        form = action_form(self.env)
        for command in () if self.misread else admissible:
            if "..." in command:  # a template is never sent itself
                continue
            for reply, tags in ((f"<action>{command}</action>", True), (command, False)):
                sent = parse(reply, admissible, tags=tags, form=form).action
                if sent != command:
                    self.wrong(
                        f"{what}: the admissible {_short(command)} reaches step() as {_short(sent)}",
                        "every listed command to be sent as it is listed",
                        f"list it in the form that action_form={form!r} gives it, without <action> tags in it, or "
                        "set action_form = 'verbatim'",
                    )
                    self.misread = True  # once is enough: the others have the same cause
                    return

    def own_parts(self, seen: Observation) -> None:
        """What an environment may bring besides: a prompt and a memory."""
        goal = str(seen.info.get("goal") or "")
        situation = Situation(goal, seen.text, (), 0, tuple(seen.admissible), opening=seen.text)
        if hasattr(self.env, "prompt"):
            prompt = self.call("prompt(situation)", self.env.prompt, situation)
            if not isinstance(prompt, str):
                self.wrong(
                    f"prompt(situation) returned {type(prompt).__name__}", "a string", "return the prompt"
                )
        if hasattr(self.env, "memory"):
            memory = self.call("memory()", self.env.memory)
            missing = [name for name in ("reset", "add", "recall") if not hasattr(memory, name)]
            if missing:
                self.wrong(
                    f"memory() returned {type(memory).__name__} without {', '.join(missing)}",
                    "the methods of hgpo.play.Memory",
                    "return a new memory",
                )

    def has_parts(self) -> bool:
        missing = [
            name for name in ("splits", "tasks", "reset", "step", "close") if not hasattr(self.env, name)
        ]
        for name in missing:
            kind = "property" if name == "splits" else "method"
            self.wrong(f"no {kind} {name!r}", "the parts of hgpo.envs.TextEnv", f"add the {kind} {name!r}")
        if missing:
            return False
        try:
            action_form(self.env)
        except BadEnv as error:
            self.problems += error.problems
            return False
        try:
            seed = inspect.signature(self.env.reset).parameters.get("seed")
        except (TypeError, ValueError):
            return True
        if seed is None or seed.kind is not inspect.Parameter.KEYWORD_ONLY:
            self.wrong(
                f"reset{inspect.signature(self.env.reset)}",
                "a keyword-only seed, as in Gymnasium",
                "write `def reset(self, task, *, seed=None)`",
            )
        return True

    def splits(self) -> list[str]:
        splits = self.env.splits
        if not _strings(splits) or not splits:
            self.wrong(
                f"splits is {splits!r}", "a sequence of names", 'return for example ("train", "in-domain")'
            )
            return []
        return list(splits)

    def tasks(self, split: str) -> list[str]:
        what = f"tasks({split!r})"
        tasks = self.call(what, self.env.tasks, split)
        if tasks is None:
            return []
        if not _strings(tasks) or not tasks:
            self.wrong(
                f"{what} is {_short(tasks)}", "task ids (strings), at least one", "return a list of them"
            )
            return []
        if len(set(tasks)) != len(tasks):
            self.wrong(f"{what} repeats ids", "every id once", "name different episodes differently")
        if list(self.env.tasks(split)) != list(tasks):
            self.wrong(
                f"{what} differs from call to call", "always the same order", "sort the ids, do not shuffle"
            )
        return list(tasks)

    def observation(self, seen: Any, what: str, kind: type[Observation] | type[Transition]) -> bool:
        """Check what reset and step have in common."""
        if not isinstance(seen, kind):
            self.wrong(
                f"{what} returned {type(seen).__name__}",
                kind.__name__,
                f"return hgpo.envs.{kind.__name__}(...)",
            )
            return False
        text: Any = seen.text
        if not isinstance(text, str):
            self.wrong(f"{what}: text is {type(text).__name__}", "a string", "show the agent words")
        if not _strings(seen.admissible):
            self.wrong(
                f"{what}: admissible is {_short(seen.admissible)}",
                "a sequence of strings (empty if there are none)",
                "return a list, one command an item",
            )
            return False
        self.as_sent(seen.admissible, what)
        try:
            json.dumps(dict(seen.info))
        except (TypeError, ValueError) as error:
            self.wrong(f"{what}: info is not JSON-like ({error})", "plain values", "keep objects out of info")
        return True

    def transition(self, seen: Any, what: str) -> bool:
        if not self.observation(seen, what, Transition):
            return False
        for name in ("terminated", "truncated", "success"):
            if not isinstance(getattr(seen, name), bool):
                value = getattr(seen, name)
                self.wrong(f"{what}: {name} is {value!r}", "True or False", f"wrap it: bool({name})")
        for name, low, high in (("reward", -math.inf, math.inf), ("score", 0.0, 1.0)):
            value = getattr(seen, name)
            number = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
            if not number or not low <= value <= high:
                bounds = "a finite number" if name == "reward" else "a number from 0 to 1"
                self.wrong(f"{what}: {name} is {value!r}", bounds, f"return {name} as a float")
        return True

    def play(self, task: str) -> list[tuple[str, Any]] | None:
        """One random episode as (action, what it led to); None when it broke off."""
        rng = random.Random(f"{self.seed} {task}")
        seen = self.call(f"reset({task!r})", self.env.reset, task)
        if seen is None or not self.observation(seen, f"reset({task!r})", Observation):
            return None
        self.own_parts(seen)
        trail: list[tuple[str, Any]] = [("", seen)]
        for _ in range(self.max_steps):
            choices = list(seen.admissible) or ["wait"]
            action = choices[int(rng.random() * len(choices))]
            what = f"step({action!r})"
            seen = self.call(what, self.env.step, action)
            if seen is None or not self.transition(seen, what):
                return None
            trail.append((action, seen))
            if seen.done:
                return trail
        self.wrong(
            f"{task!r} went on after {self.max_steps} steps",
            "terminated or truncated at some point",
            "set truncated=True at a step limit",
        )
        return None

    def same_again(self, task: str, first: list[tuple[str, Any]]) -> None:
        """The same actions must lead to the same things, also after an episode that was broken off."""
        self.env.reset(task)
        self.env.step(first[1][0])
        for number, (action, before) in enumerate(first):
            after = self.env.step(action) if number else self.env.reset(task)
            for name in ("text", "admissible", "reward", "terminated", "truncated", "success", "score"):
                old, new = getattr(before, name, None), getattr(after, name, None)
                if name == "admissible":
                    old, new = list(old or ()), list(new or ())
                if old != new:
                    self.wrong(
                        f"{task!r} played twice with the same actions: {name} at step {number} is first "
                        f"{_short(old)}, then {_short(new)}",
                        "the task id decides the whole episode",
                        "seed every draw with the task id, and reset all state in reset()",
                    )
                    return

    def nonsense(self, task: str) -> None:
        """An action that makes no sense is answered in words."""
        for action in NONSENSE:
            self.env.reset(task)
            what = f"step({_short(action)})"
            seen = self.call(what, self.env.step, action)
            if seen is not None:
                self.transition(seen, what)

    def unknown_names(self) -> None:
        """Names that do not exist are refused, not quietly replaced."""
        for what, function in (("tasks", self.env.tasks), ("reset", self.env.reset)):
            try:
                function("no such name anywhere")
            except Exception:
                continue
            self.wrong(
                f"{what}('no such name anywhere') was accepted",
                "an error",
                "raise hgpo.errors.UnknownName, so that a typing mistake is not trained on",
            )


def _strings(values: Any) -> bool:
    """Whether this is a sequence of strings (and not one string)."""
    if isinstance(values, str) or not isinstance(values, Sequence):
        return False
    return all(isinstance(value, str) for value in values)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
