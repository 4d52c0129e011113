"""Damage on purpose, the same on every machine: what `test_fuzz.py` does to settings, files, folders and replies."""

from __future__ import annotations

import json
import random
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hgpo.config import Config, EstimatorConfig
from hgpo.config.tree import section
from hgpo.estimators.table import ESTIMATORS
from hgpo.settings import Setting, settings_of

# Settings

WORDS = (
    "nan",
    "inf",
    "-inf",
    "-1",
    "0",
    "1.5",
    "1e308",
    "9" * 40,
    "9" * 5000,
    "",
    "text",
    "true",
    "none",
    "[]",
    "[nan,-1]",
    '{"a": 1}',
    '{"a": NaN}',
    "[" * 5000,
    "\x00",
)
"""What is written after `key=`."""

VALUES: tuple[Any, ...] = (
    float("nan"),
    float("inf"),
    -float("inf"),
    -1,
    0,
    1.5,
    10**400,
    -(10**400),
    "",
    "text",
    "\ud800",
    b"bytes",
    True,
    None,
    [],
    [float("nan")],
    [[1]],
    {},
    {"a": 1},
    {"a": float("nan")},
    {1: 2},
    1j,
    object(),
)
"""What a program gives."""


def fields() -> Iterator[tuple[str, tuple[str, ...], Setting]]:
    """Every setting: the estimator it needs (empty: any), where it stands in a tree, and what is known about it."""
    for name, one in settings_of(Config).items():
        yield "", (name,), one
        if section(name) is not None:
            yield from (("", (name, inner), deep) for inner, deep in settings_of(section(name)).items())
    for name, entry in ESTIMATORS.items():
        # A setting that the section has too (the penalty) is the section's.
        own = [
            pair
            for pair in settings_of(entry.settings).items()
            if pair[0] not in settings_of(EstimatorConfig)
        ]
        yield from ((name, ("estimator", "settings", inner), one) for inner, one in own)


# Bytes

Mutation = Callable[[bytes, random.Random], bytes]


def _delete(content: bytes, dice: random.Random) -> bytes:
    start = dice.randrange(len(content))
    return content[:start] + content[start + dice.randint(1, 20) :]


def _truncate(content: bytes, dice: random.Random) -> bytes:
    return content[: dice.randrange(len(content))]


def _flip(content: bytes, dice: random.Random) -> bytes:
    changed = bytearray(content)
    changed[dice.randrange(len(content))] ^= 1 << dice.randrange(8)
    return bytes(changed)


def _zeros(content: bytes, dice: random.Random) -> bytes:
    start = dice.randrange(len(content))
    return content[:start] + bytes(dice.randint(1, 8)) + content[start + dice.randint(0, 8) :]


def _double(content: bytes, dice: random.Random) -> bytes:
    start = dice.randrange(len(content))
    return content[:start] + content[start : start + 200] + content[start:]


def _noise(content: bytes, dice: random.Random) -> bytes:
    start = dice.randrange(len(content))
    return content[:start] + dice.randbytes(8) + content[start + 8 :]


BYTES: tuple[Mutation, ...] = (_delete, _truncate, _flip, _zeros, _double, _noise)

JUNK = (
    b"NaN",
    b"-Infinity",
    b"1e999",
    b"1e200",
    b"-1",
    b"9" * 400,
    b"9" * 6000,
    b"9223372036854775808",
    b"null",
    b"true",
    b'""',
    b'"\\ud800"',
    b'"\\u0000"',
    b'"\xff"',
    b"[]",
    b"[0]",
    b"{}",
    b'{"a": [1]}',
    b"[" * 6000,
    b"0x10",
    b"",
)
"""What stands in the place of a JSON value."""

_VALUE = re.compile(rb'(?<=: )("[^"]*"|-?[\d.]+|true|false|null)')


def _junk(content: bytes, dice: random.Random) -> bytes:
    found = dice.choice(list(_VALUE.finditer(content)))
    return content[: found.start()] + dice.choice(JUNK) + content[found.end() :]


def _junk_everywhere(content: bytes, dice: random.Random) -> bytes:
    """The same junk in one column of every row."""
    names = sorted(set(re.findall(rb'"(\w+)": ', content)))
    name, junk = dice.choice(names), dice.choice(JUNK)
    return re.sub(rb'("' + name + rb'": )("[^"]*"|-?[\d.]+|true|false|null)', lambda m: m[1] + junk, content)


def _swap_lines(content: bytes, dice: random.Random) -> bytes:
    lines = content.splitlines(keepends=True)
    dice.shuffle(lines)
    return b"".join(lines)


def _repeat_line(content: bytes, dice: random.Random) -> bytes:
    lines = content.splitlines(keepends=True)
    return b"".join([*lines, dice.choice(lines)])


def _lose_line(content: bytes, dice: random.Random) -> bytes:
    lines = content.splitlines(keepends=True)
    lines.pop(dice.randrange(len(lines)))
    return b"".join(lines)


def _rename(content: bytes, dice: random.Random) -> bytes:
    names = sorted(set(re.findall(rb'"(\w+)": ', content)))
    return content.replace(b'"' + dice.choice(names) + b'": ', b'"' + dice.choice(names) + b'": ')


LINES: tuple[Mutation, ...] = (
    *BYTES,
    _junk,
    _junk,
    _junk_everywhere,
    _junk_everywhere,
    _swap_lines,
    _repeat_line,
    _lose_line,
    _rename,
)


@dataclass(frozen=True)
class StepFile:
    """One damaged file of steps."""

    kind: str
    """The ending of its name."""
    number: int

    def damaged(self, content: bytes) -> bytes:
        """`content` with this damage; by turns every kind of it."""
        dice = random.Random(f"{self.kind} {self.number}")
        mutations = LINES if self.kind == "jsonl" else BYTES
        return mutations[self.number % len(mutations)](content, dice)


STEP_FILES = tuple(
    StepFile(kind, number)
    for kind, count in (("jsonl", 280), ("jsonl.gz", 60), ("parquet", 180))
    for number in range(count)
)
COLUMNS = (
    "task",
    "trajectory",
    "step",
    "observation",
    "reward",
    "done",
    "valid",
    "success",
    "padding",
    "iteration",
)


@dataclass(frozen=True)
class StepValue:
    """Junk in one column of a file of steps: in its third row, or in all."""

    column: str
    junk: bytes
    all_rows: bool

    def damaged(self, rows: list[dict[str, Any]]) -> bytes:
        """The rows as JSON lines, with the junk."""
        lines = []
        for number, row in enumerate(rows):
            if self.all_rows or number == 2:
                rest = {key: value for key, value in row.items() if key != self.column}
                name = json.dumps(self.column).encode()
                lines.append(json.dumps(rest).encode()[:-1] + b", " + name + b": " + self.junk + b"}")
            else:
                lines.append(json.dumps(row).encode())
        return b"\n".join(lines) + b"\n"


STEP_VALUES = tuple(
    StepValue(column, junk, everywhere) for column in COLUMNS for junk in JUNK for everywhere in (False, True)
)
COMMANDS = tuple(StepFile(kind, number) for kind in ("jsonl", "parquet") for number in (1, 2, 7))
"""Damaged files that are given to the command itself."""


# Folders of runs

_MODEL = (
    "config.json",
    "generation_config.json",
    "hgpo.json",
    "model.safetensors",
    "tokenizer.json",
    "tokenizer_config.json",
)
RUN_FILES = (
    "config.json",
    "metrics.jsonl",
    "results.json",
    "curves.png",
    "rollouts/000001.parquet",
    "rollouts/000002.parquet",
    *(f"{folder}/{name}" for folder in ("start", "model") for name in ("README.md", *_MODEL)),
    *(
        f"checkpoints/{iteration}/{name}"
        for iteration in ("000000", "000002")
        for name in ("state.json", "trainer.safetensors", *(f"model/{one}" for one in _MODEL))
    ),
)
"""Every file of a run of two iterations that was evaluated before and after."""


def delete(path: Path, _: Path) -> None:
    path.unlink()


def halve(path: Path, _: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def flip(path: Path, _: Path) -> None:
    """A bit that the name of the file decides."""
    path.write_bytes(_flip(path.read_bytes(), random.Random("/".join(path.parts[-3:]))))


def swap(path: Path, other: Path) -> None:
    shutil.copyfile(other, path)


DAMAGES: tuple[Callable[[Path, Path], None], ...] = (delete, halve, flip, swap)
FOLDER_COMMANDS = ("resume", "eval", "compare")


def content_of(folder: Path) -> dict[str, bytes]:
    """Every file of a folder, byte for byte."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != ".lock"
    }


# Replies of a server

GOOD = {
    "id": "1",
    "choices": [
        {"index": 0, "message": {"role": "assistant", "content": "go to fridge"}, "finish_reason": "stop"}
    ],
    "usage": {"prompt_tokens": 4, "completion_tokens": 3},
}
STATUS = (0, 99, 100, 101, 201, 204, 206, 301, 302, 307, 308, 400, 401, 403, 404, 408, 413, 418, 422, 425, 429, 500,
          502, 503, 504, 599, 600, 999)  # fmt: skip
HEADERS = (
    "Content-Length: 0",
    "Content-Length: -5",
    "Content-Length: 99999999",
    "Content-Length: many",
    "Transfer-Encoding: chunked",
    "Transfer-Encoding: gzip, chunked",
    "Content-Encoding: gzip",
    "Content-Type: text/html; charset=klingon",
    "Content-Type: application/json; charset=utf-16",
    "Content-Type: \xff",
    "Retry-After: soon",
    "Retry-After: -1",
    "Retry-After: 1e9",
    "Retry-After: Mon, 99 Foo 2099 99:99:99 GMT",
    "Location: http://127.0.0.1:1/v1",
    "No colon here",
    ": no name",
    "X-Long: " + "a" * 70_000,
    "\r\nX-Early: end",
)


BODIES = (
    b"",
    b"null",
    b"[]",
    b"3",
    b'"x"',
    b"{}",
    b'{"choices": []}',
    b'{"choices": {}}',
    b'{"choices": [null]}',
    b'{"choices": [{"message": []}]}',
    b'{"error": {"message": "no"}}',
    b"<html>",
    b"\xff",
)


@dataclass(frozen=True)
class Broken:
    """One wrong reply, as the bytes on the wire; with `again` the next try gets a good one."""

    wire: bytes
    again: bool


def reply(status: int = 200, header: str = "", body: bytes | None = None) -> bytes:
    """A reply on the wire; `header` takes the place of one with its name."""
    content = json.dumps(GOOD).encode() if body is None else body
    lines = [f"Content-Length: {len(content)}", "Content-Type: application/json", "Connection: close"]
    if header:
        lines = [line for line in lines if line.partition(":")[0] != header.partition(":")[0]] + [header]
    head = "\r\n".join([f"HTTP/1.1 {status} Said", *lines]) + "\r\n\r\n"
    return head.encode("latin-1") + content


def replies() -> tuple[Broken, ...]:
    """All wrong replies: every status, every header, junk in every place of the body, and damaged bytes."""
    wires = [reply(status) for status in STATUS]
    wires += [reply(status, header) for header in HEADERS for status in (200, 503)]
    body = json.dumps(GOOD).encode()
    for found in _VALUE.finditer(body):
        wires += [reply(body=body[: found.start()] + junk + body[found.end() :]) for junk in JUNK]
    wires += [reply(body=body) for body in BODIES]
    for number in range(120):
        whole = reply()
        wires.append(BYTES[number % len(BYTES)](whole, random.Random(f"reply {number}")))
    wires.append(b"")
    return tuple(Broken(wire, again=number % 2 == 0) for number, wire in enumerate(wires))
