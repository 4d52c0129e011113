"""The programs in docs/trl.md, by their first line."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "trl.md"


def program(start: str) -> str:
    """The one block of Python whose first line begins with `# start`."""
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    (found,) = [block for block in blocks if block.startswith(f"# {start}")]
    return found


def defined(start: str, name: str) -> object:
    """What a recipe defines under `name`."""
    space: dict[str, object] = {}
    exec(compile(program(start), f"{PAGE.name}: {start}", "exec"), space)
    return space[name]
