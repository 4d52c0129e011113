"""The report as a few lines for a person at a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

from .findings import percent
from .text import printable

WIDTH = 110


def terminal(content: Mapping[str, Any]) -> str:
    """The summary, the levels and the findings."""
    return "\n".join(_lines(content))


def _lines(content: Mapping[str, Any]) -> Iterator[str]:
    summary, source = content["summary"], content["source"]
    success = f"success {percent(summary['success'])}, " if "success" in summary else ""
    yield (
        f"{printable(source['name'])}: {_count(summary['steps'], 'step')}, "
        f"{_count(summary['trajectories'], 'trajectory', 'trajectories')}, "
        f"{_count(summary['tasks'], 'task group')}, {_count(summary['iterations'], 'iteration')}; "
        f"{success}mean return {summary['return']:.3g}"
    )
    for name, entry in content["estimators"].items():
        given = ", ".join(f"{key}={value}" for key, value in entry["settings"].items()) or "its defaults"
        yield f"  {name} with {given}: mean |A| {entry['abs_mean']:.3f}, {percent(entry['zero_share'])} exactly zero"
    for note in source["notes"]:
        yield from _wrapped(f"note: {printable(note, 1000)}", "  ")
    yield ""
    yield "  level    groups  mean size  with peers  alone  constant  signal  share of |A|"
    for level in content["levels"]:
        yield (
            f"  {level['level']:>5}  {level['groups']:>8,.0f}  {level['mean_size']:>9.1f}  "
            f"{percent(level['peers_share']):>10}  {percent(level['singleton_share']):>5}  "
            f"{percent(level['constant_share']):>8}  {percent(level['signal_share']):>6}  "
            f"{percent(level['advantage_share']):>12}"
        )
    yield ""
    for finding in content["findings"]:
        mark = "look" if finding["status"] == "look" else "fine"
        yield from _wrapped(f"[{mark}] {finding['name']}: {finding['sentence']}", "       ")
        if finding["status"] == "look":
            yield from _wrapped(f"       -> {finding['suggestion']}", "          ")
    if "compare" in content:
        yield ""
        yield from _compared(content["compare"])


def _compared(compare: Mapping[str, Any]) -> Iterator[str]:
    names = printable(compare["first"], 20), printable(compare["second"], 20)
    for sentence in compare["sentences"]:
        yield from _wrapped(printable(sentence, 400), "  ")
    yield f"  {'':<36}  {names[0]:>20}  {names[1]:>20}  {'difference':>10}"
    for row in compare["numbers"]:
        yield (
            f"  {printable(row['name'], 36):<36}  {row['first']:>20.4g}  {row['second']:>20.4g}  "
            f"{row['difference']:>+10.3g}"
        )


def _count(number: float, noun: str, plural: str = "") -> str:
    return f"{number:,.0f} {noun if number == 1 else plural or noun + 's'}"


def _wrapped(text: str, indent: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, subsequent_indent=indent, break_long_words=False) or [text]
