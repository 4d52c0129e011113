"""The data of ALFWorld and WebShop: what is here, where to get it, convert it, check it.

    hgpo data                                    what is here, and what to do about the rest
    hgpo data alfworld --download                fetch the official games and convert them
    hgpo data alfworld json_2.1.2_tw-pddl.zip    convert what you have: the archive or an unpacked folder
    hgpo data webshop FOLDER                     put the official files in their place and index them
    hgpo data check                              counts, digests and panels of what is here

Games go to data/alfworld/games.jsonl.xz and the shop's files to data/webshop. Every other command finds them there
when it runs in the same folder, without `env.data=`. Nothing but the generated worlds is needed to begin:
`hgpo train quickstart` and `hgpo train shop` use no data.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ._options import path_word

if TYPE_CHECKING:
    from ..envs import TextEnv

ALFWORLD_URL = "https://github.com/alfworld/alfworld/releases/download/0.4.0/json_2.1.2_tw-pddl.zip"
"""The text games alone; `alfworld-download` fetches these and gigabytes for other engines."""
LARGEST_DOWNLOAD = 4 << 30
# setup.sh of princeton-nlp/WebShop: what the published runs use.
WEBSHOP_FILES = {
    "items_shuffle_1000.json": "1EgHdxQ_YxqIQlvvq5iKlCrkEKR6-j0Ib",
    "items_ins_v2_1000.json": "1IduG0xl544V_A_jv3tHXC0kyFi7PnyBu",
    "items_shuffle.json": "1A2whVgOO0euk5O13n2iYDM0bQRkkRduB",
    "items_ins_v2.json": "1s2j6NgHljiZzQNL3veZaAiyW_qDEgBNi",
    "items_human_ins.json": "14Kb5SPBk_jfdLZ_CDBNitW98QLDlKR5O",
}
"""The official files and their names on Google Drive."""
SMALL = ("items_shuffle_1000.json", "items_ins_v2_1000.json", "items_human_ins.json")
SHORT = {
    "pick_and_place_simple": "place",
    "look_at_obj_in_light": "light",
    "pick_clean_then_place_in_recep": "clean",
    "pick_heat_then_place_in_recep": "heat",
    "pick_cool_then_place_in_recep": "cool",
    "pick_two_obj_and_place": "two",
}
SHOWN = 5
NAMES = ("alfworld", "webshop")


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--json", action="store_true", help="print what is here as JSON")
    commands = parser.add_subparsers(dest="what", metavar="WHAT")
    games = commands.add_parser("alfworld", help="make the compact file of ALFWorld's games")
    games.add_argument(
        "source",
        nargs="?",
        type=path_word,
        metavar="ARCHIVE|FOLDER",
        help="the official download (default: $ALFWORLD_DATA, else ~/.cache/alfworld)",
    )
    games.add_argument("--download", action="store_true", help="fetch the official archive first")
    games.add_argument(
        "--url", default=ALFWORLD_URL, help="where --download fetches it (default: %(default)s)"
    )
    games.add_argument("--keep", action="store_true", help="keep the archive that --download fetched")
    games.add_argument(
        "--out",
        type=path_word,
        metavar="FILE",
        help="default: data/alfworld/games.jsonl.xz, where it is found",
    )
    games.add_argument("--force", action="store_true", help="make the file again where it is there")
    shop = commands.add_parser("webshop", help="put WebShop's files in their place and index them")
    shop.add_argument(
        "source",
        nargs="?",
        type=path_word,
        metavar="FOLDER",
        help="where the official files are (default: data/webshop itself)",
    )
    shop.add_argument("--size", choices=("small", "full"), help="which set, where the folder has both")
    shop.add_argument(
        "--out", type=path_word, metavar="FOLDER", help="default: data/webshop, where they are found"
    )
    check = commands.add_parser("check", help="counts, digests and panels of what is here")
    check.add_argument("name", nargs="?", choices=NAMES, help="only this one")
    check.add_argument(
        "path", nargs="?", type=path_word, metavar="PATH", help="another place than the default"
    )
    # Not `json` again: a default of the inner parser would undo `hgpo data --json check`.
    check.add_argument("--json", action="store_true", dest="json_check", help="print the result as JSON")


def run(args: argparse.Namespace) -> int:
    """Do what was asked."""
    if args.what == "alfworld":
        return _alfworld(args)
    if args.what == "webshop":
        return _webshop(args)
    if args.what == "check":
        return _check(args.name, args.path, args.json or args.json_check)
    return _status(args.json)


# What is here


def _status(as_json: bool) -> int:
    from ..envs.places import alfworld_data, webshop_data

    places = {"alfworld": alfworld_data(), "webshop": webshop_data()}
    if as_json:
        content = {
            name: {"path": str(path) if path else None, "there": bool(path and path.exists())}
            for name, path in places.items()
        }
        print(json.dumps(content))
        return 0
    print("ALFWorld: 4,027 household games, played by the native engine (env alfworld)")
    print(f"  here      {_place(places['alfworld'], ALFWORLD_PLACES)}")
    for line in alfworld_help():
        print(line)
    print("WebShop: a shop of 1,000 products, or of all 1.18 million (env webshop)")
    print(f"  here      {_place(places['webshop'], WEBSHOP_PLACES)}")
    for line in webshop_help():
        print(line)
    print("`hgpo data check` reads all of it: counts, digests, panels.")
    return 0


ALFWORLD_PLACES = "$ALFWORLD_DATA, data/alfworld/games.jsonl.xz and ~/.cache/alfworld"
WEBSHOP_PLACES = "$HGPO_WEBSHOP_DATA and data/webshop"


def _place(path: Path | None, places: str) -> str:
    if path is None:
        return f"no (looked at {places})"
    if not path.exists():
        return f"no: {path}, which the environment variable names, does not exist"
    return f"{path}, {_megabytes(path)}" if path.is_file() else f"{path}{os.sep}"


def _megabytes(path: Path) -> str:
    size = path.stat().st_size
    return f"{size / 1e6:.1f} MB" if size >= 1e6 else f"{size / 1e3:.0f} kB"


def alfworld_help() -> Iterator[str]:
    """How to get the games."""
    archive = ALFWORLD_URL.rpartition("/")[2]
    yield "  get it    hgpo data alfworld --download"
    yield f"            or: curl -LO {ALFWORLD_URL}"
    yield f"                hgpo data alfworld {archive}"
    yield "            or: pip install alfworld==0.4.2 && alfworld-download && hgpo data alfworld"


def webshop_help() -> Iterator[str]:
    """How to get the files of the small set."""
    yield "  get it    pip install gdown && mkdir -p data/webshop && cd data/webshop"
    for name in SMALL:
        yield f"            gdown {WEBSHOP_FILES[name]}    # {name}"
    yield "            cd ../.. && hgpo data webshop"
    full = ", ".join(f"{name} {key}" for name, key in WEBSHOP_FILES.items() if name not in SMALL)
    yield f"            all products: {full}"


# Make


def _alfworld(args: argparse.Namespace) -> int:
    from ..envs.household.alfworld_convert import convert, open_download
    from ..envs.places import ALFWORLD_CACHE, ALFWORLD_DATA, ALFWORLD_FILE
    from ..errors import BadFile, BadSetting
    from ..files import check_outputs

    target = Path(args.out or ALFWORLD_FILE)
    if args.source and args.download:
        raise BadSetting(f"{args.source} and --download were given; expected one of them.")
    if os.path.lexists(target) and not args.force:
        return _say_there(target)
    source = Path(args.source or os.environ.get(ALFWORLD_DATA) or ALFWORLD_CACHE).expanduser()
    if not args.source and not args.download and not source.exists():
        raise BadFile(
            f"There is no official download in {source}. Fetch it with `hgpo data alfworld --download`, or name it: "
            "hgpo data alfworld ARCHIVE|FOLDER. `hgpo data` lists all ways."
        )
    if args.out is None:
        target.parent.mkdir(parents=True, exist_ok=True)
    check_outputs({"--out": target}, [] if args.download else [source])
    with _archive(args, target.parent) if args.download else contextlib.nullcontext(source) as found:
        done = convert(open_download(found), target)
    counts = ", ".join(f"{folder} {number:,}" for folder, number in done.games.items())
    print(f"{target}: {sum(done.games.values()):,} games ({counts}), {_megabytes(target)}")
    if done.not_played:
        print(f"{done.not_played:,} games were left out, as the official environment does")
    return _show_games(target, as_json=False)


def _say_there(target: Path) -> int:
    from ..envs.household.alfworld_games import CompactGames
    from ..errors import BadFile

    try:
        games = CompactGames(target)
    except BadFile as error:
        raise BadFile(f"{error} (--force makes it again in its place.)") from error
    counts = ", ".join(f"{folder} {len(games.tasks(folder)):,}" for folder in games.folders())
    print(f"{target} is there already: {counts}. --force makes it again.")
    return 0


@contextlib.contextmanager
def _archive(args: argparse.Namespace, folder: Path) -> Iterator[Path]:
    """The archive that --download fetches; gone afterwards unless it was there before or is to be kept."""
    from ..download import download
    from ..errors import BadFile

    path = folder / (Path(args.url).name or "download.zip")
    before = os.path.lexists(path)
    download(args.url, path, LARGEST_DOWNLOAD)
    keep = before or args.keep
    try:
        yield path
    except BadFile:
        keep = before  # what came is no archive of games; the next attempt fetches it anew
        raise
    finally:
        if not keep:
            path.unlink()


def _webshop(args: argparse.Namespace) -> int:
    from ..envs.places import WEBSHOP_FOLDER
    from ..envs.webshop.official import fill

    target = Path(args.out or WEBSHOP_FOLDER)
    if args.source:
        for file in fill(Path(args.source).expanduser(), target, args.size):
            print(f"{file}: {_megabytes(file)}")
    return _show_shop(target, as_json=False, size=args.size)


# Check


def _check(name: str | None, path: str | None, as_json: bool) -> int:
    from ..envs.places import alfworld_data, webshop_data
    from ..errors import BadFile

    places = {"alfworld": alfworld_data(), "webshop": webshop_data()}
    if path is not None and name is not None:
        places[name] = Path(path).expanduser()
    wanted = [name] if name else [one for one in NAMES if places[one] is not None]
    if not wanted:
        raise BadFile(
            "There is neither ALFWorld's nor WebShop's data here. `hgpo data` says where to get both."
        )
    status = 0
    for one in wanted:
        place = places[one]
        if place is None:
            raise BadFile(f"There is no data of {one} here. `hgpo data` says where to get it.")
        status |= (_show_games if one == "alfworld" else _show_shop)(place, as_json)
    return status


def _show_games(path: Path, as_json: bool) -> int:
    from ..envs import make
    from ..envs.household.alfworld_check import check_games

    checked = check_games(path)
    differences = list(checked.differences())
    env = make("alfworld", data=path)
    panels = _panels("alfworld", env, ("in-domain", "out-of-domain"), 50)
    if as_json:
        content: dict[str, Any] = {
            "name": "alfworld",
            "path": str(path),
            "games": {folder: dict(kinds) for folder, kinds in checked.games.items()},
            "digest": checked.digest,
            "official": checked.official,
            "differences": differences,
            "lost": list(checked.lost),
            "panels": panels,
        }
        print(json.dumps(content))
    else:
        official = "the official games" if checked.official else "not the official games"
        print(f"ALFWorld in {path}: {official} (digest {checked.digest[:16]})")
        for difference in differences:
            print(f"  differs   {difference}")
        for folder, kinds in checked.games.items():
            shown = ", ".join(f"{SHORT.get(kind, kind)} {number:,}" for kind, number in kinds.items())
            print(f"  {folder:<13} {sum(kinds.values()):>5,}  {shown}")
        print(
            f"  solutions {checked.total - len(checked.lost):,} of {checked.total:,} stored walkthroughs win"
        )
        for reason in checked.lost[:SHOWN]:
            print(f"            {reason}")
        _print_panels(panels)
    return 0 if checked.official and not checked.lost else 1


def _show_shop(folder: Path, as_json: bool, size: str | None = None) -> int:
    from ..envs.webshop.official import check_catalogue

    checked = check_catalogue(folder, size)
    panels = _shop_panels(folder, size)
    if as_json:
        content = {
            "name": "webshop",
            "path": str(folder),
            "products": checked.products,
            "goals": checked.goals,
            "human_goals": checked.human_goals,
            "digest": checked.digest,
            "official": checked.official,
            "panels": panels,
        }
        print(json.dumps(content))
    else:
        known = {
            True: "the official small catalogue",
            False: "not the official small catalogue",
            None: "a larger catalogue, of which no digest was recorded",
        }
        print(f"WebShop in {folder}: {known[checked.official]} (digest {checked.digest[:16]})")
        print(
            f"  {checked.products:,} products, {checked.goals:,} goals, {checked.human_goals:,} written by people; "
            f"index in {checked.store}"
        )
        _print_panels(panels)
    return 1 if checked.official is False else 0


def _shop_panels(folder: Path, size: str | None) -> dict[str, dict[str, Any]]:
    """The panel of the test goals; none without rapidfuzz, which playing needs and looking does not."""
    from ..envs import make
    from ..errors import MissingExtra

    try:
        env = make("webshop", data=folder, size=size)
    except (ImportError, MissingExtra):
        return {}
    return _panels("webshop", env, ("in-domain",), 15)


def _panels(name: str, env: TextEnv, splits: tuple[str, ...], max_steps: int) -> dict[str, dict[str, Any]]:
    """The panels as a run with the published step limit has them."""
    from ..errors import HgpoError
    from ..runs.panels import Panel

    panels: dict[str, dict[str, Any]] = {}
    for split in splits:
        try:
            panel = Panel(name, split, tuple(env.tasks(split)), max_steps)
        except HgpoError:  # a split without games
            continue
        panels[split] = {"tasks": len(panel.tasks), "max_steps": max_steps, "digest": panel.digest}
    return panels


def _print_panels(panels: dict[str, dict[str, Any]]) -> None:
    for split, panel in panels.items():
        print(
            f"  panel     {split}: {panel['tasks']} tasks, {panel['max_steps']} steps, digest {panel['digest']}"
        )
