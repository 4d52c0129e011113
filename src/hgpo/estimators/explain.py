"""The arithmetic behind an advantage, term by term.

Every estimator's advantage is a weighted sum of comparisons of a score with a baseline:

    A(t) = sum over terms of  weight * (score - baseline) / divisor

`explain` gives those numbers for every step, as the estimator computed them: what was compared, with which group, and
with what weight it entered.

>>> from hgpo import StepBatch
>>> batch = StepBatch.from_rows([
...     {"task": "t", "trajectory": i, "step": 0, "observation": "door", "reward": float(i)} for i in range(3)
... ])
>>> term = explain(batch, "rloo").terms[0]
>>> term.name, term.baseline.tolist(), term.values.tolist()
('episode', [1.5, 1.0, 0.5], [-1.5, 0.0, 1.5])
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..steps.batch import StepBatch
from ..steps.columns import FloatArray, IntArray
from .estimate import Computed, compute
from .terms import Score, Sum, Term


@dataclass(frozen=True)
class Explanation:
    """An estimate taken apart. Arrays are in canonical order; `rows` leads back to the batch."""

    name: str
    computed: Computed

    @property
    def rows(self) -> IntArray:
        """[steps] row of the batch at each canonical position, padding left out."""
        return self.computed.rows

    @property
    def advantages(self) -> FloatArray:
        """float64 [steps]."""
        return self.computed.result.advantages

    @property
    def returns(self) -> FloatArray:
        """float64 [steps]."""
        return self.computed.result.returns

    @property
    def terms(self) -> tuple[Term, ...]:
        """The comparisons whose contributions add up to the advantage."""
        return self.computed.result.terms

    @property
    def sums(self) -> tuple[Sum, ...]:
        """All sums: the last is the advantage, with `terms`; those before it are what its scores are made of."""
        return self.computed.result.sums

    @property
    def score(self) -> Score | None:
        """Where the scores of the first sum come from, unless they are plain returns or an episode's rewards."""
        return self.computed.result.score


def explain(batch: StepBatch, name: str = "hgpo", **settings: Any) -> Explanation:
    """Compute advantages as `estimate` does, and say what each is made of.

    The contributions of the terms add up to the advantage of every step, whatever the estimator and its settings.
    """
    return Explanation(name, compute(batch, name, settings))
