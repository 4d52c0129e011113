"""What our code inside verl says to the terminal from which the run was launched.

Ray relays what its processes print, among hundreds of lines of others. Ours carry a mark; `narration` picks them out.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

MARK = "hgpo> "
ROW = "row "


def say(text: str) -> None:
    """A line for the terminal."""
    print(f"{MARK}{text}", flush=True)


def say_row(row: Mapping[str, Any]) -> None:
    """The numbers of an iteration, as they were written to metrics.jsonl."""
    say(f"{ROW}{json.dumps(row)}")


def heard(line: str) -> str:
    """What our code said in a line of verl's output; empty when it is another's."""
    return line.partition(MARK)[2].strip()
