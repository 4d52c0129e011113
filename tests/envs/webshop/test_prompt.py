"""The shop's short prompts: nothing that can be clicked is lost, and everything is written once."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hgpo.envs import make
from hgpo.envs.prompt import Remembered, Situation
from hgpo.envs.webshop.prompt import pages_in_short
from hgpo.play.prompts import style

from .conftest import row

COLOURS = {"Color": [{"value": "Bright White"}, {"value": "Red, dark"}], "Size": [{"value": "Big"}]}


@pytest.fixture
def env(folder: Callable[..., Path]) -> Any:
    rows = [row(f"B{number:02d}", pricing=f"${number + 1}.00") for number in range(12)]
    rows.append(row("C1", name="Soft chair", customization_options=COLOURS, pricing="$20.00", query="chairs"))
    about = {product["asin"]: {"attributes": ["plain"]} for product in rows}
    about["C1"] = {
        "attributes": ["soft"],
        "instruction": "Find me soft chair",
        "instruction_attributes": ["soft"],
    }
    return make("webshop", data=folder(rows, about), tagger="builtin")


def situation(seen: Any, *history: Remembered, step: int = 0) -> Situation:
    return Situation(
        "Find me soft chair", seen.text, history, step, tuple(seen.admissible), seen.info["status"]
    )


def shown(seen: Any, *history: Remembered) -> list[str]:
    return pages_in_short(situation(seen, *history)).split("\n")


def test_every_kind_of_page_in_short(env: Any) -> None:
    assert shown(env.reset("goal/0")) == [
        "task : Find me soft chair",
        "search page",
        "can : search[...]",
        "step 1 , shopping with no option chosen",
        "search page >",
    ]
    results = shown(env.step("search[soft chair]"))
    assert results[1:4] == [
        "results , page 1 , 1 found",
        "c1 | Soft chair | $20.0",
        "can : click[back to search] ; click[next >]",
    ]
    env.step("click[c1]")
    item = shown(env.step("click[bright white]"))
    assert item[1:] == [
        "color | bright white | red, dark",
        "size | big",
        "Soft chair | $20.0",
        "can : click[back to search] ; click[< prev] ; click[description] ; click[features] ; click[reviews] ; "
        "click[buy now]",
        "step 1 , shopping with color bright white chosen",
        "Soft chair | $20.0 >",
    ]
    text = shown(env.step("click[description]"))
    assert text[1:4] == [
        "text of the product",
        "A thing.",
        "can : click[back to search] ; click[< prev]",
    ]
    back = shown(env.step("click[back to search]"))
    assert back[3] == "step 1 , shopping with no option chosen, having looked at c1"


def test_pages_that_are_remembered_take_one_line_each(env: Any) -> None:
    first, second = env.reset("goal/0"), env.step("search[thing]")
    third = env.step("click[b03]")
    past = (Remembered(0, first.text, "search[thing]"), Remembered(1, second.text, "click[b03]"))
    lines = shown(third, *past)
    assert lines[lines.index("search page > search[thing]") + 1] == (
        "results , page 1 , 13 found > click[b03]"
    )
    assert sum("b05" in line for line in lines) == 0, "the products of a page that is past are not listed"


def test_what_can_be_clicked_is_in_the_prompt_and_written_once(env: Any) -> None:
    """Whatever the shop shows: each click stands on the page as it is typed, or in the list of buttons."""
    pages = 0
    for seed in range(30):
        draw = random.Random(seed)
        seen = env.reset("goal/0")
        while not seen.info.get("purchase") and pages < 2000:
            lines = shown(seen)
            listed = next((line for line in lines if line.startswith("can : ")), "")
            named = [part for line in lines[1:] if line != listed for part in line.split(" | ")]
            for action in seen.admissible:
                click = action.removeprefix("click[").removesuffix("]")
                assert (action in listed) != (click in named), (action, lines)
            pages += 1
            action = draw.choice([*seen.admissible, "click[buy now]", "click[red, dark]"])
            seen = env.step(action.replace("...", draw.choice(["soft chair", "thing", "zzz", "b03 ("])))
    assert pages > 200


def test_a_query_that_is_not_understood_says_so_in_the_prompt(env: Any) -> None:
    env.reset("goal/0")
    seen = env.step("search[" + " ".join(f"w{number}" for number in range(1100)) + "]")
    assert seen.info["note"][:40] in shown(seen)[1] or seen.info["note"][:40] in shown(seen)[2]


def test_the_style_env_is_the_shops_own(env: Any) -> None:
    seen = env.reset("goal/0")
    chosen = style("env", write=env.prompt, show_status=True)
    assert chosen.render(situation(seen)) == pages_in_short(situation(seen))
    assert "step" not in style("env", write=env.prompt).render(situation(seen))
    assert chosen.asks(chosen.render(situation(seen))) == (False, False)


def test_states_are_pages_with_what_was_chosen(env: Any) -> None:
    by_key: dict[str, set[tuple[str, str]]] = defaultdict(set)
    for seed in range(40):
        draw = random.Random(seed)
        seen = env.reset("goal/0")
        while True:
            chosen = seen.info["status"].partition(" chosen")[0]
            by_key[seen.info["state_key"]].add((seen.text, chosen))
            action = draw.choice(list(seen.admissible)).replace("...", draw.choice(["soft chair", "thing"]))
            seen = env.step(action)
            if seen.info["state_key"].startswith("done"):
                break
    assert all(len(states) == 1 for states in by_key.values())
    texts = [text for states in by_key.values() for text, _ in states]
    assert len(texts) > len(set(texts)), "one page with different options chosen is several states"


def test_a_shop_of_its_own_has_states_and_short_prompts() -> None:
    env: Any = make("shop", products=12, values=2)
    seen = env.reset("goal/0")
    assert seen.info["state_key"].startswith("search ")
    seen = env.step("search[laptop pocket]")
    assert "results , page 1" in env.prompt(situation(seen))


def test_copies_keep_what_was_looked_at_apart(env: Any) -> None:
    env.reset("goal/0")
    env.step("search[thing]")
    copy = env.clone()
    copy.step("click[b03]")
    copy.step("click[< prev]")
    assert "b03" in copy.step("click[next >]").info["status"]
    assert "b03" not in env.step("click[next >]").info["status"]
