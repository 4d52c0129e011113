"""Replies are read the same way everywhere."""

from __future__ import annotations

import pytest

from hgpo.play.actions import TAIL, is_admissible, parse


@pytest.mark.parametrize(
    ("text", "options", "action", "outcome"),
    [
        ("<think>a</think><action>Go  to\ndesk 1</action>", {"reasoning": True}, "go to desk 1", "ok"),
        ("<action>go to desk 1</action>", {"reasoning": True}, None, "malformed"),
        ("<action>go to desk 1</action> <think>late</think>", {"reasoning": True}, None, "malformed"),
        ("<action>a</action><action>b</action>", {}, None, "malformed"),
        ("</action>go to desk 1<action>", {}, None, "malformed"),
        ("<action>  </action>", {}, None, "malformed"),
        ("", {"tags": False}, "", "malformed"),
        ("go to desk 1", {"tags": False}, "go to desk 1", "ok"),
        ("fly away", {"tags": False}, "fly away", "inadmissible"),
        ("<ACTION>go to desk 1</ACTION>", {}, "go to desk 1", "ok"),
    ],
)
def test_parse(text: str, options: dict[str, bool], action: str | None, outcome: str) -> None:
    found = parse(text, ["go to desk 1", "look"], **options)
    assert found.outcome == outcome
    assert (found.reason == "") == (outcome == "ok")
    if action is not None:
        assert found.action == action


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
