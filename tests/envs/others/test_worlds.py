"""Worlds of other packages, played in the real packages (`make test-envs`)."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path
from typing import Any

import pytest

from hgpo.config import load
from hgpo.config.stage import open_stage
from hgpo.envs import TextEnv, check_env, make
from hgpo.envs.actors import expert
from hgpo.envs.others.textworld_express import GAMES
from hgpo.errors import BadSetting, UnknownName, UnknownTask
from hgpo.play import Job
from hgpo.policies.scripted import ExploringPolicy, ScriptedPolicy

pytestmark = [
    pytest.mark.envs,
    pytest.mark.skipif(
        importlib.util.find_spec("scienceworld") is None, reason="needs hgpo[envs] (`make test-envs`)"
    ),
]
COIN = {"game": "coin", "params": "numLocations=3,includeDoors=0,numDistractorItems=0"}
LAKE = {"id": "FrozenLake-v1", "options": {"is_slippery": False}, "max_steps": 30}


@pytest.fixture(scope="module")
def games(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Where compiled games are kept while these tests run."""
    return str(tmp_path_factory.mktemp("games"))


def settings(name: str, games: str) -> dict[str, Any]:
    """Small sets of tasks of each world."""
    return {
        "gym": LAKE,
        "babyai": {"num_train": 10, "num_in_domain": 5},
        "textworld-express": COIN,
        "scienceworld": {"task_names": ["find-plant"], "num_variations": 2},
        "textworld": {"folder": games, "num_train": 2, "num_in_domain": 1},
    }[name]


@pytest.mark.parametrize("name", ["gym", "babyai", "textworld-express", "scienceworld", "textworld"])
def test_every_world_keeps_the_contract(name: str, games: str) -> None:
    env = make(name, **settings(name, games))
    try:
        check_env(env, episodes=1, max_steps=200)
    finally:
        env.close()


@pytest.mark.parametrize("name", ["babyai", "textworld-express", "scienceworld", "textworld"])
def test_its_expert_wins_through_the_runner(name: str, games: str) -> None:
    """In supervised workers where Java or C is behind it, as in training."""
    given = settings(name, games)
    stage = open_stage(load(name, [f"env.{key}={value}" for key, value in _words(given)]))
    assert stage.blocking == (name != "babyai")
    try:
        jobs = [Job(task, task, 0, 0) for task in stage.tasks(stage.task_source.splits[0], 2)]
        policy = ScriptedPolicy(lambda: expert(stage.expert_source), stage.style)
        episodes = stage.play(policy, jobs, max_steps=100).episodes
        assert [episode.success for episode in episodes] == [True] * len(jobs)
        assert all(episode.score == 1 for episode in episodes)
    finally:
        stage.expert_source.close()
        stage.close()


def _words(given: dict[str, Any]) -> list[tuple[str, str]]:
    return [
        (
            key,
            "[" + ", ".join(value) + "]"
            if isinstance(value, list)
            else f'"{value}"'
            if "," in str(value)
            else str(value),
        )
        for key, value in given.items()
    ]


@pytest.mark.parametrize("game", GAMES)
def test_every_express_game_is_won_by_its_gold_path(game: str) -> None:
    env = make("textworld-express", game=game, max_steps=100)
    try:
        task = env.tasks("test")[0]
        actor = expert(env)
        seen: Any = env.reset(task)
        actor.reset(seen)
        while not getattr(seen, "done", False):
            seen = env.step(actor.act(seen))
        assert seen.success
    finally:
        env.close()


def test_scienceworld_scores_from_0_to_1_and_has_its_official_variations() -> None:
    env = make("scienceworld", task_names=["find-plant"])
    try:
        assert [len(env.tasks(split)) for split in ("train", "dev", "test")] == [150, 75, 75]
        task = env.tasks("dev")[0]
        actor = expert(env)
        seen: Any = env.reset(task)
        actor.reset(seen)
        scores, total = [], 0.0
        while not getattr(seen, "done", False):
            seen = env.step(actor.act(seen))
            scores.append(seen.score)
            total += seen.reward
        assert scores == sorted(scores)
        assert 0 < scores[0] < 1 or 0 in scores
        assert total == pytest.approx(1.0)
        for wrong in ("train/find-plant/299", "train/boil/0", "train/find-plant/x"):
            with pytest.raises(UnknownTask):
                env.reset(wrong)
    finally:
        env.close()
    unknown = make("scienceworld", task_names=["find-plants"])
    with pytest.raises(UnknownName, match="find-plant"):
        unknown.tasks("train")
    unknown.close()


def test_a_frozen_lake_is_crossed_in_words() -> None:
    env: TextEnv = make("gym", **LAKE)
    seen: Any = env.reset("train/0")
    assert seen.text == "[S red]FFF\nFHFH\nFFFH\nHFFG"
    assert list(seen.admissible) == ["left", "down", "right", "up"]
    for action in ("down", "down", "right", "right", "down", "right"):
        seen = env.step(action)
    assert seen.success
    assert seen.terminated
    taxi = make("gym", id="Taxi-v4")
    assert "yellow]" in taxi.reset("train/0").text
    with pytest.raises(BadSetting, match=r"neither text observations nor render_mode='ansi'"):
        make("gym", id="Blackjack-v1")
    with pytest.raises(BadSetting, match="cannot make Nowhere-v0"):
        make("gym", id="Nowhere-v0")


def test_random_play_of_a_world_in_workers_is_that_in_this_process(games: str) -> None:
    words = ["env.game=coin", "env.num_tasks=3"]
    stage = open_stage(load("textworld-express", words))
    alone = make("textworld-express", game="coin", num_tasks=3)
    try:
        episode = stage.play(ExploringPolicy(stage.style), [Job("train/1", "g", 0, 5)], max_steps=6).episodes[
            0
        ]
        texts = [alone.reset("train/1").text, *(alone.step(step.action).text for step in episode.steps)]
        assert [step.observation for step in episode.steps] + [episode.steps[-1].next_observation] == texts
    finally:
        stage.close()
        alone.close()


@pytest.mark.parametrize("name", ["textworld-express", "scienceworld"])
def test_without_java_one_sentence_says_so(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert shutil.which("java") is None
    with pytest.raises(BadSetting, match="runs on Java, and no program `java` was found"):
        make(name)
