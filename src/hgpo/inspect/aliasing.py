"""Texts that stand for more than one state of the world.

A step's state is taken from its observation, so one reply text for many situations ("Nothing happens.") puts steps
into one group that have little in common. Three kinds of evidence, strongest first:

- the recorded `state_key` differs between steps with the same text;
- the admissible actions differ;
- the same action led to different observations.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..steps.columns import Encoder, IntArray
from ..steps.labels import dense
from .analysis import Analysis, distinct
from .text import named

# Texts remembered per iteration; the rest is only counted.
KEEP = 50


@dataclass
class Alias:
    """A text that stands for several states."""

    text: str
    steps: int = 0
    tasks: int = 0
    states: int = 0
    """Most distinct states it stands for within one task."""
    arrivals: int = 0
    """Most distinct ways (previous state and action) it was reached within one task."""
    evidence: str = ""


def aliases(analysis: Analysis) -> tuple[int, int, dict[str, Alias]]:
    """Steps with an aliased text, steps whose text could be checked, and the most frequent such texts."""
    labels = analysis.levels[0]
    sizes = np.bincount(labels)
    evidence = _evidence(analysis, labels, len(sizes))
    states = np.max([counts for _, counts in evidence], axis=0)
    aliased = (states > 1) & (sizes > 1)
    arrivals = distinct(labels, _arrivals(analysis, labels), len(sizes))
    example = np.zeros(len(sizes), dtype=np.int64)
    example[labels] = np.arange(len(labels))
    observation = analysis.batch.encoded("observation")
    codes = observation.codes[analysis.order][example]
    by_text: dict[str, Alias] = {}
    chosen = np.flatnonzero(aliased)
    steps_of_text = np.bincount(codes[chosen], weights=sizes[chosen], minlength=len(observation.values))
    kept = set(np.argsort(-steps_of_text, kind="stable")[:KEEP].tolist())
    for group in chosen[np.isin(codes[chosen], list(kept))]:
        text = named(observation.values[codes[group]], 2000)
        entry = by_text.setdefault(text, Alias(text))
        entry.steps += int(sizes[group])
        entry.tasks += 1
        entry.arrivals = max(entry.arrivals, int(arrivals[group]))
        if states[group] > entry.states:
            entry.states = int(states[group])
            entry.evidence = next(name for name, counts in evidence if counts[group] == states[group])
    return int(sizes[aliased].sum()), int(sizes[sizes > 1].sum()), by_text


def merge(into: dict[str, Alias], more: dict[str, Alias]) -> None:
    """Add the texts of another iteration."""
    for text, alias in more.items():
        known = into.setdefault(text, Alias(text))
        known.steps += alias.steps
        known.tasks += alias.tasks
        known.arrivals = max(known.arrivals, alias.arrivals)
        if alias.states > known.states:
            known.states, known.evidence = alias.states, alias.evidence


def _evidence(analysis: Analysis, labels: IntArray, count: int) -> list[tuple[str, IntArray]]:
    """How many states each group stands for, by kind of evidence."""
    evidence = []
    for column, name in (("state_key", "state keys"), ("admissible", "sets of admissible actions")):
        if column in analysis.batch:
            codes = _codes(analysis, column)
            known = np.flatnonzero(codes >= 0)
            evidence.append((name, distinct(labels[known], codes[known], count)))
            if column == "state_key" and len(known) == len(labels):
                return evidence
    evidence.append(("outcomes of the same action", _outcomes(analysis, labels, count)))
    return evidence


def _codes(analysis: Analysis, column: str) -> IntArray:
    """A column as integers, -1 where it is missing; lists are compared as sets."""
    encoder = Encoder()

    def code(value: object) -> int:
        if value is None:
            return -1
        if isinstance(value, (list, tuple, np.ndarray)):
            value = frozenset(map(str, value))
        try:
            return encoder[value]
        except TypeError:
            return encoder[repr(value)]

    values = analysis.batch[column][analysis.order]
    return np.fromiter(map(code, values), dtype=np.int64, count=len(values))


def _outcomes(analysis: Analysis, labels: IntArray, count: int) -> IntArray:
    """Most distinct next states after one and the same action in each group."""
    outcomes = np.ones(count, dtype=np.int64)
    if "action" not in analysis.batch:
        return outcomes
    before = np.flatnonzero(analysis.trajectories.remaining > 0)
    if len(before) == 0:
        return outcomes
    actions = _codes(analysis, "action")[before]
    tries = dense(labels[before] * (int(actions.max()) + 2) + actions + 1)
    after = distinct(tries, labels[before + 1], int(tries.max()) + 1)
    np.maximum.at(outcomes, labels[before], after[tries])
    return outcomes


def _arrivals(analysis: Analysis, labels: IntArray) -> IntArray:
    """The state before and the action that led here; one code for all first steps."""
    actions = _codes(analysis, "action") if "action" in analysis.batch else np.zeros_like(labels)
    pair = labels * (int(actions.max()) + 2) + actions + 1
    arrivals = np.concatenate(([0], pair[:-1] + 1))
    arrivals[analysis.trajectories.step == 0] = 0
    return dense(arrivals)
