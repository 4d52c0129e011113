"""What an estimator returns: advantages as sums of named terms with weights.

A term compares a score with the baseline of a group:

    A(t) = sum over terms of  weight * (score - baseline) / divisor

The estimator that computes the numbers builds the terms; metrics, `explain`, the inspector and the lab read them. What
only an explanation needs is a closure over arrays that the estimator has anyway, so an estimate does not pay for it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

import numpy as np
import numpy.typing as npt

from ..steps.columns import BoolArray, FloatArray, IntArray
from .groups import Groups

Members = Literal["steps", "trajectories"]
SumKind = Literal["comparisons", "means"]


@dataclass(frozen=True)
class Level:
    """One level of a hierarchy of groups and what it says of its steps; [m] are the steps that have the level."""

    number: int
    """k: steps of history that members of a group share."""
    rows: IntArray
    """[m] canonical position of each of those steps."""
    groups: Groups
    """Their groups, by what is compared (returns, targets or lambda-returns)."""
    values: FloatArray
    """[m] advantage of each step as far as this level."""
    used: BoolArray
    """[m] whether the level entered the step's advantage."""


@dataclass(frozen=True)
class Shrinkage:
    """How a level's mean was mixed with those above it, v_k = w_k mean_k + (1 - w_k) v_{k-1}; arrays are [m]."""

    own: FloatArray
    """w_k: how much the group's own mean counts."""
    values: FloatArray
    """v_k: the estimate as far as this level."""


@dataclass(frozen=True)
class Numbers:
    """The numbers of a term; arrays are [m], the steps that have the term."""

    labels: IntArray
    """Group each was compared with, dense from 0."""
    sizes: IntArray
    """Members of that group."""
    score: FloatArray
    """What was compared: a return, a target, the score of an episode."""
    baseline: FloatArray
    """What it was compared with."""
    divisor: FloatArray
    """What the difference was divided by; 1 for nothing."""
    values: FloatArray
    """(score - baseline) / divisor."""
    weights: FloatArray
    """Share with which the value enters the sum; 0 where the term was left out."""
    shrinkage: Shrinkage | None = None
    """Where the weights come from nested means: how."""


@dataclass(frozen=True)
class Term:
    """One comparison inside a sum. Its numbers are worked out when they are first asked for."""

    name: str
    """`level 0`, `level 1`, ..., `task`, `episode`, `batch`, or `same action, level 0`, ..."""
    rows: IntArray
    """[m] canonical position of each step that has the term."""
    members: Members
    """What a member of a group is: a step, or a whole trajectory."""
    make: Callable[[], Numbers] = field(repr=False)
    level: Level | None = None
    """The level of the hierarchy that the term stands for."""

    @cached_property
    def numbers(self) -> Numbers:
        """All numbers of the term."""
        return self.make()

    @property
    def labels(self) -> IntArray:
        """[m] group each step was compared with, dense from 0."""
        return self.numbers.labels

    @property
    def sizes(self) -> IntArray:
        """[m] members of that group."""
        return self.numbers.sizes

    @property
    def score(self) -> FloatArray:
        """[m] what was compared."""
        return self.numbers.score

    @property
    def baseline(self) -> FloatArray:
        """[m] what it was compared with."""
        return self.numbers.baseline

    @property
    def divisor(self) -> FloatArray:
        """[m] what the difference was divided by."""
        return self.numbers.divisor

    @property
    def values(self) -> FloatArray:
        """[m] (score - baseline) / divisor."""
        return self.numbers.values

    @property
    def weights(self) -> FloatArray:
        """[m] share with which the value enters the sum."""
        return self.numbers.weights

    @property
    def shrinkage(self) -> Shrinkage | None:
        """How nested means were mixed, where the weights come from that."""
        return self.numbers.shrinkage

    @property
    def contributions(self) -> FloatArray:
        """What the term adds to the sum. Float64 [m]."""
        added: FloatArray = self.weights * self.values
        return added

    def times(self, factor: float) -> Term:
        """The same term with all weights multiplied by a number."""
        return replace(self, make=lambda: replace(self.numbers, weights=factor * self.weights))


@dataclass(frozen=True)
class Sum:
    """Terms that add up to a number of every step."""

    name: str
    """What they add up to: `advantage`, or what a later sum is made from."""
    kind: SumKind
    """Whether the terms compare scores with baselines, or are means that are mixed (their baselines are 0)."""
    formula: str
    terms: tuple[Term, ...]
    total: FloatArray = field(repr=False)
    """[steps]"""

    def added(self) -> FloatArray:
        """The contributions of all terms, added. Float64 [steps]; equal to `total` up to rounding."""
        added = np.zeros(len(self.total))
        for term in self.terms:
            added[term.rows] += term.contributions
        return added


@dataclass(frozen=True)
class Part:
    """A summand of a score: weight times a number of the step itself."""

    name: str
    weight: float
    values: FloatArray = field(repr=False)
    """[steps]"""


@dataclass(frozen=True)
class Following:
    """A discounted sum over a step and those after it in its trajectory: sum over j of factor^j x_{t+j}."""

    name: str
    factor: float
    values: FloatArray = field(repr=False)
    """[steps] x"""
    columns: dict[str, FloatArray] = field(default_factory=dict, repr=False)
    """[steps] what each x was made from."""


@dataclass(frozen=True)
class Score:
    """Where a score comes from that is not the plain return of its step."""

    name: str
    formula: str
    total: FloatArray = field(repr=False)
    """[steps]"""
    parts: tuple[Part, ...]
    following: Following | None = None


@dataclass(frozen=True)
class Result:
    """What an estimator computes, in canonical order."""

    advantages: FloatArray
    """[steps]"""
    returns: FloatArray
    """[steps] what was compared: discounted returns, or targets in their place."""
    levels: npt.NDArray[np.int64]
    """[levels, steps] group labels; no rows for an estimator without context levels."""
    sums: tuple[Sum, ...]
    """What the advantage is made of; the last sum is the advantage itself, those before it lead there."""
    make_score: Callable[[], Score] | None = field(default=None, repr=False)

    @property
    def terms(self) -> tuple[Term, ...]:
        """The terms whose contributions add up to the advantage."""
        return self.sums[-1].terms

    @property
    def seen_levels(self) -> tuple[Level, ...]:
        """The levels of the hierarchy, with what each says on its own."""
        return tuple(term.level for one in self.sums for term in one.terms if term.level is not None)

    @cached_property
    def score(self) -> Score | None:
        """Where the compared scores come from; None where they are the returns (or the episode's rewards)."""
        return None if self.make_score is None else self.make_score()


COMPARED = "sum of weight x (score - baseline) / divisor"


def plain_sum(advantages: FloatArray, terms: tuple[Term, ...]) -> tuple[Sum, ...]:
    """The one sum of an estimator whose comparisons add up to the advantage."""
    return (Sum("advantage", "comparisons", COMPARED, terms, advantages),)


def level_term(
    level: Level,
    score: FloatArray,
    baseline: Callable[[], FloatArray],
    divisor: FloatArray,
    weights: Callable[[], FloatArray],
) -> Term:
    """The term of a level whose values are compared group by group.

    Args:
        level: the level; its values are those of the term.
        score: [steps] what was compared.
        baseline: [m] what it was compared with.
        divisor: [groups]
        weights: [m]
    """

    def numbers() -> Numbers:
        labels = level.groups.labels
        return Numbers(
            labels,
            level.groups.sizes[labels],
            score[level.rows],
            baseline(),
            divisor[labels],
            level.values,
            weights(),
        )

    return Term(f"level {level.number}", level.rows, "steps", numbers, level)
