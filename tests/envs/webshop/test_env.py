"""Sessions: pages, links, unknown actions, the traits of the original, and the settings."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hgpo.envs import check_env, make
from hgpo.errors import BadFile, BadSetting, ResetNeeded, UnknownName, UnknownTask

from .conftest import row

OPTIONS = {
    "Color": [{"value": "Red"}, {"value": "Navy/White"}, {"value": "Big"}],
    "Size": [{"value": "small"}, {"value": "Big"}, {"value": "Reviews"}, {"value": 'it\'s <b> & "c"'}],
}


@pytest.fixture
def data(folder: Callable[..., Path]) -> Path:
    rows = [row(f"B{number:02d}", pricing=f"${number + 1}.00") for number in range(23)]
    rows.append(row("C1", name="Soft chair", customization_options=OPTIONS, pricing="$20.00", query="chairs"))
    about = {product["asin"]: {"attributes": ["plain"]} for product in rows}
    about["C1"] = {
        "attributes": ["soft"],
        "instruction": "Find me soft chair",
        "instruction_attributes": ["soft"],
    }
    told = {"instruction": "a chair.", "instruction_attributes": ["soft"], "instruction_options": ["red"]}
    return folder(rows, about, {"C1": [told]})


@pytest.fixture
def env(data: Path) -> Any:
    return make("webshop", data=data, tagger="builtin")


def links(seen: Any) -> list[str]:
    found: list[str] = seen.info["available"]["clickables"]
    return found


def test_search_page(env: Any) -> None:
    seen = env.reset("goal/0")
    assert seen.text.startswith("WebShop [SEP] Instruction: [SEP] Find me soft chair with color: ")
    assert seen.info["available"] == {"has_search_bar": True, "clickables": ["search"]}
    assert seen.admissible == ("search[...]",)


def test_results_turn_without_end_as_in_the_original(env: Any) -> None:
    env.reset("goal/0")
    first = env.step("search[thing]")
    assert (
        "Page 1 (Total results: 24) [SEP] Next > [SEP] B00 [SEP] Thing B00 [SEP] $1.0 [SEP] B01" in first.text
    )
    assert links(first)[:3] == ["back to search", "next >", "b00"]
    assert first.admissible[0] == "click[back to search]"
    third = [env.step("click[next >]") for _ in range(2)][-1]
    assert links(third) == ["back to search", "< prev", "next >", "b20", "b21", "b22", "c1"]
    fourth = env.step("click[next >]")
    assert fourth.text.endswith("Page 4 (Total results: 24) [SEP] < Prev [SEP] Next >")
    assert env.step("click[< prev]").text == third.text


def test_no_results(env: Any) -> None:
    env.reset("goal/0")
    for query in ("zzz", "...", " ", "the"):
        seen = env.step(f"search[{query}]")
        assert seen.text.endswith("Back to Search [SEP] Page 1 (Total results: 0) [SEP] Next >")


def test_item_and_its_sub_pages(env: Any) -> None:
    env.reset("goal/0")
    env.step("search[chair]")
    item = env.step("click[c1]")
    assert item.text.endswith(
        "Back to Search [SEP] < Prev [SEP] color [SEP] red [SEP] navy | white [SEP] big [SEP] size [SEP] small "
        '[SEP] big [SEP] reviews [SEP] it\'s <b> & "c" [SEP] Soft chair [SEP] Price: $20.0 [SEP] Rating: N.A. '
        "[SEP] Description [SEP] Features [SEP] Reviews [SEP] Buy Now"
    )
    assert links(item) == [
        *("back to search", "< prev", "description", "features", "reviews", "buy now"),
        *("red", "navy | white", "big", "small", 'it\'s <b> & "c"'),
    ]
    description = env.step("click[description]")
    assert description.text.endswith("< Prev [SEP] A thing.")
    assert links(description) == ["back to search", "< prev"]
    assert env.step("click[< prev]").text == item.text
    # The second feature is empty, which the original shows as an empty part.
    assert env.step("click[features]").text.endswith("< Prev [SEP] It is a thing. [SEP] ")
    env.step("click[< prev]")
    assert env.step("click[reviews]").text.endswith("Back to Search [SEP] < Prev")
    env.step("click[< prev]")
    assert env.step("click[< prev]").info["available"]["clickables"] == ["back to search", "next >", "c1"]


def test_attributes_only_when_asked_for(data: Path, env: Any) -> None:
    open_env: Any = make("webshop", data=data, tagger="builtin", show_attributes=True)
    for shop in (env, open_env):
        shop.reset("goal/0")
        shop.step("search[chair]")
    assert "attributes" not in links(env.step("click[c1]"))
    assert "attributes" in links(open_env.step("click[c1]"))
    page = open_env.step("click[attributes]")
    assert page.text.endswith("< Prev [SEP] soft [SEP] garden [SEP] chairs [SEP] Home › Things")


def test_a_value_of_two_options_belongs_to_the_later(env: Any) -> None:
    env.reset("goal/0")
    for action in ("search[chair]", "click[c1]", "click[big]", "click[red]", 'click[it\'s <b> & "c"]'):
        env.step(action)
    done = env.step("click[buy now]")
    assert done.info["purchase"]["options"] == {"color": "red", "size": 'it\'s <b> & "c"'}
    assert '{"color": "red", "size": "it\\u0027s \\u003cb\\u003e \\u0026 \\"c\\""}' in done.text
    assert links(done) == []


def test_a_value_that_reads_like_a_button_is_the_button(env: Any) -> None:
    env.reset("goal/0")
    for action in ("search[chair]", "click[c1]"):
        env.step(action)
    assert links(env.step("click[reviews]")) == ["back to search", "< prev"]


def test_leaving_an_item_forgets_its_options(env: Any) -> None:
    env.reset("goal/0")
    for action in ("search[chair]", "click[c1]", "click[red]", "click[< prev]", "click[c1]"):
        env.step(action)
    assert env.step("click[buy now]").info["purchase"]["options"] == {}


UNKNOWN = [
    *("", "buy it", "search[]", "search", "click[]", "click[no such thing]", "click[search]", "think[red]"),
    *(
        " click[c1]",
        "Click[c1]",
        "click[c1",
        "click c1",
        "search[a\nb]",
        "click[c1] click[c1]",
        "click[[c1]]",
    ),
]


@pytest.mark.parametrize("action", UNKNOWN)
def test_unknown_actions_change_nothing(env: Any, action: str) -> None:
    env.reset("goal/0")
    before = env.step("search[chair]")
    after = env.step(action)
    assert (after.text, after.info["available"]) == (before.text, before.info["available"])
    assert (after.reward, after.score, after.done) == (0.0, 0.0, False)


def test_what_follows_the_bracket_and_case_do_not_matter(env: Any) -> None:
    env.reset("goal/0")
    env.step("search[CHAIR] please")
    assert "Price: $20.0" in env.step("click[C1]!").text


def test_words_of_the_address_in_a_query_mislead_as_in_the_original(env: Any) -> None:
    env.reset("goal/0")
    env.step("search[chair search_results]")
    env.step("click[c1]")
    # The address of the item page holds the query, which is taken for the name of the page.
    assert "Page 0 (Total results: 1)" in env.step("click[< prev]").text
    env.step("search[chair item_page]")
    for action in ("click[c1]", "click[description]"):
        env.step(action)
    assert "Page 1 (Total results: 1)" in env.step("click[< prev]").text


def test_special_queries(env: Any) -> None:
    env.reset("goal/0")
    assert "Total results: 24" in env.step("search[<c> garden]").text
    assert "Total results: 1)" in env.step("search[<q> chairs]").text
    for query in ("<c>", "<c> nothing", "<q>", "<a> soft"):
        assert "Total results: " in env.step(f"search[{query}]").text
    some = env.step("search[<r>]")
    assert "Total results: 24" in some.text
    env.reset("goal/0")
    for _ in range(6):
        env.step("search[chair]")
    assert env.step("search[<r>]").text == some.text


def test_too_long_a_query_is_answered_in_words(env: Any) -> None:
    start = env.reset("goal/0")
    query = " ".join(f"word{number}" for number in range(1025))
    seen = env.step(f"search[{query}]")
    assert seen.text.startswith("The query has 1,025 different search terms")
    assert seen.text.endswith(start.text)
    assert not seen.done
    assert "Total results: 1)" in env.step("search[chair]").text


def test_purchase_and_rewards(data: Path) -> None:
    for reward, perfect, partial in (("success", 10.0, 0.0), ("score", 1.0, 0.5)):
        env: Any = make("webshop", data=data, tagger="builtin", reward=reward)
        goal = next(
            i for i, goal in enumerate(env.goals) if list(goal["goal_options"].values()) == ["red", "small"]
        )
        env.reset(f"goal/{goal}")
        for action in ("search[chair]", "click[c1]", "click[red]", "click[small]"):
            assert env.step(action).reward == 0.0
        done = env.step("click[buy now]")
        assert (done.reward, done.score, done.success, done.terminated) == (perfect, 1.0, True, True)
        assert done.text.startswith("Thank you for shopping with us!")
        json.dumps(dict(done.info))
        again = env.step("search[chair]")
        assert (again.terminated, again.reward, again.text) == (True, 0.0, done.text)
        env.reset(f"goal/{goal}")
        for action in ("search[chair]", "click[c1]"):
            env.step(action)
        done = env.step("click[buy now]")
        assert (done.reward, done.score, done.success) == (partial, 0.5, False)


def test_the_tagger_is_always_named(data: Path) -> None:
    def nothing(text: str) -> list[tuple[str, bool]]:
        return [(word, False) for word in text.split()]

    env: Any = make("webshop", data=data, tagger=nothing)
    assert env.reset("goal/0").info["tagger"].endswith(".nothing")
    assert env.step("search[chair]").info["tagger"].endswith(".nothing")
    assert make("webshop", data=data, tagger="builtin").reset("goal/0").info["tagger"] == "builtin"


def test_steps_are_limited_when_asked(data: Path) -> None:
    env: Any = make("webshop", data=data, tagger="builtin", max_steps=3)
    env.reset("goal/0")
    assert [env.step("wait").truncated for _ in range(3)] == [False, False, True]
    env = make("webshop", data=data, tagger="builtin", max_steps=None)
    env.reset("goal/0")
    assert not any(env.step("wait").truncated for _ in range(300))


def test_splits(official: dict[str, Any]) -> None:
    env = make("webshop", tagger="builtin", **official)
    assert list(env.splits) == ["train", "test"]
    assert list(env.tasks("test")) == [f"goal/{number}" for number in range(500)]
    assert env.tasks("in-domain") == env.tasks("test")
    assert (env.tasks("train")[0], env.tasks("train")[-1], len(env.tasks("train"))) == (
        "goal/500",
        "goal/6909",
        6410,
    )
    assert env.tasks("train")[2:4] == ["goal/502", "goal/503"]
    with pytest.raises(UnknownName, match=r"Unknown split 'tset'\. Did you mean 'test'"):
        env.tasks("tset")


def test_training_goals_may_be_held_back(official: dict[str, Any], data: Path) -> None:
    env = make("webshop", tagger="builtin", validation_goals=1000, **official)
    assert list(env.splits) == ["train", "test", "validation"]
    assert env.tasks("test") == [f"goal/{number}" for number in range(500)]
    assert env.tasks("validation") == [f"goal/{number}" for number in range(500, 1500)]
    assert (env.tasks("train")[0], len(env.tasks("train"))) == ("goal/1500", 5410)
    for count in (6410, -1):
        with pytest.raises(BadSetting, match=f"validation_goals={count} was given, and there are 6410"):
            make("webshop", tagger="builtin", validation_goals=count, **official)
    with pytest.raises(BadSetting, match="there are 0 training goals"):
        make("webshop", data=data, tagger="builtin", goals="human", validation_goals=1)


def test_human_goals(data: Path) -> None:
    env: Any = make("webshop", data=data, tagger="builtin", goals="human")
    assert list(env.splits) == ["test"]
    assert "a chair, and price lower than" in env.reset("goal/0").text
    for action in ("search[chair]", "click[c1]", "click[red]"):
        env.step(action)
    assert env.step("click[buy now]").score == 1.0


@pytest.mark.parametrize("task", ["goal/6910", "goal/-1", "goal/x", "goal/", "0", "", "goal/1.0", "goal/٣"])
def test_unknown_goals(official: dict[str, Any], task: str) -> None:
    with pytest.raises(UnknownTask, match=r"6910 goals \('goal/0' to 'goal/6909'\)"):
        make("webshop", tagger="builtin", **official).reset(task)


def test_settings_that_make_no_sense(data: Path, monkeypatch: Any) -> None:
    for settings in ({"goals": "all"}, {"reward": "much"}, {"max_steps": 0}, {"window": 0}, {"size": "huge"}):
        with pytest.raises(BadSetting):
            make("webshop", data=data, **settings)
    monkeypatch.delenv("HGPO_WEBSHOP_DATA", raising=False)
    monkeypatch.chdir(data)
    with pytest.raises(BadSetting, match="needs data=FOLDER"):
        make("webshop")
    monkeypatch.setenv("HGPO_WEBSHOP_DATA", str(data))
    env: Any = make("webshop", tagger="builtin")
    assert env.reset("goal/0").text
    with pytest.raises(ResetNeeded):
        make("webshop", data=data).step("search[x]")


def test_no_goals_of_a_kind(folder: Callable[..., Path]) -> None:
    with pytest.raises(BadFile, match="hold no human goals"):
        make("webshop", data=folder([row("B1")], None, {}), goals="human")


def test_it_keeps_the_contract(official: dict[str, Any], env: Any) -> None:
    check_env(env)
    check_env(make("webshop", tagger="builtin", **official))
