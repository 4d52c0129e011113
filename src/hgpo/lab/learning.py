"""Learning speed: a policy trained with an estimator's advantages, its success computed exactly after every update.

Two policies: a table of logits, one row per context, moved along the normalised gradient; and a network of one hidden
layer over the remembered observations, moved by Adam, where contexts share what they learn. Rollouts, network and
updates are decided by the seed alone, and all estimators start from the same policy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

from ..estimators.base import Record
from ..estimators.table import ESTIMATORS
from ..settings import build
from ..steps.columns import FloatArray
from .accuracy import gradient
from .entries import Entry
from .sampling import as_batch, sample
from .situations import Situations, first_logits, probabilities, situations
from .truth import visit_chances
from .worlds import SmallWorld, generator_for

PolicyName = Literal["table", "network"]
STEP = 0.4
HIDDEN, RATE = 32, 0.01


class LogitPolicy(Protocol):
    """Something with logits that can be moved along a gradient of them."""

    def logits(self) -> FloatArray:
        """[C, A]"""
        ...

    def move(self, ascent: FloatArray) -> None:
        """Follow the gradient [C, A] of the logits one step uphill."""
        ...


class LogitTable:
    """One row of logits per context."""

    def __init__(self, places: Situations) -> None:
        self.rows = first_logits(places)

    def logits(self) -> FloatArray:
        """[C, A]"""
        return self.rows

    def move(self, ascent: FloatArray) -> None:
        """A step of fixed length: only the direction of the batch's gradient counts."""
        length = float(np.linalg.norm(ascent))
        if length > 0.0:
            self.rows = self.rows + STEP * ascent / length


class LogitNetwork:
    """tanh layer over one-hot elements of the context, then logits; weights moved by Adam."""

    def __init__(self, places: Situations) -> None:
        rng = generator_for("network", places.world.name, places.world.seed)
        shape = places.contexts.shape
        span = int(places.contexts.max()) + 2
        self.inputs = np.zeros((shape[0], shape[1] * span + 1))
        for place in range(shape[1]):
            self.inputs[np.arange(shape[0]), place * span + places.contexts[:, place] + 1] = 1.0
        self.inputs[:, -1] = 1.0
        first = rng.normal(size=(self.inputs.shape[1], HIDDEN)) / np.sqrt(shape[1] + 1)
        second = rng.normal(size=(HIDDEN, places.chances.shape[1])) / np.sqrt(HIDDEN)
        self.weights = [first, second]
        self.moments = [(np.zeros_like(w), np.zeros_like(w)) for w in self.weights]
        self.updates = 0

    def logits(self) -> FloatArray:
        """[C, A]"""
        self.hidden = np.tanh(self.inputs @ self.weights[0])
        logits: FloatArray = self.hidden @ self.weights[1]
        return logits

    def move(self, ascent: FloatArray) -> None:
        """One Adam step on both layers."""
        if not ascent.any():
            return
        back = (ascent @ self.weights[1].T) * (1.0 - np.square(self.hidden))
        self.updates += 1
        for number, slope in enumerate((self.inputs.T @ back, self.hidden.T @ ascent)):
            mean, square = self.moments[number]
            mean = 0.9 * mean + 0.1 * slope
            square = 0.99 * square + 0.01 * np.square(slope)
            self.moments[number] = (mean, square)
            unbiased = mean / (1.0 - 0.9**self.updates)
            spread = np.sqrt(square / (1.0 - 0.99**self.updates)) + 1e-8
            self.weights[number] = self.weights[number] + RATE * unbiased / spread


POLICIES: dict[PolicyName, type[LogitTable] | type[LogitNetwork]] = {
    "table": LogitTable,
    "network": LogitNetwork,
}


@dataclass(frozen=True)
class Learned:
    """Chance of success before each update and after the last: float [updates + 1]."""

    curve: FloatArray


def learn(world: SmallWorld, entry: Entry, kind: PolicyName, updates: int) -> Learned:
    """Train a fresh policy with one estimator."""
    places = situations(world)
    policy: LogitPolicy = POLICIES[kind](places)
    estimator = ESTIMATORS[entry.estimator]
    settings = build(estimator.settings, entry.settings, entry.label)
    rng = generator_for("learning", world.name, world.seed)
    curve = np.empty(updates + 1)
    for number in range(updates + 1):
        chances = probabilities(policy.logits())
        curve[number] = visit_chances(places, chances[places.context])[1]
        if number == updates:
            break
        rollouts = sample(places, chances, world.knobs.group_size, rng)
        result = estimator.compute(Record.of(as_batch(places, rollouts)), settings)
        policy.move(gradient(places, chances, rollouts, result.advantages))
    return Learned(curve)
