"""Digests that show whether a file is still the one that was written.

They find damage and mix-ups: a flipped bit, a file of another run, an edit by hand. They are no signature: who wants to
deceive can write new ones.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from .errors import BadFile

DIGEST = "digest"
"""The key under which a JSON file holds the digest of everything else in it."""
_PIECE = 1 << 20


def file_digest(path: Path) -> str:
    """The sha256 of a file, as `sha256sum` prints it."""
    state = hashlib.sha256()
    with open(path, "rb") as content:
        while piece := content.read(_PIECE):
            state.update(piece)
    return state.hexdigest()


def content_digest(content: Any) -> str:
    """The sha256 of a JSON value, whatever the order of its keys."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def sealed(content: Mapping[str, Any]) -> dict[str, Any]:
    """A JSON object with the digest of itself."""
    # As it will be read again: tuples are lists, keys are text.
    plain = json.loads(json.dumps(content))
    return {**plain, DIGEST: content_digest(plain)}


def unsealed(content: Mapping[str, Any], path: Path, fix: str = "Restore it from a copy") -> dict[str, Any]:
    """What `sealed` was given; an object without a digest (of an earlier version) comes back as it is.

    Raises:
        BadFile: the content is not what was written.
    """
    rest = {key: value for key, value in content.items() if key != DIGEST}
    if DIGEST in content and content[DIGEST] != content_digest(rest):
        raise BadFile(
            f"{path} is not what was written: its content does not have the digest that it names. It was edited or "
            f"damaged. {fix}."
        )
    return rest


def digests(folder: Path, leave: Iterable[str] = ()) -> dict[str, str]:
    """The digest of every file below a folder by its path there, but those named in `leave`."""
    left = set(leave)
    names = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    return {name: file_digest(folder / name) for name in names if name not in left}


def check_files(folder: Path, expected: Mapping[str, str], fix: str = "Restore it from a copy") -> None:
    """Compare files with their digests.

    Raises:
        BadFile: one is missing or not what was written; names it.
    """
    for name, digest in expected.items():
        path = folder / name
        if not os.path.lexists(path):
            raise BadFile(f"{path} is missing. {fix}.")
        try:
            present = file_digest(path)
        except OSError as error:
            raise BadFile(f"{path} cannot be read: {error.strerror}. {fix}.") from error
        if present != digest:
            raise BadFile(
                f"{path} is not the file that was written (sha256 {present[:12]}..., expected {digest[:12]}...): it "
                f"was damaged, edited or swapped. {fix}."
            )
