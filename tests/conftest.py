"""Fixtures shared by all tests."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


# A shell starts its background jobs with Ctrl-C ignored, nohup what it runs with SIGHUP ignored, and all their children
# inherit that; tests that send these signals need them back.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder with official games, shop data and their golden records: `$HGPO_SHARED`, or `../shared`.

    These files are not part of the repository (their licences differ), so the tests that play them skip where the
    folder is absent. Recorded numbers without texts are in `tests/data` and never skip.
    """
    folder = Path(os.environ.get("HGPO_SHARED", ROOT.parent / "shared"))
    if not folder.is_dir():
        pytest.skip(
            f"needs the games and shop data that cannot travel: {folder} is not a folder (HGPO_SHARED says where)"
        )
    return folder
