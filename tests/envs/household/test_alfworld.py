"""Official games in the native engine, against records of the official engine."""

from __future__ import annotations

import gzip
import json
import lzma
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from hgpo.envs import check_env, make
from hgpo.envs.household.alfworld import AlfworldEnv
from hgpo.envs.household.alfworld_games import CompactGames, FolderGames, open_games
from hgpo.errors import BadFile, BadSetting, HgpoError, ResetNeeded, UnknownName, UnknownTask


@pytest.fixture(scope="module")
def compact(shared: Path) -> Path:
    return shared / "alfworld" / "games_compact.jsonl.xz"


@pytest.fixture(scope="module")
def env(compact: Path) -> AlfworldEnv:
    return AlfworldEnv(compact)


@pytest.fixture(scope="module")
def few_games(compact: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The header and the first games of the compact file."""
    with lzma.open(compact, "rt") as lines:
        header = json.loads(next(lines))
        return header, [json.loads(next(lines)) for _ in range(3)]


def download(folder: Path, header: dict[str, Any], games: list[dict[str, Any]], split: str) -> Path:
    """Write games the way the official download lays them out."""
    for game in games:
        grammar = header["grammars"][game["grammar"]]
        content = {
            "pddl_domain": header["domains"][game["domain"]],
            "grammar": grammar.replace("Your task is to: UNKNOWN GOAL.", f"Your task is to: {game['task']}"),
            "pddl_problem": game["problem"],
            "solvable": game["solvable"],
            "walkthrough": game["walkthrough"],
        }
        place = folder / "json_2.1.1" / split / game["name"] / game["trial"]
        place.mkdir(parents=True)
        (place / "game.tw-pddl").write_text(json.dumps(content))
    return folder


def test_golden_records_are_reproduced_exactly(env: AlfworldEnv, shared: Path) -> None:
    with gzip.open(shared / "alfworld" / "golden.json.gz", "rt") as file:
        records = json.load(file)
    steps = 0
    for record in records:
        task = f"{record['split']}/{record['name']}/{record['trial']}"
        seen: Any = env.reset(task)
        for number, expected in enumerate(record["steps"]):
            where = f"{task} step {number}"
            assert seen.text == expected["feedback"], where
            assert seen.admissible == expected["admissible"], where
            assert getattr(seen, "success", False) == expected["won"], where
            steps += 1
            if number < len(record["actions"]):
                seen = env.step(record["actions"][number])
    assert steps > 500


def test_every_stored_walkthrough_wins(env: AlfworldEnv) -> None:
    lost = []
    for split in env.splits:
        for task in env.tasks(split):
            env.reset(task)
            results = [env.step(command) for command in env.walkthrough(task)]
            if not results[-1].success or not results[-1].terminated or any(t.success for t in results[:-1]):
                lost.append(task)
    assert lost == []


def test_splits_hold_the_official_games(env: AlfworldEnv) -> None:
    assert {split: len(env.tasks(split)) for split in env.splits} == {
        "train": 3553,
        "in-domain": 140,
        "out-of-domain": 134,
        "valid_train": 200,
    }
    assert env.tasks("in-domain") == sorted(env.tasks("valid_seen"))
    assert all(task.startswith("valid_seen/") for task in env.tasks("in-domain"))


def test_task_types_filter(compact: Path) -> None:
    lamps = make("alfworld", data=compact, task_types=["look_at_obj_in_light"])
    assert len(lamps.tasks("out-of-domain")) == 18
    with pytest.raises(UnknownName, match="Did you mean 'look_at_obj_in_light'"):
        make("alfworld", data=compact, task_types=["look_at_obj_in_lights"])
    with pytest.raises(BadSetting, match="task_types is empty"):
        make("alfworld", data=compact, task_types=[])


def test_reward_and_limits(compact: Path) -> None:
    env = AlfworldEnv(compact, max_steps=3)
    task = env.tasks("in-domain")[0]
    env.reset(task)
    ends = [env.step("dance") for _ in range(4)]
    assert [t.truncated for t in ends] == [False, False, True, True]
    assert {t.text for t in ends} == {"Nothing happens."}
    env = AlfworldEnv(compact)
    env.reset(task)
    transitions = [env.step(command) for command in env.walkthrough(task)]
    assert [t.reward for t in transitions] == [0.0] * (len(transitions) - 1) + [10.0]
    after = env.step("look")
    assert after.terminated
    assert after.reward == 0.0


def test_keeps_the_contract(env: AlfworldEnv) -> None:
    check_env(env, episodes=1)


def test_step_needs_a_reset(compact: Path) -> None:
    env = AlfworldEnv(compact)
    with pytest.raises(ResetNeeded, match="Call reset"):
        env.step("look")


def test_official_folder_gives_the_same_games(
    tmp_path: Path, few_games: tuple[dict[str, Any], list[dict[str, Any]]], env: AlfworldEnv, monkeypatch: Any
) -> None:
    header, games = few_games
    download(tmp_path, header, games, "valid_seen")
    monkeypatch.setenv("ALFWORLD_DATA", str(tmp_path))
    for data in (None, tmp_path, tmp_path / "json_2.1.1"):
        folder = AlfworldEnv(data)
        assert folder.splits == ("in-domain",)
        tasks = folder.tasks("in-domain")
        assert tasks == sorted(f"valid_seen/{game['name']}/{game['trial']}" for game in games)
        for task in tasks:
            _, name, trial = task.split("/")
            original = f"{games[0]['split']}/{name}/{trial}"
            assert folder.reset(task).text == env.reset(original).text
            for command in folder.walkthrough(task):
                assert folder.step(command).text == env.step(command).text


def test_unsolvable_and_movable_games_are_left_out(
    tmp_path: Path, few_games: tuple[dict[str, Any], list[dict[str, Any]]]
) -> None:
    header, games = few_games
    unsolvable = {**games[0], "solvable": False}
    movable = {**games[1], "name": "pick_and_place_with_movable_recep-Book-Box-Desk-1"}
    download(tmp_path, header, [unsolvable, movable, games[2]], "train")
    assert len(AlfworldEnv(tmp_path).tasks("train")) == 1


@pytest.mark.parametrize("keep", [0, 1000, 40_000])
def test_a_truncated_game_file_is_named_when_played(
    tmp_path: Path, few_games: tuple[dict[str, Any], list[dict[str, Any]]], keep: int
) -> None:
    header, games = few_games
    download(tmp_path, header, games, "valid_unseen")
    file = sorted(tmp_path.rglob("game.tw-pddl"))[1]
    file.write_bytes(file.read_bytes()[:keep])
    env = AlfworldEnv(tmp_path)
    tasks = env.tasks("out-of-domain")
    assert len(tasks) == 3
    with pytest.raises(BadFile, match="alfworld-download") as caught:
        env.reset(tasks[1])
    assert str(file) in str(caught.value)
    env.reset(tasks[0])


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda text: text[: len(text) // 2], "truncated"),
        (lambda text: text.replace("(:goal", "(:gaol"), r"\(:goal"),
        (lambda text: text.replace("(holds ?a ?o)", "(wears ?a ?o)"), "six task types"),
        (
            lambda text: text.replace("(atLocation agent1", "(atLocation agent2 (x"),
            "unexpected facts|incomplete",
        ),
    ],
)
def test_a_damaged_problem_names_the_game(
    tmp_path: Path, few_games: tuple[dict[str, Any], list[dict[str, Any]]], damage: Any, message: str
) -> None:
    header, games = few_games
    broken = {**games[0], "problem": damage(games[0]["problem"])}
    env = AlfworldEnv(download(tmp_path, header, [broken], "train"))
    task = env.tasks("train")[0]
    with pytest.raises(BadFile, match=message) as caught:
        env.reset(task)
    assert task in str(caught.value)


def test_another_grammar_is_refused(
    tmp_path: Path, few_games: tuple[dict[str, Any], list[dict[str, Any]]]
) -> None:
    header, games = few_games
    old = {
        key: text.replace("move {o} to {r}", "put {o} in/on {r}") for key, text in header["grammars"].items()
    }
    env = AlfworldEnv(download(tmp_path, {**header, "grammars": old}, games[:1], "train"))
    with pytest.raises(BadFile, match=r"text grammar is not that of ALFWorld 0\.4"):
        env.reset(env.tasks("train")[0])


def test_damaged_compact_files_are_named(tmp_path: Path, compact: Path) -> None:
    whole = compact.read_bytes()
    cases = {
        "cut.jsonl.xz": whole[:100_000],
        "flipped.jsonl.xz": whole[:5000] + bytes(100) + whole[5100:],
        "words.jsonl": b"hello\n",
        "empty.jsonl": b"",
        "header.jsonl": b'{"domains": {}, "grammars": {}}\n',
        "row.jsonl": b'{"domains": {}, "grammars": {}}\n{"split": "train"}\n',
    }
    for name, content in cases.items():
        path = tmp_path / name
        path.write_bytes(content)
        with pytest.raises(BadFile, match="fetch it again") as caught:
            AlfworldEnv(path)
        assert name in str(caught.value)


def test_threads_that_start_together_read_the_games_once(
    tmp_path: Path, few_games: tuple[dict[str, Any], list[dict[str, Any]]], monkeypatch: Any
) -> None:
    header, games = few_games
    path = tmp_path / "games.jsonl"
    path.write_text("\n".join(map(json.dumps, (header, *games))) + "\n")
    read: list[Path] = []
    before = CompactGames._read_header

    def slow(self: CompactGames, line: bytes) -> None:
        read.append(self.path)
        time.sleep(0.05)
        before(self, line)

    monkeypatch.setattr(CompactGames, "_read_header", slow)
    with ThreadPoolExecutor(8) as pool:
        opened = list(pool.map(lambda _: open_games(path), range(8)))
    assert read == [path]
    assert len(set(map(id, opened))) == 1


def test_a_folder_may_hold_the_compact_file_or_the_download(
    tmp_path: Path, few_games: tuple[dict[str, Any], list[dict[str, Any]]], monkeypatch: Any
) -> None:
    header, games = few_games
    with lzma.open(tmp_path / "games.jsonl.xz", "wt") as file:
        file.write("\n".join(map(json.dumps, (header, *games))) + "\n")
    monkeypatch.setenv("ALFWORLD_DATA", str(tmp_path))
    known = [f"{game['split']}/{game['name']}/{game['trial']}" for game in games]
    assert set(AlfworldEnv().tasks("train")) <= set(known)
    (tmp_path / "json_2.1.2" / "train").mkdir(parents=True)
    assert isinstance(open_games(tmp_path), FolderGames)  # what the official engine needs


def test_missing_things_get_one_clear_sentence(tmp_path: Path, compact: Path, monkeypatch: Any) -> None:
    monkeypatch.delenv("ALFWORLD_DATA", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadSetting, match="ALFWORLD_DATA"):
        AlfworldEnv()
    with pytest.raises(BadFile, match="nowhere"):
        AlfworldEnv(tmp_path / "nowhere")
    with pytest.raises(BadFile, match=r"json_2\.1\.1"):
        AlfworldEnv(tmp_path)
    (tmp_path / "train").mkdir()
    with pytest.raises(BadFile, match="no games of the split 'valid_seen'"):
        AlfworldEnv(tmp_path).tasks("in-domain")
    env = AlfworldEnv(compact)
    task = env.tasks("in-domain")[3]
    with pytest.raises(UnknownTask, match="Did you mean") as caught:
        env.reset(task[:-1])
    assert str(compact) in str(caught.value)
    with pytest.raises(UnknownName, match=r"Unknown split 'in-domian'\. Did you mean 'in-domain'"):
        env.tasks("in-domian")
    for strange in ("", "../../etc/passwd", "train", "a/b/c"):
        with pytest.raises(HgpoError):
            env.reset(strange)


def test_rooms_can_be_held_back_from_training(env: AlfworldEnv, compact: Path) -> None:
    def rooms(tasks: Sequence[str]) -> set[str]:
        return {task.split("/")[1].rpartition("-")[2] for task in tasks}

    held = AlfworldEnv(compact, validation_rooms=12)
    validation, train = held.tasks("validation"), held.tasks("train")
    assert "validation" in held.splits
    assert sorted([*validation, *train]) == env.tasks("train")
    assert len(rooms(validation)) == 12
    assert not rooms(validation) & rooms(train)
    assert {int(room) // 100 for room in rooms(validation)} == {
        0,
        2,
        3,
        4,
    }  # kitchens, living, bed- and bathrooms
    assert held.tasks("in-domain") == env.tasks("in-domain")
    assert held.reset(validation[0]).text
    # Which rooms does not depend on the task types that are kept.
    heating = AlfworldEnv(compact, validation_rooms=12, task_types=["pick_heat_then_place_in_recep"])
    assert rooms(heating.tasks("validation")) <= rooms(validation)
    assert "validation" not in env.splits
    with pytest.raises(UnknownName, match="validation"):
        env.tasks("validation")
    with pytest.raises(BadSetting, match="rooms"):
        AlfworldEnv(compact, validation_rooms=500).tasks("train")
