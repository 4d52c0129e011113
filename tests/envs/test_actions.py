"""Replies are read the same way everywhere."""

from __future__ import annotations

from typing import Any

import pytest

from hgpo.envs import make
from hgpo.envs.actions import TAIL, action_form, is_admissible, parse
from hgpo.errors import BadEnv

HERE = ["go to desk 1", "look"]


@pytest.mark.parametrize(
    ("text", "options", "action", "outcome"),
    [
        ("<think>a</think><action>Go  to\ndesk 1</action>", {"reasoning": True}, "go to desk 1", "ok"),
        # As published: what could be read is sent, and the reply counts as malformed.
        ("<action>go to desk 1</action>", {"reasoning": True}, "go to desk 1", "malformed"),
        ("<action>go to desk 1</action> <think>late</think>", {"reasoning": True}, "go to desk 1", "ok"),
        ("<action>look</action><action>go to desk 1</action>", {}, "look", "ok"),
        ("</action>go to desk 1<action>", {}, None, "malformed"),
        ("<action>  </action>", {}, None, "malformed"),
        ("", {"tags": False}, "", "malformed"),
        ("go to desk 1", {"tags": False}, "go to desk 1", "ok"),
        ("fly away", {"tags": False}, "fly away", "inadmissible"),
        ("<ACTION>go to desk 1</ACTION>", {}, "go to desk 1", "ok"),
        ("去 <action>look</action>", {}, "look", "ok"),
        ("去 <action>look</action>", {"chinese": False}, "look", "malformed"),
        ("où <action>look</action>", {"chinese": False}, "look", "ok"),
    ],
)
def test_parse(text: str, options: dict[str, Any], action: str | None, outcome: str) -> None:
    parsed = parse(text, HERE, form="lower", **options)
    assert parsed.outcome == outcome
    assert (parsed.reason == "") == (outcome == "ok")
    if action is not None:
        assert parsed.action == action


@pytest.mark.parametrize(
    "action",
    [
        "Open the Oak Door",
        '{"tool": "open",  "what": "Door 1"}',
        "SELECT Name\n  FROM users\n WHERE id = 1;",
        "def f():\n\treturn 'É'",
    ],
)
def test_an_action_stays_as_it_is_unless_the_environment_wants_it_otherwise(action: str) -> None:
    for reply, tags in (
        (f"<action>{action}</action>", True),
        (f"<action>\n{action} </action>", True),
        (action, False),
    ):
        parsed = parse(reply, [action], tags=tags)
        assert (parsed.action, parsed.outcome) == (action, "ok")
    line = " ".join(action.split())
    assert parse(action, tags=False, form="line").action == line
    assert parse(action, tags=False, form="lower").action == line.lower()


def test_space_around_an_action_stays_where_it_is_listed_so() -> None:
    assert parse("<action>  return x</action>", ["  return x"]).outcome == "ok"
    assert parse("<action>  return x</action>").action == "return x"


def test_worlds_of_this_package_keep_their_form() -> None:
    assert action_form(make("household", size="tiny")) == action_form(make("shop")) == "lower"
    with pytest.raises(BadEnv, match="action_form is 'upper'"):
        action_form(type("Shout", (), {"action_form": "upper"})())


def test_what_is_sent_for_a_malformed_reply_is_short_and_one_line() -> None:
    found = parse("word\n" * 500)
    assert len(found.action) <= TAIL
    assert "\n" not in found.action


@pytest.mark.parametrize(
    ("action", "fits"),
    [
        ("search[shoes]", True),
        ("search[ ]", False),
        ("search[", False),
        ("click[buy now]", True),
        ("buy", False),
    ],
)
def test_templates(action: str, fits: bool) -> None:
    assert is_admissible(action, ["search[...]", "click[buy now]"]) is fits


def test_no_list_means_anything_goes() -> None:
    assert parse("anything", (), tags=False).outcome == "ok"
