"""What an agent that keeps count knows of itself, and the states that this tells apart."""

from __future__ import annotations

import random
import runpy
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from hgpo.envs import make
from hgpo.envs.household.count import Count, state_key

ROOT = Path(__file__).resolve().parents[3]


def after(*texts: str) -> Count:
    count = Count()
    for text in texts:
        count = count.after(text)
    return count


TAKEN, PUT = "You pick up the mug 2 from the shelf 1.", "You move the mug 2 to the cabinet 3."


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        ((), "carrying nothing"),
        ((TAKEN,), "carrying mug 2"),
        ((TAKEN, PUT), "carrying nothing, having put mug 2 in cabinet 3"),
        ((TAKEN, PUT, "You pick up the mug 2 from the cabinet 3."), "carrying mug 2"),
        ((TAKEN, "You clean the mug 2 using the sinkbasin 1."), "carrying mug 2 (clean)"),
        (
            (TAKEN, "You heat the mug 2 using the microwave 1.", "You cool the mug 2 using the fridge 1."),
            "carrying mug 2 (cold)",
        ),
        (
            (TAKEN, "You clean the mug 2 using the sinkbasin 1.", "You heat the mug 2 using the microwave 1.", PUT),
            "carrying nothing, having put mug 2 (clean, hot) in cabinet 3",
        ),
        (("You turn on the desklamp 1.",), "carrying nothing, having lit desklamp 1"),
        (("Nothing happens.", "You arrive at safe 1. The safe 1 is closed."), "carrying nothing"),
        (
            (
                "You open the drawer 10. The drawer 10 is open. In it, you see a mug 2.",
                "You arrive at shelf 1. On the shelf 1, you see nothing.",
                "You arrive at drawer 2. The drawer 2 is open. In it, you see a pen 1, and a cd 2.",
            ),
            "carrying nothing, having looked in drawer 2 10, shelf 1",
        ),
        (("On the desk 1, you see a mug 2.", TAKEN), "carrying mug 2"),
        ((TAKEN, "On the desk 1, you see nothing.", PUT), "carrying nothing, having put mug 2 in cabinet 3"),
        (
            (TAKEN, PUT, "You arrive at shelf 1. On the shelf 1, you see a pen 1."),
            "carrying nothing, having put mug 2 in cabinet 3, having looked in shelf 1",
        ),
    ],
)  # fmt: skip
def test_what_is_known_is_what_was_done(texts: tuple[str, ...], words: str) -> None:
    assert after(*texts).words() == words


def test_the_words_do_not_depend_on_the_way() -> None:
    pen = ("You pick up the pen 1 from the desk 1.", "You move the pen 1 to the drawer 1.")
    assert after(TAKEN, PUT, *pen).words() == after(*pen, TAKEN, PUT).words()
    lamps = ("You turn on the desklamp 2.", "You turn on the desklamp 1.", "On the bed 1, you see nothing.")
    assert after(*lamps).words() == after(*reversed(lamps)).words()


def test_only_the_last_things_put_down_are_told() -> None:
    texts = [
        text
        for number in range(1, 6)
        for text in (
            f"You pick up the pen {number} from the desk 1.",
            f"You move the pen {number} to the drawer 1.",
        )
    ]
    words = after(*texts).words()
    assert [f"pen {number}" in words for number in range(1, 6)] == [False, False, True, True, True]


def test_a_state_is_what_can_be_done_here_and_what_is_known() -> None:
    commands = ["take mug 2 from shelf 1", "go to bed 1", "examine shelf 1", "go to shelf 2"]
    here = state_key(commands, "carrying nothing")
    assert here == "examine shelf 1; take mug 2 from shelf 1; carrying nothing"
    assert here == state_key(sorted(commands), "carrying nothing")
    assert here != state_key(commands, "carrying pen 1")
    assert here != state_key([*commands, "open safe 1"], "carrying nothing")


def test_the_status_is_all_that_the_expert_needs_to_remember(shared: Path) -> None:
    """In every game of both panels; without it four steps are too few, most of all out of domain."""
    forgetful = runpy.run_path(str(ROOT / "benchmarks" / "household_expert.py"))
    env = make("alfworld", data=shared / "alfworld" / "games_compact.jsonl.xz")
    for split, without in (("in-domain", "130/140"), ("out-of-domain", "119/134")):
        count = without.split("/")[1]
        assert forgetful["solve"](env, split, forgetful["Forgetful"](0, True))["all"] == f"{count}/{count}"
        assert forgetful["solve"](env, split, forgetful["Forgetful"](4, False))["all"] == without


@pytest.mark.parametrize("size", ["tiny", "alfworld"])
def test_states_of_one_key_look_alike_from_there_on(size: str) -> None:
    """The same key means the same commands, the same answers to all that look around, and the same win."""
    env: Any = make("household", size=size)
    random_ = random.Random(0)
    shared, told_apart = 0, 0
    for task in list(env.tasks("train"))[:12]:
        by_key: dict[str, set[Any]] = defaultdict(set)
        by_text: dict[str, set[str]] = defaultdict(set)
        for _ in range(4):
            seen = env.reset(task)
            for _ in range(60):
                key = seen.info["state_key"]
                by_text[seen.text].add(key)
                answers = tuple(env.clone().step(command).text for command in ("look", "inventory"))
                by_key[key].add((tuple(seen.admissible), answers[1]))
                shared += len(by_key[key]) == 1
                seen = env.step(random_.choice(list(seen.admissible)))
        assert all(len(states) == 1 for states in by_key.values()), "one key, one set of commands, one hand"
        told_apart += any(len(keys) > 1 for keys in by_text.values())
    assert shared > 100
    assert told_apart > 6, "observations stand for several states"
