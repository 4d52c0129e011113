"""Where the data of ALFWorld and WebShop lies: one default place each, below `data/`, and a variable for others."""

from __future__ import annotations

import os
from pathlib import Path

ALFWORLD_FILE = Path("data") / "alfworld" / "games.jsonl.xz"
"""The compact file that `hgpo data alfworld` makes."""
ALFWORLD_DATA = "ALFWORLD_DATA"
"""The variable by which ALFWorld's own tools name the folder of the download."""
ALFWORLD_CACHE = Path("~/.cache/alfworld")
"""Where `alfworld-download` puts the games when nobody says otherwise."""
WEBSHOP_FOLDER = Path("data") / "webshop"
"""The folder that `hgpo data webshop` fills."""
WEBSHOP_DATA = "HGPO_WEBSHOP_DATA"


def alfworld_data() -> Path | None:
    """The games where no `data=` was given.

    `$ALFWORLD_DATA`; else `data/alfworld/games.jsonl.xz` of the current folder; else the official download where
    `alfworld-download` puts it; None where none of them is there.
    """
    named = os.environ.get(ALFWORLD_DATA)
    if named:
        return Path(named)
    if ALFWORLD_FILE.is_file():
        return ALFWORLD_FILE
    cache = ALFWORLD_CACHE.expanduser()
    return cache if any(cache.glob("json_*/*/*/*/game.tw-pddl")) else None


def webshop_data() -> Path | None:
    """The folder of the shop's files where no `data=` was given: `$HGPO_WEBSHOP_DATA`, else `data/webshop`; or None."""
    named = os.environ.get(WEBSHOP_DATA)
    if named:
        return Path(named)
    return WEBSHOP_FOLDER if any(WEBSHOP_FOLDER.glob("items_shuffle*.json")) else None
