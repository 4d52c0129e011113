"""check_env passes good environments and names what is wrong with bad ones."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from hgpo.envs import Observation, TextEnv, Transition, check_env, make, names, register
from hgpo.errors import BadEnv, UnknownName


class Door:
    """A small correct environment: pull, then push."""

    splits: Sequence[str] = ("train",)

    def __init__(self) -> None:
        self.pulled, self.steps = False, 0

    def tasks(self, split: str) -> Sequence[str]:
        if split != "train":
            raise UnknownName("split", split, self.splits)
        return ["oak", "pine"]

    def reset(self, task: str, *, seed: int | None = None) -> Observation:
        if task not in ("oak", "pine"):
            raise UnknownName("task", task, ["oak", "pine"])
        self.pulled, self.steps = False, 0
        return Observation(f"A door of {task}.", ["pull", "push"])

    def step(self, action: str) -> Transition:
        self.steps += 1
        won = self.pulled and action == "push"
        self.pulled |= action == "pull"
        return Transition(
            "It opens." if won else "It creaks.",
            reward=float(won),
            terminated=won,
            truncated=self.steps >= 9 and not won,
            admissible=["pull", "push"],
            success=won,
            score=float(won),
        )

    def close(self) -> None: ...


def test_good_environments_pass() -> None:
    assert isinstance(Door(), TextEnv)
    check_env(Door())
    check_env(make("household", size="tiny"))
    check_env(make("household", size="alfworld", max_steps=20))


def spoil(**changes: Any) -> Callable[[Door], None]:
    """Change fields of every transition."""

    def apply(env: Door) -> None:
        step = env.step
        env.step = lambda action: replace(step(action), **changes)  # type: ignore[method-assign]

    return apply


def never_ends(env: Door) -> None:
    spoil(terminated=False, truncated=False)(env)


def is_random(env: Door) -> None:
    rng, reset = random.Random(0), env.reset
    env.reset = lambda task, *, seed=None: replace(reset(task), text=f"Door {rng.random()}")  # type: ignore[method-assign]


def leaks_state(env: Door) -> None:
    def reset(task: str, *, seed: int | None = None) -> Observation:
        if task not in ("oak", "pine"):
            raise KeyError(task)
        env.steps = 0
        return Observation("A door.", ["pull", "push"])

    env.reset = reset  # type: ignore[method-assign]


def raises_on_nonsense(env: Door) -> None:
    step = env.step

    def strict(action: str) -> Transition:
        if action not in ("pull", "push"):
            raise ValueError(f"bad action {action}")
        return step(action)

    env.step = strict  # type: ignore[method-assign]


def accepts_any_task(env: Door) -> None:
    reset = env.reset
    env.reset = lambda task, *, seed=None: reset(task if task in ("oak", "pine") else "oak")  # type: ignore[method-assign]


def positional_seed(env: Door) -> None:
    reset = env.reset
    env.reset = lambda task, seed=None: reset(task)  # type: ignore[method-assign]


def returns_text(env: Door) -> None:
    reset = env.reset
    env.reset = lambda task, *, seed=None: reset(task).text  # type: ignore[method-assign, assignment, return-value]


def shuffles_tasks(env: Door) -> None:
    rng = random.Random(0)
    tasks = env.tasks
    env.tasks = lambda split: rng.sample(list(tasks(split)), 2)  # type: ignore[method-assign]


@pytest.mark.parametrize(
    ("fault", "finding"),
    [
        (spoil(admissible="pull"), "admissible is 'pull'. Expected: a sequence of strings"),
        (spoil(reward=float("nan")), "reward is nan. Expected: a finite number"),
        (spoil(score=7.0), "score is 7.0. Expected: a number from 0 to 1"),
        (spoil(success=1), "success is 1. Expected: True or False"),
        (spoil(text=None), "text is NoneType. Expected: a string"),
        (spoil(info={"door": object()}), "info is not JSON-like"),
        (never_ends, "set truncated=True at a step limit"),
        (is_random, "Expected: the task id decides the whole episode"),
        (leaks_state, "reset all state in reset()"),
        (raises_on_nonsense, "raised ValueError: bad action"),
        (accepts_any_task, "reset('no such name anywhere') was accepted"),
        (positional_seed, "def reset(self, task, *, seed=None)"),
        (returns_text, "returned str. Expected: Observation"),
        (shuffles_tasks, "sort the ids, do not shuffle"),
    ],
)
def test_each_fault_is_named(fault: Callable[[Door], None], finding: str) -> None:
    env = Door()
    fault(env)
    with pytest.raises(BadEnv) as caught:
        check_env(env, max_steps=50)
    assert finding in str(caught.value)
    assert all("Fix: " in problem for problem in caught.value.problems)


class Terminal(Door):
    """Commands with capitals, spaces and lines."""

    commands = ("Pull the Lever", '{"do": "push"}', "if open:\n    enter()", "  wait ")

    def reset(self, task: str, *, seed: int | None = None) -> Observation:
        return replace(super().reset(task, seed=seed), admissible=self.commands)

    def step(self, action: str) -> Transition:
        return replace(super().step(action), admissible=self.commands)


def test_commands_must_reach_the_environment_as_they_are_listed() -> None:
    check_env(Terminal())
    lower = Terminal()
    lower.action_form = "lower"  # type: ignore[attr-defined]
    with pytest.raises(BadEnv, match=r"'Pull the Lever' reaches step\(\) as 'pull the lever'"):
        check_env(lower)
    tagged = Terminal()
    tagged.commands = ("say </action>",)  # type: ignore[assignment]
    with pytest.raises(BadEnv, match="without <action> tags"):
        check_env(tagged)
    unknown = Terminal()
    unknown.action_form = "loud"  # type: ignore[attr-defined]
    with pytest.raises(BadEnv, match="action_form is 'loud'"):
        check_env(unknown)


def test_what_an_environment_brings_besides_is_checked() -> None:
    class Own(Door):
        def prompt(self, situation: Any) -> Any:
            return None

        def memory(self) -> Any:
            return []

    with pytest.raises(
        BadEnv, match=r"prompt\(situation\) returned NoneType(.|\n)*memory\(\) returned list without"
    ):
        check_env(Own())


def test_missing_parts_are_listed_together() -> None:
    class Half:
        def reset(self, task: str, *, seed: int | None = None) -> Observation:
            return Observation("x")

    with pytest.raises(BadEnv) as caught:
        check_env(Half())
    assert len(caught.value.problems) == 4


def test_registered_names_are_made() -> None:
    register("door-for-tests", lambda: Door())
    assert "door-for-tests" in names()
    assert isinstance(make("door-for-tests"), Door)
    with pytest.raises(UnknownName, match="Did you mean 'household'"):
        make("houshold")


def test_other_packages_bring_environments(monkeypatch: pytest.MonkeyPatch) -> None:
    from importlib.metadata import EntryPoint

    from hgpo.envs import registry

    point = EntryPoint("their-door", f"{__name__}:Door", "hgpo.envs")
    monkeypatch.setattr(registry, "entry_points", lambda group: [point] if group == "hgpo.envs" else [])
    assert "their-door" in names()
    assert make("their-door").reset("oak").text == "A door of oak."
    with pytest.raises(UnknownName, match="setting of the environment 'their-door'"):
        make("their-door", wood="oak")
