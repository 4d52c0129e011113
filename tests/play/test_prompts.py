"""Prompts hold what they should and ask for what the parser reads."""

from __future__ import annotations

import hashlib
import itertools
from dataclasses import replace

import pytest

from hgpo.envs import make, registry
from hgpo.envs.actions import parse
from hgpo.envs.actors import expert
from hgpo.envs.prompt import Remembered, Situation
from hgpo.errors import BadEnv, UnknownName
from hgpo.play import Job, Limits, WindowMemory
from hgpo.play.prompts import observation_marks, shrink, style, styles
from hgpo.play.stage import Environments, Stage
from hgpo.policies.scripted import ScriptedPolicy

HERE = Situation(
    "put a mug in drawer 1.",
    "You arrive at desk 1. On the desk 1, you see a mug 1.",
    (Remembered(4, "You see a shelf 1.", "go to desk 1"),),
    5,
    ("go to shelf 1", "go to bed 1", "take mug 1 from desk 1", "help", "look"),
)


@pytest.mark.parametrize("name", ["household", "webshop", "generic", "compact", "plain"])
@pytest.mark.parametrize("reasoning", [True, False])
def test_everything_known_is_in_the_prompt(name: str, reasoning: bool) -> None:
    chosen = style(name, reasoning=reasoning, show_admissible=True)
    text = chosen.render(HERE)
    for part in (HERE.task, HERE.observation, "go to desk 1", "You see a shelf 1.", "take mug 1 from desk 1"):
        assert part in text
    assert ("<think>" in text) == (reasoning and chosen.tags)
    assert parse(chosen.reply("look"), ["look"], tags=chosen.tags, reasoning=chosen.reasoning).outcome == "ok"


@pytest.mark.parametrize("name", ["household", "generic", "compact", "plain"])
def test_the_status_is_said_where_it_is_asked_for(name: str) -> None:
    carrying = replace(HERE, status="carrying mug 2")
    shown = style(name, show_admissible=True, show_status=True).render(carrying)
    assert "carrying mug 2" in shown
    assert style(name, show_admissible=True).render(carrying) == style(name, show_admissible=True).render(
        HERE
    )
    assert style(name, show_admissible=True, show_status=True).render(HERE) == style(
        name, show_admissible=True
    ).render(HERE)


def test_a_house_says_what_is_carried_until_it_is_put_down() -> None:
    env = make("household", size="tiny", task_types=["pick_and_place_simple"])
    task = env.tasks("train")[0]
    seen = env.reset(task)
    assert seen.info["status"] == "carrying nothing"
    told = [(action, env.step(action)) for action in env.walkthrough(task)]  # type: ignore[attr-defined]
    carried = [
        action.split(" from ")[0].removeprefix("take ") for action, _ in told if action.startswith("take ")
    ]
    after = dict(told)
    taken = next(action for action, _ in told if action.startswith("take "))
    put = next(action for action, _ in told if action.startswith("move "))
    assert after[taken].info["status"] == f"carrying {carried[0]}"
    where = put.split(" to ")[1]
    assert after[put].info["status"] == f"carrying nothing, having put {carried[0]} in {where}"


def test_help_is_never_offered_in_the_house() -> None:
    assert "- help" not in style("household").render(HERE)


def test_compact_writes_shared_beginnings_once() -> None:
    text = style("compact", show_admissible=True).render(HERE)
    assert "go to shelf 1 , bed 1" in text
    clicks = ("click[bright white]", "click[bright aqua]", "click[next >]", "click[next >]", "search[...]")
    shown = style("compact", show_admissible=True).render(replace(HERE, admissible=clicks))
    assert "can : click[bright white] ; click[bright aqua] ; click[next >] ; search[...]\n" in shown
    assert "help" not in text


def test_compact_leaves_out_banner_and_repeated_task() -> None:
    first = Situation("put a mug.", "-= Welcome! =-\n\nYou see a bed 1.\n\nYour task is to: put a mug.")
    assert style("compact").render(first) == "task : put a mug.\nYou see a bed 1. >"


def test_plain_keeps_every_text_and_command_as_it_is() -> None:
    here = Situation(
        "Buy Milk",
        "Shelf:\n  -= Milk =-\nYour task is to: shop",
        (Remembered(0, "A Door", "Open Door"),),
        1,
        ("look under Shelf", "help", "Take Milk , Eggs"),
    )
    text = style("plain").render(here)
    for part in (here.observation, "A Door > Open Door", *(f"- {command}\n" for command in here.admissible)):
        assert part in text
    assert text.startswith("task : Buy Milk\n")


def test_an_environment_writes_its_own_prompt_and_asks_for_what_it_mentions() -> None:
    bare = style("env", write=lambda here: f"{here.task}? {'|'.join(here.admissible)}")
    assert bare.render(HERE) == "put a mug in drawer 1.? " + "|".join(HERE.admissible)
    assert bare.reply("look", bare.render(HERE)) == "look"
    tagged = style("env", write=lambda here: "Think in <think></think>, act in <action></action>.")
    reply = tagged.reply("look", tagged.render(HERE))
    assert parse(reply, ["look"], tags=True, reasoning=True).outcome == "ok"
    with pytest.raises(BadEnv, match="returned int"):
        style("env", write=lambda here: 3).render(HERE)  # type: ignore[arg-type,return-value]
    with pytest.raises(BadEnv, match="ZeroDivisionError"):
        style("env", write=lambda here: str(1 / 0)).render(HERE)


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
    page = Situation(
        "Find me a lamp, oak", later, (Remembered(0, text, "search[lamp]"),), 1, ("click[p001]",)
    )
    for name in ("webshop", "compact"):
        assert style(name).render(page).count("Find me a lamp") == 1
        assert "P001" in style(name).render(page)


def test_an_imported_prompt_gives_its_observation_back() -> None:
    """What `observation_marks` says of prompts is what the styles write."""
    before, after = observation_marks()
    for name in styles():
        for tags, reasoning in ((True, False), (True, True), (False, False)):
            for shown in (True, False):
                text = style(name, tags=tags, reasoning=reasoning, show_admissible=shown).render(HERE)
                if name in ("compact", "plain"):
                    assert before not in text
                    continue
                rest = text[text.rindex(before) + len(before) :]
                end = min(rest.index(mark) for mark in after if mark in rest)
                assert rest[:end].strip() == HERE.observation.strip()


def test_every_folder_of_environments_brings_its_prompt() -> None:
    assert styles() == ["compact", "generic", "plain", "household", "webshop"]
    with pytest.raises(UnknownName, match="household, webshop"):
        registry.prompt("houshold")


@pytest.mark.parametrize(("name", "settings"), [("household", {"size": "tiny"}), ("shop", {})])
def test_built_in_environments_say_their_task(name: str, settings: dict[str, str]) -> None:
    env = make(name, **settings)
    for task in env.tasks("train")[:20]:
        first = env.reset(task)
        assert first.info["goal"]
        assert first.info["goal"] in first.text


# A trained model knows the prompts it was trained on: their words are kept, byte for byte.
RECORDED = {
    "household": {
        "compact": "72a9daadec61a201",
        "generic": "efd16e29b6d24ccc",
        "household": "4cab0296ebfe973e",
        "webshop": "2f88b881191b445f",
    },
    "shop": {
        "compact": "f6b2b471236c518e",
        "generic": "cf4d889912010a43",
        "household": "8b5d874e3703f216",
        "webshop": "899b05f2b997dac7",
    },
}


@pytest.mark.parametrize("env", RECORDED)
@pytest.mark.parametrize("name", ["compact", "generic", "household", "webshop"])
def test_prompts_are_those_recorded(env: str, name: str) -> None:
    digest = hashlib.sha256()
    for length, reasoning, shown in itertools.product((0, 2), (False, True), (False, True)):
        chosen = style(name, reasoning=reasoning, show_admissible=shown)
        stage = Stage(
            Environments(env), style=chosen, limits=Limits(), memory=lambda k=length: WindowMemory(k)
        )
        jobs = [Job(task, task, 0, 0) for task in stage.tasks("train", 4)]
        for episode in stage.play(
            ScriptedPolicy(lambda s=stage: expert(s.task_source), chosen), jobs
        ).episodes:
            for step in episode.steps:
                digest.update(step.prompt.encode())
        stage.close()
    assert digest.hexdigest()[:16] == RECORDED[env][name]


def _house_stage(memory: int) -> Stage:
    env = Environments("household", {"size": "tiny"})
    own = style("env", show_status=True, write=env.make().prompt)  # type: ignore[attr-defined]
    return Stage(env, style=own, limits=Limits(12, 4096), memory=lambda: WindowMemory(memory))


def test_what_lasts_stands_first_in_a_house() -> None:
    stage = _house_stage(2)
    task = stage.tasks("train")[0]
    policy = ScriptedPolicy(lambda: expert(stage.expert_source), stage.style, 0.3)
    episodes = stage.play(policy, [Job(task, task, number, number) for number in range(3)]).episodes
    prompts = [step.prompt for episode in episodes for step in episode.steps]
    beginnings = {"\n".join(prompt.split("\n")[:2]) for prompt in prompts}
    assert len(beginnings) == 1, "every prompt of a game begins with its task and its places"
    places = beginnings.pop().split("\n")[1].removeprefix("places : ").split(" , ")
    seen = [step for episode in episodes for step in episode.steps]
    for step in seen:
        going = {one.removeprefix("go to ") for one in step.admissible if one.startswith("go to ")}
        assert going <= set(places), "one can go to no other place"
        past = step.prompt.split("\n", 2)[2]
        assert "Looking quickly" not in past, "what the first look showed is said once"
        assert f"step {step.index + 1} , carrying" in past
        for command in step.admissible:
            if command.startswith(("take ", "open ")):
                assert command.split(" ", 1)[1] in past
    assert {"go to " + place for place in places} >= {one for one in seen[0].admissible if "go to" in one}
    assert all(step.outcome == "ok" for step in seen if step.action in step.admissible)


def test_a_house_without_a_first_look_lists_where_one_can_go() -> None:
    write = make("household", size="tiny").prompt  # type: ignore[attr-defined]
    text = style("env", write=write).render(HERE)
    assert "places" not in text
    assert "can : go to shelf 1 , bed 1 ; take mug 1 from desk 1" in text
    shown = style("env", write=write).render(
        replace(HERE, opening="Looking quickly around you, you see a shelf 10, a shelf 2, and a bed 1.")
    )
    assert "places : bed 1 , shelf 2 , shelf 10\n" in shown
    assert "can : go to shelf 1 ; take mug 1 from desk 1" in shown
