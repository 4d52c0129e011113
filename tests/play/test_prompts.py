"""Prompts hold what they should and ask for what the parser reads."""

from __future__ import annotations

import pytest

from hgpo.errors import UnknownName
from hgpo.play.actions import parse
from hgpo.play.episode import task_sentence
from hgpo.play.memory import Remembered
from hgpo.play.prompts import Situation, shrink, style

HERE = Situation(
    "put a mug in drawer 1.",
    "You arrive at desk 1. On the desk 1, you see a mug 1.",
    (Remembered(4, "You see a shelf 1.", "go to desk 1"),),
    5,
    ("go to shelf 1", "go to bed 1", "take mug 1 from desk 1", "help", "look"),
)


@pytest.mark.parametrize("name", ["household", "webshop", "generic", "compact"])
@pytest.mark.parametrize("reasoning", [True, False])
def test_everything_known_is_in_the_prompt(name: str, reasoning: bool) -> None:
    chosen = style(name, reasoning=reasoning, show_admissible=True)
    text = chosen.render(HERE)
    for part in (HERE.task, HERE.observation, "go to desk 1", "You see a shelf 1.", "take mug 1 from desk 1"):
        assert part in text
    assert ("<think>" in text) == (reasoning and chosen.tags)
    assert parse(chosen.reply("look"), ["look"], tags=chosen.tags, reasoning=chosen.reasoning).outcome == "ok"


def test_help_is_never_offered_in_the_house() -> None:
    assert "- help" not in style("household").render(HERE)


def test_compact_writes_shared_beginnings_once() -> None:
    text = style("compact", show_admissible=True).render(HERE)
    assert "go to shelf 1 , bed 1" in text
    assert "help" not in text


def test_compact_leaves_out_banner_and_repeated_task() -> None:
    first = Situation("put a mug.", "-= Welcome! =-\n\nYou see a bed 1.\n\nYour task is to: put a mug.")
    assert style("compact").render(first) == "task : put a mug.\nYou see a bed 1. >"


def test_commands_can_be_hidden() -> None:
    assert "take mug" not in style("household", show_admissible=False).render(HERE)


def test_shrinking_ends_and_keeps_the_task() -> None:
    situation: Situation | None = Situation("t", "word " * 500, HERE.history, 5, HERE.admissible)
    count = 0
    while situation is not None:
        assert situation.task == "t"
        last, situation = situation, shrink(situation)
        count += 1
    assert count < 20
    assert len(last.observation) <= 80


def test_unknown_style() -> None:
    with pytest.raises(UnknownName, match="household"):
        style("houshold")


def test_a_page_does_not_repeat_the_instruction() -> None:
    text = "WebShop [SEP] Instruction: [SEP] Find me a lamp, oak [SEP] Search"
    later = "Instruction: [SEP] Find me a lamp, oak [SEP] Back to Search [SEP] P001 [SEP] $9.00"
    assert task_sentence(text, {}) == "Find me a lamp, oak"
    page = Situation(
        "Find me a lamp, oak", later, (Remembered(0, text, "search[lamp]"),), 1, ("click[p001]",)
    )
    for name in ("webshop", "compact"):
        assert style(name).render(page).count("Find me a lamp") == 1
        assert "P001" in style(name).render(page)
