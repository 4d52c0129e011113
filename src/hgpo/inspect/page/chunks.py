"""Steps packed for the page: compressed pieces, each holding whole tasks, unpacked when somebody looks.

Within a piece every text is kept once, as a list of lines that are kept once, and every number once; the columns
are indices into those. Prompts that repeat their template and history so cost little. Text beyond a limit is cut in
the middle and says so; the limit is lowered until the page fits its budget.
"""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...estimators.terms import Score, Sum, Term
from ...progress import Progress
from ...steps.columns import Categorical, FloatArray, IntArray, Ragged
from ..analysis import Analysis
from ..text import as_text, named

# Bytes of compressed steps; base64 adds a third, so the page stays below 30 MB.
BUDGET = 20_000_000
PIECE = 2000
SAMPLED = 6
LIMITS = (20_000, 8_000, 4_000, 2_000, 1_000, 500, 250, 100, 0)
STEPS = 150_000
OWN = (
    "task",
    "trajectory",
    "step",
    "observation",
    "action",
    "reward",
    "prompt",
    "response",
    "padding",
    "iteration",
)
FLAGS = ("valid", "done", "success")


@dataclass(frozen=True)
class Packed:
    """Compressed pieces and where each task is in them."""

    chunks: list[bytes]
    index: dict[str, Any]


@dataclass(frozen=True)
class _Piece:
    analysis: Analysis
    start: int
    stop: int


def pack(shown: Sequence[Analysis], budget: int = BUDGET) -> Packed:
    """Pack the steps of the shown iterations."""
    pieces: list[_Piece] = []
    iterations = []
    left = STEPS
    for analysis in shown:
        own, tasks = _split(analysis, len(pieces), left)
        left -= sum(piece.stop - piece.start for piece in own)
        pieces += own
        iterations.append({"number": analysis.number, "position": analysis.position, **tasks})
    limit = _limit(pieces, budget)
    chunks: list[bytes] = []
    while True:
        with Progress("packing steps", total=len(pieces)) as progress:
            chunks = [_packed(piece, limit, progress) for piece in pieces]
        if sum(map(len, chunks)) <= budget or limit == LIMITS[-1]:
            break
        limit = LIMITS[LIMITS.index(limit) + 1]
    return Packed(chunks, {"iterations": iterations, "text_limit": limit})


def _split(analysis: Analysis, first: int, left: int) -> tuple[list[_Piece], dict[str, Any]]:
    """Pieces of whole tasks, and for each task its piece and where it starts and stops in it."""
    steps = np.bincount(analysis.tasks, weights=analysis.trajectories.lengths).astype(np.int64)
    stops = np.cumsum(steps)
    pieces: list[_Piece] = []
    table: dict[str, list[int]] = {"chunk": [], "start": [], "stop": []}
    start = 0
    for task, stop in enumerate(stops.tolist()):
        begin = stop - int(steps[task])
        if stop > left and task:
            break
        table["chunk"].append(first + len(pieces))
        table["start"].append(begin - start)
        table["stop"].append(stop - start)
        if stop - start >= PIECE or task == len(stops) - 1:
            pieces.append(_Piece(analysis, start, stop))
            start = stop
    else:
        return pieces, {"tasks": table, "left_out": 0}
    if start < begin:  # the tasks before the one that no longer fitted
        pieces.append(_Piece(analysis, start, begin))
    return pieces, {"tasks": table, "left_out": len(stops) - len(table["chunk"])}


def _limit(pieces: list[_Piece], budget: int) -> int:
    """The largest text limit whose sampled pieces, scaled up, fit the budget."""
    chosen = pieces[:: max(1, len(pieces) // SAMPLED)][:SAMPLED]
    share = sum(p.stop - p.start for p in chosen) / max(1, sum(p.stop - p.start for p in pieces))
    for limit in LIMITS:
        if sum(len(_packed(piece, limit)) for piece in chosen) / max(share, 1e-9) <= 0.95 * budget:
            return limit
    return LIMITS[-1]


def _packed(piece: _Piece, limit: int, progress: Progress | None = None) -> bytes:
    content = _content(piece.analysis, piece.start, piece.stop, _Texts(limit), _Numbers())
    text = json.dumps(content, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    if progress is not None:
        progress.add()
    return gzip.compress(text.encode("ascii"), compresslevel=6, mtime=0)


class _Texts:
    """Texts and their lines, each once."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.lines: dict[str, int] = {}
        self.known: dict[str, int] = {}
        self.texts: list[Any] = []

    def code(self, value: Any) -> int:
        if value is None:
            return -1
        text = as_text(value)
        code = self.known.get(text)
        if code is None:
            code = self.known[text] = len(self.texts)
            self.texts.append(self._stored(text))
        return code

    def _stored(self, text: str) -> Any:
        if len(text) <= self.limit + 50:
            return self._split(text)
        tail = self.limit // 4
        head = self.limit - tail
        return {
            "head": self._split(text[:head]),
            "cut": len(text) - self.limit,
            "tail": self._split(text[len(text) - tail :]),
        }

    def _split(self, text: str) -> list[int]:
        return [self.lines.setdefault(line, len(self.lines)) for line in text.split("\n")]


class _Numbers:
    """Distinct floats, each once."""

    def __init__(self) -> None:
        self.parts: list[FloatArray] = []
        self.lists: list[list[int]] = []

    def code(self, values: FloatArray) -> list[int]:
        """A list that `finish` fills with indices."""
        codes: list[int] = []
        self.parts.append(np.asarray(values, dtype=np.float64))
        self.lists.append(codes)
        return codes

    def finish(self) -> list[float | None]:
        """Fill all lists; return the table, null for what overflowed."""
        table, codes = np.unique(np.concatenate(self.parts) + 0.0, return_inverse=True)
        position = 0
        for part, codes_of in zip(self.parts, self.lists):
            codes_of += codes[position : position + len(part)].tolist()
            position += len(part)
        return [value if math.isfinite(value) else None for value in table.tolist()]


def _content(analysis: Analysis, start: int, stop: int, texts: _Texts, numbers: _Numbers) -> dict[str, Any]:
    rows = analysis.order[start:stop]
    batch, here = analysis.batch, slice(start, stop)
    trajectories = analysis.trajectories.trajectory_ids[here]
    first = np.flatnonzero(analysis.trajectories.step[here] == 0)
    content: dict[str, Any] = {
        "starts": first.tolist(),
        "names": [texts.code(named(name)) for name in batch.take(rows[first])["trajectory"]],
        "reward": numbers.code(batch.rewards[rows]),
        "return": numbers.code(analysis.returns[here]),
        "advantages": {
            name: numbers.code(estimate.advantages[here]) for name, estimate in analysis.estimates.items()
        },
        "levels": [_local(labels[here]) for labels in analysis.levels],
        "contexts": _local(analysis.contexts[here]),
        "sums": {
            name: [_sum(one, start, stop, numbers, analysis.returns) for one in estimate.sums]
            for name, estimate in analysis.estimates.items()
        },
        "scores": {
            name: _score(estimate.score, here, numbers)
            for name, estimate in analysis.estimates.items()
            if estimate.score is not None
        },
    }
    assert len(first) == len(np.unique(trajectories))
    for name in ("observation", "action", "prompt", "response"):
        if name in batch:
            content[name] = _codes(batch.column(name), rows, texts.code)
    for name in FLAGS:
        if name in batch:
            content[name] = batch.flag(name)[rows].astype(int).tolist()
    shown = {*OWN, *FLAGS}
    content["extras"] = {
        named(name): _codes(batch.column(name), rows, lambda value: texts.code(_shown(value, texts.limit)))
        for name in batch.column_names
        if name not in shown
    }
    content["numbers"] = numbers.finish()
    content["texts"] = texts.texts
    content["lines"] = list(texts.lines)
    return content


def _codes(column: Any, rows: IntArray, code: Callable[[Any], int]) -> list[int]:
    if isinstance(column, Categorical):
        used, inverse = np.unique(column.codes[rows], return_inverse=True)
        known = np.array([code(value) for value in column.values[used]], dtype=np.int64)
        return known[inverse].tolist()  # type: ignore[no-any-return]
    values = column.take(rows).decode() if isinstance(column, Ragged) else column[rows]
    return [code(value) for value in values.tolist()]


def _shown(value: Any, limit: int) -> str | None:
    """A value of an unknown column as text; long lists of numbers are rounded and cut."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, (list, tuple)) and value and all(isinstance(item, (int, float)) for item in value):
        kept = value[: max(0, min(len(value), limit // 100))]
        rest = f", ... {len(value)} in all" if len(kept) < len(value) else ""
        return (
            "["
            + ", ".join(f"{item:.4g}" if isinstance(item, float) else str(item) for item in kept)
            + rest
            + "]"
        )
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except (TypeError, ValueError):
        return str(value)


def _local(labels: IntArray) -> list[int]:
    """Labels of the piece, small numbers again; -1 stays."""
    known, codes = np.unique(labels, return_inverse=True)
    return (codes - int(len(known) > 0 and known[0] < 0)).tolist()  # type: ignore[no-any-return]


def _sum(one: Sum, start: int, stop: int, numbers: _Numbers, returns: FloatArray) -> dict[str, Any]:
    """A sum's terms and totals for the steps start..stop-1."""
    return {
        "name": one.name,
        "kind": one.kind,
        "formula": one.formula,
        "total": numbers.code(one.total[start:stop]),
        "terms": [_term(term, start, stop, numbers, returns) for term in one.terms],
    }


def _term(term: Term, start: int, stop: int, numbers: _Numbers, returns: FloatArray) -> dict[str, Any]:
    """A term's numbers for the steps start..stop-1; what all members of a group share is kept once per group."""
    low, high = np.searchsorted(term.rows, (start, stop))
    here = slice(low, high)
    rows = term.rows[here]
    _, first, codes = np.unique(term.labels[here], return_index=True, return_inverse=True)
    group = np.full(stop - start, -1, dtype=np.int64)
    group[rows - start] = codes
    entry: dict[str, Any] = {"name": term.name, "members": term.members, "group": group.tolist()}
    whole = len(rows) == stop - start
    if not whole:
        entry["rows"] = (rows - start).tolist()
    entry["size"] = numbers.code(term.sizes[here][first].astype(np.float64))
    often_shared = {"baseline": term.baseline, "divisor": term.divisor, "weight": term.weights}
    if term.shrinkage is not None:
        often_shared |= {"own": term.shrinkage.own, "so_far": term.shrinkage.values}
    for name, column in often_shared.items():
        values = column[here]
        if len(values) and (values == values[first][codes]).all():
            entry[name] = numbers.code(values[first])
        else:
            entry[f"step_{name}"] = numbers.code(values)
    if not np.array_equal(term.score[here], returns[rows]):
        entry["score"] = numbers.code(term.score[here])
    entry["value"] = numbers.code(term.values[here])
    return entry


def _score(score: Score, here: slice, numbers: _Numbers) -> dict[str, Any]:
    """Where the scores of the steps `here` come from."""
    entry: dict[str, Any] = {
        "name": score.name,
        "formula": score.formula,
        "total": numbers.code(score.total[here]),
        "parts": [
            {"name": part.name, "weight": part.weight, "value": numbers.code(part.values[here])}
            for part in score.parts
        ],
    }
    if score.following is not None:
        entry["following"] = {
            "name": score.following.name,
            "factor": score.following.factor,
            "value": numbers.code(score.following.values[here]),
            "columns": {name: numbers.code(values[here]) for name, values in score.following.columns.items()},
        }
    return entry
