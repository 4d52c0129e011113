"""The numbers of a study on disk: one JSON document with one record a line, four digits each."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..errors import BadFile

Document = dict[str, Any]
WORLDS_RECORD = "lab.json"
"""The record of the small worlds in a folder; those of engines have the names they were given."""


def rounded(value: Any) -> Any:
    """The same document with four digits: tables and plots are the same from a run and from its file."""
    if isinstance(value, dict):
        return {name: rounded(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [rounded(item) for item in value]
    return float(f"{value:.4g}") if isinstance(value, float) else value


def dump(document: Mapping[str, Any]) -> str:
    """The document as JSON with one record a line."""
    parts = []
    for name, value in document.items():
        if isinstance(value, list):
            lines = ",\n".join(json.dumps(item) for item in value)
            text = f"[\n{lines}\n]" if value else "[]"
        else:
            text = json.dumps(value)
        parts.append(f"{json.dumps(name)}: {text}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def read(path: str | Path) -> Document:
    """Numbers that an earlier run wrote, of small worlds (kind `worlds`) or of an engine (kind `games`)."""
    try:
        with open(path, encoding="utf-8") as file:
            document = json.load(file)
        version, kind = document["schema_version"], document["kind"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BadFile(
            f"Cannot read {path} as numbers of the lab ({error}); expected a file that `hgpo lab --json` wrote."
        ) from error
    if version != 2 or kind not in ("worlds", "games"):
        raise BadFile(f"{path} has schema version {version}; this version reads 2. Measure again.")
    return dict(document)


def records(folder: Path) -> tuple[Document | None, dict[str, Document]]:
    """What a page is made of: the record of the small worlds, and those of engines by name, sorted."""
    known = {
        name: read(folder / f"{name}.json") for name in sorted(path.stem for path in folder.glob("*.json"))
    }
    worlds = known.pop(Path(WORLDS_RECORD).stem, None)
    return worlds, known
