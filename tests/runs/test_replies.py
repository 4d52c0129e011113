"""Replies that a prompt did not ask for are noticed in the first iteration."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

from hgpo.config import load
from hgpo.config.stage import open_stage
from hgpo.play import Job, record
from hgpo.play.policy import Reply, Request
from hgpo.policies.scripted import ExploringPolicy
from hgpo.runs.replies import unfit_replies
from hgpo.runs.training import train

from ..worlds import Fetch

FETCH = f"{Fetch.__module__}:Fetch"


class Says(ExploringPolicy):
    """Always says the same."""

    said = ""

    async def generate(self, request: Request) -> Reply:
        return Reply(self.said)


@pytest.mark.parametrize(
    ("prompt", "said", "words"),
    [
        (
            "generic",
            "< action > give < / action >",
            ["100% of the replies", "no <action>", "agent.prompt=plain", "< action >"],
        ),
        ("plain", "", ["the action is empty", "warm.source=format"]),
        (
            "plain",
            "fly away",
            ["100% of the actions are not among", "'fly away', where 'take left' would do"],
        ),
    ],
)
def test_what_is_wrong_with_replies_is_said_with_the_fix(prompt: str, said: str, words: list[str]) -> None:
    config = load(FETCH, [f"agent.prompt={prompt}", "agent.reasoning=false"])
    stage = open_stage(config)
    policy = Says(stage.style)
    policy.said = said
    batch = record(stage.play(policy, [Job("fetch-1", "g", 0, 0)]).episodes)
    sentence = unfit_replies(batch, stage.style, config)
    for word in words:
        assert word in sentence
    good = record(stage.play(ExploringPolicy(stage.style), [Job("fetch-1", "g", 0, 0)]).episodes)
    assert unfit_replies(good, stage.style, config) == ""


@pytest.mark.parametrize("prompt", ["generic", "household", "plain", "compact"])
def test_the_small_model_answers_every_style(tmp_path: Path, prompt: str) -> None:
    """The tags that a style asks for are in the tokenizer, so the model can learn to write them."""
    words = [
        f"agent.prompt={prompt}",
        "agent.reasoning=false",
        "warm.episodes=150",
        "warm.updates=120",
        "iterations=1",
        "eval.every=0",
        "rollout.tasks=2",
    ]
    screen = io.StringIO()
    train(load(FETCH, words), tmp_path / "run", stream=screen)
    import json

    row: dict[str, Any] = json.loads((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()[-1])
    assert row["malformed_share"] < 0.2, screen.getvalue()
