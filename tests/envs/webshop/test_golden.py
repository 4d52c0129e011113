"""The records of the original environment: goals, queries, sessions and scores are the same."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any

from hgpo.envs import make
from hgpo.envs.webshop.catalogue import Catalogue

KEYS = (
    *("asin", "category", "query", "name", "product_category", "instruction_text", "attributes"),
    *("price_upper", "goal_options"),
)


def test_every_goal_is_the_same(catalogue: Catalogue, golden: dict[str, Any]) -> None:
    goals = [{key: goal[key] for key in KEYS} for goal in catalogue.goals]
    assert len(goals) == golden["num_goals"] == 6910
    digest = hashlib.sha256(json.dumps(goals, sort_keys=True).encode()).hexdigest()
    assert digest == golden["goals_sha256"]


def test_recorded_goals_in_full(catalogue: Catalogue, golden: dict[str, Any]) -> None:
    for record in golden["goals"]:
        assert {"index": record["index"], **catalogue.goals[record["index"]]} == record


def test_every_query_ranks_the_same(catalogue: Catalogue, golden: dict[str, Any]) -> None:
    wrong = [
        item["query"] for item in golden["queries"] if catalogue.search(item["query"], 50) != item["top"]
    ]
    assert wrong == []


def test_every_session_reads_and_scores_the_same(
    official: dict[str, Any], golden: dict[str, Any], pattern_tagger: Callable[..., Any]
) -> None:
    env = make("webshop", tagger=pattern_tagger, **official)
    compared = purchases = 0
    for session in golden["trajectories"]:
        seen: Any = env.reset(f"goal/{session['session']}")
        assert session["instruction"] in seen.text
        for step in session["steps"]:
            assert seen.text == step["observation"]
            if "available" in step:
                assert seen.info["available"] == step["available"]
            compared += 1
            if "action" not in step:
                break
            seen = env.step(step["action"])
            assert abs(seen.score - step["reward"]) < 1e-9
            assert seen.done == step["done"]
            assert seen.reward == (10.0 if step["reward"] == 1.0 else 0.0)
            purchases += seen.done
    assert compared == 736
    assert purchases == 32


def test_exact_purchases_do_not_depend_on_the_tagger(
    official: dict[str, Any], golden: dict[str, Any]
) -> None:
    env = make("webshop", tagger="builtin", **official)
    for session in golden["trajectories"]:
        actions = [step["action"] for step in session["steps"] if "action" in step]
        if session["steps"][-2]["reward"] != 1.0:
            continue
        env.reset(f"goal/{session['session']}")
        assert [env.step(action) for action in actions][-1].score == 1.0
