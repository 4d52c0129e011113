"""Markdown tables."""

from __future__ import annotations


def table(head: list[str], rows: list[list[str]], texts: int = 1) -> str:
    """The first columns are text, the others numbers."""
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * texts + " ---: |" * (len(head) - texts)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])
