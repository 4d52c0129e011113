"""`hgpo data`: what is here, making it, checking it, and that every other command finds it."""

from __future__ import annotations

import json
import shutil
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hgpo.cli import main
from hgpo.envs import make
from hgpo.envs.household import alfworld_games
from hgpo.envs.household.env import HouseholdEnv
from hgpo.envs.household.export import write_game
from hgpo.envs.webshop.official import SMALL_GOALS
from hgpo.errors import BadSetting

from ..serving import Reply, serving

DOMAIN = "(define (domain made-up))"
GRAMMAR = 'grammar :: """ { "task": [ { "rhs": "Your task is to: UNKNOWN GOAL." } ] } """'
GAMES = Path("data/alfworld/games.jsonl.xz")


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An empty folder to work in and a home without downloads; the made-up rules pass for ALFWorld's."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for variable in ("ALFWORLD_DATA", "HGPO_WEBSHOP_DATA"):
        monkeypatch.delenv(variable, raising=False)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setattr(alfworld_games, "DOMAIN_DIGESTS", (alfworld_games.rules_digest(DOMAIN),))
    monkeypatch.setattr(alfworld_games, "GRAMMAR_DIGESTS", (alfworld_games.rules_digest(GRAMMAR),))
    alfworld_games._domain_known.cache_clear()
    yield
    alfworld_games._domain_known.cache_clear()


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """An archive of two games, as the official one is laid out."""
    houses, folder = HouseholdEnv(size="tiny"), tmp_path / "official"
    for split, index in (("train", 0), ("valid_seen", 7)):
        task = f"tiny/train/{index:05d}"
        place = folder / "json_2.1.1" / split / "pick_and_place_simple-Cup-None-Shelf-2" / "trial_1"
        write_game(houses.house(task), place, DOMAIN, GRAMMAR, houses.walkthrough(task))
    with zipfile.ZipFile(tmp_path / "games.zip", "w") as out:
        for file in folder.rglob("game.tw-pddl"):
            out.write(file, file.relative_to(folder))
    return tmp_path / "games.zip"


def test_what_is_missing_and_where_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data"]) == 0
    shown = capsys.readouterr().out
    assert shown.count("here      no (looked at") == 2
    assert "https://github.com/alfworld/alfworld/releases" in shown
    assert "gdown " in shown
    assert main(["data", "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert content == {name: {"path": None, "there": False} for name in ("alfworld", "webshop")}
    assert main(["data", "check"]) == 2
    assert "`hgpo data` says where" in capsys.readouterr().err
    assert main(["data", "alfworld"]) == 2
    assert "hgpo data alfworld --download" in capsys.readouterr().err
    for name in ("alfworld", "webshop"):
        with pytest.raises(BadSetting, match="`hgpo data` says where"):
            make(name)


def test_games_are_converted_checked_and_found(archive: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "alfworld", str(archive)]) == 1  # two games are not the official set
    shown = capsys.readouterr().out
    assert "2 games (train 1, valid_seen 1)" in shown
    assert "not the official games" in shown
    assert "2 of 2 stored walkthroughs win" in shown
    assert GAMES.is_file()
    env = make("alfworld")
    assert [len(env.tasks(split)) for split in env.splits] == [1, 1]
    assert main(["play", "alfworld", "--policy", "expert"]) == 0
    capsys.readouterr()
    assert main(["data"]) == 0
    assert f"here      {GAMES}, " in capsys.readouterr().out
    assert main(["data", "check", "--json"]) == 1
    checked = json.loads(capsys.readouterr().out)
    assert checked["official"] is False
    assert checked["panels"]["in-domain"]["tasks"] == 1
    # Again: nothing is done, nothing is overwritten.
    before = GAMES.stat().st_mtime_ns
    assert main(["data", "alfworld", str(archive)]) == 0
    assert "is there already" in capsys.readouterr().out
    assert GAMES.stat().st_mtime_ns == before
    assert main(["data", "alfworld", str(archive), "--force"]) == 1
    assert GAMES.stat().st_mtime_ns != before


def test_somebody_elses_file_is_not_overwritten(archive: Path, capsys: pytest.CaptureFixture[str]) -> None:
    GAMES.parent.mkdir(parents=True)
    GAMES.write_text("mine")
    assert main(["data", "alfworld", str(archive)]) == 2
    assert "--force" in capsys.readouterr().err
    assert GAMES.read_text() == "mine"
    assert main(["data", "alfworld", str(archive), "--force", "--out", str(archive)]) == 2
    assert zipfile.is_zipfile(archive)


def test_the_archive_is_fetched(archive: Path, capsys: pytest.CaptureFixture[str]) -> None:
    content = archive.read_bytes()
    with serving(lambda request: Reply(body=content)) as server:
        words = ["data", "alfworld", "--download", "--url", f"{server.url}/games.zip"]
        assert main(words) == 1
        assert [request.path for request in server.requests] == ["/games.zip"]
    assert [path.name for path in GAMES.parent.iterdir()] == [GAMES.name]
    assert "2 games" in capsys.readouterr().out
    assert main(["data", "alfworld", str(archive), "--download", "--force"]) == 2


@pytest.mark.parametrize("mine", [False, True])
def test_a_fetched_archive_goes_away_and_one_that_was_there_stays(archive: Path, mine: bool) -> None:
    kept = GAMES.parent / "games.zip"
    words = ["data", "alfworld", "--force", "--download", "--url"]
    with serving(lambda _: Reply(body=b"<html>Not found</html>")) as server:
        if mine:
            GAMES.parent.mkdir(parents=True)
            kept.write_bytes(archive.read_bytes())
        assert main([*words, f"{server.url}/games.zip"]) == (1 if mine else 2)
        assert kept.exists() == mine
        assert GAMES.exists() == mine
    content = archive.read_bytes()
    with serving(lambda _: Reply(body=content)) as server:
        assert main([*words, f"{server.url}/games.zip", "--keep"]) == 1
        assert kept.read_bytes() == content


def test_the_variable_and_the_official_place_still_work(
    archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["data", "alfworld", str(archive)]) == 1
    shutil.copytree(tmp_path / "official", tmp_path / "home" / ".cache" / "alfworld")
    assert make("alfworld").set.games.path.name == GAMES.name
    GAMES.unlink()
    assert make("alfworld").set.games.path == tmp_path / "home" / ".cache" / "alfworld"
    monkeypatch.setenv("ALFWORLD_DATA", str(tmp_path / "official"))
    assert make("alfworld").set.games.path == tmp_path / "official"
    assert main(["data", "alfworld"]) == 1
    assert GAMES.is_file()


@pytest.fixture
def shop(tmp_path: Path) -> Callable[..., Path]:
    """A folder with the files of a tiny shop."""

    def write(name: str = "A thing") -> Path:
        folder = tmp_path / "files"
        folder.mkdir(exist_ok=True)
        row = {
            "asin": "B000000001",
            "name": name,
            "full_description": "",
            "small_description": [""],
            "pricing": "$12.50",
            "customization_options": "",
            "category": "garden",
            "query": "things",
            "product_category": "Home",
            "images": ["none"],
        }
        (folder / "items_shuffle_1000.json").write_text(json.dumps([row]))
        about = {"attributes": ["soft"], "instruction": "Find me a thing", "instruction_attributes": ["soft"]}
        (folder / "items_ins_v2_1000.json").write_text(json.dumps({"B000000001": about}))
        return folder

    return write


def test_shop_files_are_put_in_place_and_found(
    shop: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    source = str(shop())
    assert main(["data", "webshop", source]) == 1
    shown = capsys.readouterr().out
    assert "not the official small catalogue" in shown
    assert "1 products" in shown
    assert len(make("webshop").catalogue) == 1
    assert main(["data", "webshop", source]) == 1  # the same files: nothing to do
    capsys.readouterr()
    Path("data/webshop/items_shuffle_1000.json").unlink()
    Path("data/webshop/items_shuffle_1000.json").write_text("[]")
    assert main(["data", "webshop", source]) == 2
    assert "is there already and is not" in capsys.readouterr().err
    assert Path("data/webshop/items_shuffle_1000.json").read_text() == "[]"


def test_shop_files_are_copied_where_links_do_not_work(
    shop: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError("no links here")

    monkeypatch.setattr("os.link", refuse)
    source = shop()
    assert main(["data", "webshop", str(source)]) == 1
    for file in source.glob("*.json"):
        copied = Path("data/webshop") / file.name
        assert copied.read_bytes() == file.read_bytes()
        assert not copied.samefile(file)


def test_official_shop_data(shared: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "webshop", str(shared / "webshop")]) == 0
    assert "the official small catalogue" in capsys.readouterr().out
    assert main(["data", "check", "webshop", "--json"]) == 0
    checked = json.loads(capsys.readouterr().out)
    assert (checked["products"], checked["goals"], checked["digest"]) == (1000, 6910, SMALL_GOALS)


@pytest.mark.slow
def test_official_panels_are_those_of_the_recorded_results(
    shared: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    alfworld_games._domain_known.cache_clear()
    compact = shared / "alfworld" / "games_compact.jsonl.xz"
    assert main(["data", "check", "alfworld", str(compact), "--json"]) == 0
    panels = json.loads(capsys.readouterr().out)["panels"]
    results = (Path(__file__).parents[2] / "experiments" / "alfworld" / "results.json").read_text()
    for panel in panels.values():
        assert f'"digest": "{panel["digest"]}"' in results


def test_the_doctor_says_what_is_here(archive: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def games() -> dict[str, str]:
        main(["doctor", "--json"])
        findings = json.loads(capsys.readouterr().out)
        return next(finding for finding in findings if finding["check"] == "ALFWorld's games")

    assert games() | {"found": ""} == {
        "check": "ALFWorld's games",
        "state": "absent",
        "found": "",
        "fix": "hgpo data",
    }
    main(["data", "alfworld", str(archive)])
    capsys.readouterr()
    assert games() == {"check": "ALFWorld's games", "state": "ok", "found": str(GAMES), "fix": ""}
