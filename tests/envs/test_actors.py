"""Actors: random, replay and the experts of the built-in environments."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hgpo.envs import Observation, TextEnv, make
from hgpo.envs.actors import Actor, RandomActor, ReplayActor, actor, expert
from hgpo.envs.household.expert import HouseholdExpert
from hgpo.errors import BadSetting, UnknownName


def play(env: TextEnv, task: str, policy: Actor) -> tuple[list[str], bool]:
    seen: Any = env.reset(task)
    policy.reset(seen)
    actions = []
    while not getattr(seen, "done", False):
        actions.append(policy.act(seen))
        seen = env.step(actions[-1])
    return actions, seen.success


@pytest.mark.parametrize("size", ["tiny", "small", "medium", "alfworld"])
def test_expert_solves_generated_houses(size: str) -> None:
    env = make("household", size=size)
    for split in env.splits:
        tasks = env.tasks(split)[:120]
        won = sum(play(env, task, expert(env))[1] for task in tasks)
        assert won >= 0.98 * len(tasks), (split, won)


def test_expert_solves_official_games(shared: Path) -> None:
    env = make("alfworld", data=shared / "alfworld" / "games_compact.jsonl.xz")
    for split in ("in-domain", "out-of-domain"):
        tasks = env.tasks(split)
        lost = [task for task in tasks if not play(env, task, expert(env))[1]]
        assert lost == []


def test_expert_is_honest() -> None:
    """It acts the same in two houses that differ only in what it has not seen yet."""
    env = make("household", size="medium")
    by_start: dict[str, list[list[tuple[str, str]]]] = {}
    for index in range(0, 6000, 6):
        seen: Any = env.reset(f"medium/train/{index:05d}")
        start = seen.text
        policy = expert(env)
        policy.reset(seen)
        trail = []
        while not getattr(seen, "done", False):
            action = policy.act(seen)
            seen = env.step(action)
            trail.append((action, seen.text))
        by_start.setdefault(start, []).append(trail)
    pairs = 0
    for trails in by_start.values():
        for other in trails[1:]:
            pairs += 1
            for (action, text), (other_action, other_text) in zip(trails[0], other):
                assert action == other_action
                if text != other_text:
                    break
    assert pairs > 20


def test_expert_says_which_tasks_it_understands() -> None:
    with pytest.raises(BadSetting, match="does not understand the task 'win the lottery"):
        HouseholdExpert().reset(Observation("Your task is to: win the lottery."))


def test_an_environment_without_an_expert_is_named() -> None:
    class Mute:
        pass

    with pytest.raises(BadSetting, match=r"Mute has no expert. Give it a method `expert\(\)`"):
        expert(Mute())  # type: ignore[arg-type]


def test_expert_knows_the_shop_too() -> None:
    env = make("shop")
    scores = []
    for task in env.tasks(env.splits[0])[:10]:
        seen: Any = env.reset(task)
        policy = expert(env)
        policy.reset(seen)
        while not getattr(seen, "done", False):
            seen = env.step(policy.act(seen))
        scores.append(seen.score)
    assert sum(scores) / len(scores) > 0.5


def test_random_is_seeded() -> None:
    env = make("household", size="tiny")
    one, again, other = (play(env, "tiny/train/00000", RandomActor(seed))[0] for seed in (1, 1, 2))
    assert one == again != other
    assert one != play(env, "tiny/train/00001", RandomActor(1))[0]
    with pytest.raises(BadSetting, match="lists none"):
        RandomActor(1).act(Observation("nothing to do"))
    assert RandomActor(1, otherwise="look").act(Observation("nothing to do")) == "look"


def test_replay_repeats() -> None:
    env: Any = make("household", size="small")
    task = env.tasks("out-of-domain")[4]
    policy = ReplayActor(env.walkthrough(task))
    assert play(env, task, policy) == (env.walkthrough(task), True)
    assert play(env, task, policy)[1]
    with pytest.raises(BadSetting, match="at least one action"):
        ReplayActor([])


def test_unknown_policy() -> None:
    with pytest.raises(UnknownName, match="Did you mean 'expert'"):
        actor("expret", make("household"))
