"""The generated shop: the same everywhere, every goal can be met, and the shopper meets them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from hgpo.config.schema import AgentConfig, Config, EnvConfig
from hgpo.config.stage import open_stage
from hgpo.envs import check_env, make
from hgpo.envs.actors import expert
from hgpo.envs.webshop import generated
from hgpo.envs.webshop.catalogue import Catalogue
from hgpo.envs.webshop.shopper import Shopper, Wish
from hgpo.errors import BadSetting
from hgpo.play import Job
from hgpo.policies.scripted import ScriptedPolicy


@pytest.fixture(autouse=True)
def _cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))


def play(env: Any, task: str, policy: Any, limit: int = 30) -> Any:
    seen = env.reset(task)
    policy.reset(seen)
    for _ in range(limit):
        seen = env.step(policy.act(seen))
        if seen.done:
            break
    return seen


def test_a_seed_is_a_shop(tmp_path: Path) -> None:
    digests = [
        make("shop", seed=seed, store=tmp_path / name).catalogue.digest
        for seed, name in ((0, "a"), (0, "b"), (1, "a"))
    ]
    assert digests[0] == digests[1] != digests[2]
    # What a seed gives is the same on every machine and in every version of Python.
    assert digests[0] == "957c83d7899427ed343cd2ad20ce1f9e0425384dbb778ac2d425a5dd4d465600"


def test_splits_share_no_goal_and_the_last_no_kind() -> None:
    env: Any = make("shop")
    tasks = {split: list(env.tasks(split)) for split in env.splits}
    assert list(tasks) == ["train", "in-domain", "out-of-domain"]
    every = [task for split in tasks.values() for task in split]
    assert len(every) == len(set(every)) == len(env.goals)
    assert env.tasks("test") == env.tasks("in-domain")
    kinds = {split: {env.goals[int(task[5:])]["query"] for task in names} for split, names in tasks.items()}
    assert kinds["in-domain"] <= kinds["train"]
    assert not kinds["train"] & kinds["out-of-domain"]


@pytest.mark.parametrize(
    "settings", [{}, {"seed": 7, "products": 6}, {"products": 200, "values": 2, "window": 3}]
)
def test_the_shopper_meets_every_goal(settings: dict[str, Any]) -> None:
    env: Any = make("shop", **settings)
    policy = Shopper()
    for split in env.splits:
        results = [play(env, task, policy) for task in env.tasks(split)]
        assert [result.success for result in results] == [True] * len(results)


def test_it_is_small_enough_for_a_word_level_model() -> None:
    env: Any = make("shop", products=12, values=2, num_goals=16)
    policy = Shopper()
    words: set[str] = set()
    longest = 0
    for task in env.tasks("train"):
        seen = env.reset(task)
        policy.reset(seen)
        while not getattr(seen, "done", False):
            found = re.findall(r"\w+|[^\w\s]", seen.text)
            words.update(found)
            longest = max(longest, len(found))
            seen = env.step(policy.act(seen))
    assert len(words) < 150
    assert longest < 150
    assert [len(env.tasks(split)) <= 16 for split in env.splits] == [True] * 3


def test_no_data_and_no_place_to_write(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr(generated.tempfile, "gettempdir", lambda: str(tmp_path / "elsewhere"))
    assert len(make("shop", products=5).catalogue) == 5
    assert list((tmp_path / "elsewhere").rglob("*.hgpo-store"))


def test_settings_out_of_range() -> None:
    for settings in ({"products": 0}, {"products": 1000}, {"values": 0}, {"num_goals": 0}):
        with pytest.raises(BadSetting, match="outside what the generated shop allows"):
            make("shop", **settings)


def test_contract() -> None:
    check_env(make("shop", products=10))


def test_the_expert_is_the_shopper_in_a_shop() -> None:
    env: Any = make("shop")
    assert play(env, env.tasks("train")[0], expert(env)).success


@pytest.mark.parametrize(
    ("step", "slip"),
    [
        (0, "search[...]"),
        (0, "search[blue lamp]"),
        (0, "click[buy now]"),
        (1, "another product"),
        (1, "click[next >]"),
        (1, "click[back to search]"),
        (1, "search[...]"),
        (2, "click[< prev]"),
        (2, "click[back to search]"),
        (2, "click[features]"),
        (2, "another option"),
        (3, "another option"),
        (3, "click[< prev]"),
        (4, "another option"),
        (4, "search[...]"),
    ],
)
def test_the_shopper_recovers_from_slips(step: int, slip: str) -> None:
    env: Any = make("shop", products=96, values=6)
    tasks = [task for task in env.tasks("train") if len(env.goals[int(task[5:])]["goal_options"]) == 2]
    for task in tasks[:20]:
        seen = env.reset(task)
        policy = expert(env)
        policy.reset(seen)
        for number in range(20):
            action = policy.act(seen)
            if number == step:
                own = action
                action = slip
                if slip.startswith("another"):
                    buttons = (
                        "back to search",
                        "next >",
                        "< prev",
                        "description",
                        "features",
                        "reviews",
                        "buy now",
                    )
                    known = [own, *(f"click[{button}]" for button in buttons)]
                    action = next(one for one in seen.admissible if one not in known)
                policy.slipped(action)
            seen = env.step(action)
            if seen.done:
                break
        assert seen.success


def test_a_clumsy_shopper_is_told_of_its_slips() -> None:
    stage = open_stage(
        Config(
            env=EnvConfig("shop", {"products": 96, "values": 6}),
            agent=AgentConfig(prompt="compact", reasoning=False, max_steps=12),
        )
    )

    class Deaf:
        def __init__(self) -> None:
            self.shopper = Shopper()
            self.reset, self.act = self.shopper.reset, self.shopper.act

    jobs = [Job(task, task, 0, number) for number, task in enumerate(stage.tasks("train", 200))]
    shares = []
    for make_actor in (Shopper, Deaf):
        episodes = stage.play(ScriptedPolicy(make_actor, stage.style, 0.4), jobs).episodes
        shares.append(sum(episode.success for episode in episodes) / len(episodes))
    assert shares[0] > 0.4 > 0.25 > shares[1]


def test_the_shopper_in_the_official_catalogue(official: dict[str, Any], catalogue: Catalogue) -> None:
    env: Any = make("webshop", tagger="builtin", max_steps=15, **official)
    results = [play(env, task, Shopper()) for task in env.tasks("test")[:150]]
    assert all(result.terminated for result in results)
    assert sum(result.success for result in results) / len(results) > 0.75


def test_the_shopper_gives_up_on_nothing(official: dict[str, Any]) -> None:
    env: Any = make("webshop", tagger="builtin", goals="human", **official)
    assert all(play(env, task, Shopper()).terminated for task in env.tasks("test"))


@pytest.mark.parametrize(
    ("text", "wish"),
    [
        ("Find me x with y, and price lower than 20.00 dollars", Wish("x with y", [], 20.0)),
        (
            'Find me a c with d for e with flavor name: f, g, and size: 28" x 28", and price lower than 5.00 dollars',
            Wish("a c with d for e", ["f, g", '28" x 28"'], 5.0),
        ),
        ("i want shoes", Wish("i want shoes", [], float("inf"))),
    ],
)
def test_reading_an_instruction(text: str, wish: Wish) -> None:
    assert Wish.read(text) == wish
