"""Fixtures shared by all tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder with golden records and data, `$HGPO_SHARED` or `../shared` beside the checkout.

    These files are not part of the repository (their licences differ), so the tests that compare with them
    skip where the folder is absent.
    """
    folder = Path(os.environ.get("HGPO_SHARED", ROOT.parent / "shared"))
    if not folder.is_dir():
        pytest.skip(f"golden records not found: {folder} is not a folder (set HGPO_SHARED to where they are)")
    return folder
