"""The compact file made from the official download: the same games, from a folder or an archive, trusted in nothing."""

from __future__ import annotations

import json
import lzma
import os
import zipfile
from pathlib import Path
from typing import Any

import pytest

from hgpo.envs import make
from hgpo.envs.household import alfworld_convert, alfworld_games
from hgpo.envs.household.alfworld_check import OFFICIAL_DIGEST, check_games
from hgpo.envs.household.alfworld_convert import convert, open_download
from hgpo.envs.household.env import HouseholdEnv
from hgpo.envs.household.export import write_game
from hgpo.errors import BadFile

DOMAIN = "(define (domain made-up))"
GRAMMAR = 'grammar :: """ { "task": [ { "rhs": "Your task is to: UNKNOWN GOAL." } ] } """'
ROOT = "json_2.1.1"


@pytest.fixture(autouse=True)
def made_up_rules(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the made-up domain and grammar pass for ALFWorld's, which cannot travel with the tests."""
    alfworld_games._domain_known.cache_clear()
    if "shared" not in request.fixturenames:
        monkeypatch.setattr(alfworld_games, "DOMAIN_DIGESTS", (alfworld_games.rules_digest(DOMAIN),))
        monkeypatch.setattr(alfworld_games, "GRAMMAR_DIGESTS", (alfworld_games.rules_digest(GRAMMAR),))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A small download: four games that count, three that the official environment leaves out, one of no split."""
    houses = HouseholdEnv(size="tiny")
    place = tmp_path / "download"
    games = {
        "valid_seen/pick_and_place_simple-Mug-None-Shelf-1/trial_9": 7,
        "train/pick_and_place_simple-Cup-None-Shelf-2/trial_2": 1,
        "train/pick_and_place_simple-Cup-None-Shelf-2/trial_1": 0,
        "train/look_at_obj_in_light-Cd-None-DeskLamp-3/trial_1": 2,
        "train/pick_and_place_with_movable_recep-Cup-Pan-Shelf-2/trial_1": 3,
        "train/pick_and_place_simple-AppleSliced-None-Shelf-2/trial_1": 4,
        "tests_seen/pick_and_place_simple-Cup-None-Shelf-2/trial_1": 5,
    }
    for game, index in games.items():
        task = f"tiny/train/{index:05d}"
        write_game(houses.house(task), place / ROOT / game, DOMAIN, GRAMMAR, houses.walkthrough(task))
    unsolvable = place / ROOT / "train/pick_and_place_simple-Pen-None-Desk-4/trial_1"
    write_game(houses.house("tiny/train/00006"), unsolvable, DOMAIN, GRAMMAR)
    change(unsolvable, solvable=False)
    return place


def change(game: Path, **changes: Any) -> None:
    file = game / "game.tw-pddl"
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))


def zipped(folder: Path, archive: Path) -> Path:
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as out:
        for file in sorted(folder.rglob("*"), reverse=True):
            if file.is_file():
                out.write(file, file.relative_to(folder).as_posix())
    return archive


def test_the_file_holds_the_games_of_the_folder(folder: Path, tmp_path: Path) -> None:
    target = tmp_path / "new" / "games.jsonl.xz"
    done = convert(open_download(folder), target)
    assert done.games == {"train": 3, "valid_seen": 1}
    assert done.not_played == 3
    compact, official = make("alfworld", data=target), make("alfworld", data=folder)
    assert compact.splits == official.splits == ("train", "in-domain")
    for split in official.splits:
        assert list(compact.tasks(split)) == list(official.tasks(split))
        for task in official.tasks(split):
            assert compact.reset(task) == official.reset(task)
            assert compact.walkthrough(task) == official.walkthrough(task)
            assert compact.set.games.game(task) == official.set.games.game(task)
    checked = check_games(target)
    assert checked == check_games(folder)
    assert checked.lost == ()
    assert not checked.official
    assert next(checked.differences()) == "train has 3 games, the official split 3,553"


def test_archive_and_folder_give_the_same_bytes(folder: Path, tmp_path: Path) -> None:
    sources = [
        folder,
        folder / ROOT,
        zipped(folder, tmp_path / "a.zip"),
        zipped(folder / ROOT, tmp_path / "b.zip"),
    ]
    files = [tmp_path / f"{number}.xz" for number in range(len(sources))]
    for source, file in zip(sources, files):
        convert(open_download(source), file)
    assert len({file.read_bytes() for file in files}) == 1


def test_a_check_names_games_that_are_not_won(folder: Path) -> None:
    game = folder / ROOT / "train/look_at_obj_in_light-Cd-None-DeskLamp-3/trial_1"
    before = check_games(folder)
    change(game, walkthrough=["look"])
    checked = check_games(folder)
    assert [reason.partition(":")[0] for reason in checked.lost] == [
        game.relative_to(folder / ROOT).as_posix()
    ]
    assert checked.digest != before.digest
    (game / "game.tw-pddl").write_text("{")
    assert "cannot be read" in check_games(folder).lost[0]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"pddl_domain": None}, "no text under 'pddl_domain'"),
        ({"walkthrough": "look"}, "no list of commands"),
        ({"walkthrough": [1]}, "no list of commands"),
        ({"grammar": "nothing"}, "no task sentence"),
        ({"pddl_domain": "(define (domain other))"}, "is not that of ALFWorld 0.4"),
        ({"grammar": GRAMMAR.replace("UNKNOWN GOAL.", r"say \"hi\".")}, "cannot be held"),
        ({"junk": "x" * 1000}, "more than 0 MB for one game"),
    ],
)
def test_a_damaged_game_is_named_and_nothing_written(
    folder: Path, tmp_path: Path, changes: dict[str, Any], reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "junk" in changes:
        largest = max(file.stat().st_size for file in folder.rglob("game.tw-pddl"))
        monkeypatch.setattr(alfworld_convert, "MAX_GAME", largest + 500)
    game = folder / ROOT / "train/pick_and_place_simple-Cup-None-Shelf-2/trial_1"
    change(game, **({"junk": "x" * (largest + 500)} if "junk" in changes else changes))
    target = tmp_path / "out" / "games.xz"
    for source in (folder, zipped(folder, tmp_path / "a.zip")):
        with pytest.raises(BadFile, match=reason) as caught:
            convert(open_download(source), target)
        assert "pick_and_place_simple-Cup-None-Shelf-2/trial_1" in str(caught.value)
    assert not target.exists()
    assert not any(tmp_path.rglob("*.part"))


def test_an_earlier_file_stays_when_a_conversion_fails(folder: Path, tmp_path: Path) -> None:
    target = tmp_path / "games.xz"
    convert(open_download(folder), target)
    before = target.read_bytes()
    (folder / ROOT / "valid_seen/pick_and_place_simple-Mug-None-Shelf-1/trial_9/game.tw-pddl").write_bytes(
        b"\xff{"
    )
    with pytest.raises(BadFile):
        convert(open_download(folder), target)
    assert target.read_bytes() == before


@pytest.mark.parametrize(
    "name",
    [f"train/{place}/game.tw-pddl" for place in ("../x", ".hidden/trial", "a b/trial", "a/b\n")],
)
def test_names_that_lead_elsewhere_are_refused(tmp_path: Path, name: str) -> None:
    archive = tmp_path / "a.zip"
    with zipfile.ZipFile(archive, "w") as out:
        out.writestr(name, "{}")
    with pytest.raises(BadFile, match=r"expected train/<name>/<trial>/game\.tw-pddl"):
        open_download(archive)


def test_archives_are_read_in_place(folder: Path, tmp_path: Path) -> None:
    """Whatever else an archive holds, and wherever it would unpack to, is not touched."""
    (tmp_path / "in").mkdir()
    archive = zipped(folder, tmp_path / "in" / "a.zip")
    with zipfile.ZipFile(archive, "a") as out:
        out.writestr("../../escaped.txt", "x")
        out.writestr("/absolute.txt", "x")
    before = set(tmp_path.rglob("*"))
    convert(open_download(archive), tmp_path / "games.xz")
    assert set(tmp_path.rglob("*")) - before == {tmp_path / "games.xz"}


def test_a_game_that_is_there_twice_is_refused(folder: Path, tmp_path: Path) -> None:
    archive = zipped(folder, tmp_path / "a.zip")
    with zipfile.ZipFile(archive, "a") as out:
        out.writestr("other/train/look_at_obj_in_light-Cd-None-DeskLamp-3/trial_1/game.tw-pddl", "{}")
    with pytest.raises(BadFile, match="twice"):
        open_download(archive)


def test_an_archive_that_unpacks_to_far_too_much_is_refused(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alfworld_convert, "MAX_HELD", 100)
    with pytest.raises(BadFile, match="too large"):
        convert(open_download(folder), tmp_path / "games.xz")
    monkeypatch.setattr(alfworld_convert, "MAX_GAMES", 2)
    with pytest.raises(BadFile, match="expected 2 at most"):
        convert(open_download(folder), tmp_path / "games.xz")


def test_things_that_are_no_download(tmp_path: Path) -> None:
    (tmp_path / "text.zip").write_text("no archive")
    with zipfile.ZipFile(tmp_path / "empty.zip", "w"):
        pass
    (tmp_path / "empty").mkdir()
    for name, reason in {
        "nowhere": "does not exist",
        "text.zip": "cannot be read as a zip",
        "empty.zip": "holds no games",
        "empty": "holds none of train",
    }.items():
        with pytest.raises(BadFile, match=reason):
            convert(open_download(tmp_path / name), tmp_path / "games.xz")
    os.mkfifo(tmp_path / "pipe")
    place = tmp_path / "piped" / "train" / "a" / "b"
    place.mkdir(parents=True)
    os.mkfifo(place / "game.tw-pddl")
    with pytest.raises(BadFile, match="not a regular file"):
        convert(open_download(tmp_path / "piped"), tmp_path / "games.xz")


@pytest.mark.parametrize("every", [40, pytest.param(1, marks=pytest.mark.slow)])
def test_official_games_come_out_as_they_were_recorded(shared: Path, tmp_path: Path, every: int) -> None:
    """The compact file of the shared material, laid out as the download and converted: the same lines."""
    with lzma.open(shared / "alfworld" / "games_compact.jsonl.xz") as lines:
        header, *rows = list(lines)
    known = json.loads(header)
    some = rows[::every]
    archive = tmp_path / "json_2.1.2_tw-pddl.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as out:
        for row in reversed(some):
            game = json.loads(row)
            sentence = f"Your task is to: {game['task']}"
            content = {
                "pddl_domain": known["domains"][game["domain"]],
                "grammar": known["grammars"][game["grammar"]].replace(
                    "Your task is to: UNKNOWN GOAL.", sentence
                ),
                "pddl_problem": game["problem"],
                "solvable": game["solvable"],
                "walkthrough": game["walkthrough"],
            }
            out.writestr(
                f"{ROOT}/{game['split']}/{game['name']}/{game['trial']}/game.tw-pddl", json.dumps(content)
            )
    target = tmp_path / "games.jsonl.xz"
    convert(open_download(archive), target)
    with lzma.open(target) as lines:
        assert list(lines) == [header, *some]
    checked = check_games(target)
    assert checked.lost == ()
    assert checked.total == len(some)
    assert (checked.digest == OFFICIAL_DIGEST) == checked.official == (every == 1)
    assert (list(checked.differences()) == []) == (every == 1)
