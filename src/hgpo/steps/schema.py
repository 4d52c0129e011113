"""Which version of the schema of steps (what the columns mean) a file is in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..errors import BadFile
from ..version import __version__

SCHEMA_VERSION = 1
VERSION_KEY = "hgpo_schema_version"
"""Where a file says it: a key of the first step of JSON lines, of the metadata of Parquet."""


def check_version(version: Any, source: Path) -> None:
    """Refuse a file in a version of the schema that this package does not know.

    Raises:
        BadFile: the file is newer than this package, or its version is no version.
    """
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise BadFile(
            f"{source} says {VERSION_KEY} = {version!r}; expected a whole number from 1. Write the file again, or "
            "remove the key if its columns are those of docs/steps.md."
        )
    if version > SCHEMA_VERSION:
        raise BadFile(
            f"{source} holds steps in version {version} of the schema; this hgpo ({__version__}) reads versions up to "
            f"{SCHEMA_VERSION}. Update hgpo, or write the file again with this version."
        )
