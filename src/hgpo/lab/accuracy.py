"""How far estimated advantages are from the true ones.

For each batch of rollouts an estimator gives advantages a, the truth is A. A learning rate can undo a constant factor
and estimators differ in scale, so one factor per world and estimator is free.

| measure | meaning |
| --- | --- |
| `mse` | sum (c a - A)^2 / sum A^2 with the best factor c: 0 is the truth, 1 as good as saying nothing |
| `correlation` | Pearson correlation of a and A over the steps of a batch, mean over batches; 0 where a is constant |
| `sign_agreement` | share of steps with a and A both not zero that agree in sign |
| `gradient_cosine` | cosine between the gradient of one batch, sum a grad log pi, and the true one; 0 for no gradient |
| `gradient_cosine_4`, ... | the same for the mean gradient of so many batches |
| `gradient_bias` | 1 - cosine^2 of the *expected* gradient: what is left of the error with ever more batches |
| `gradient_variance` | variance of one batch's gradient on the scale of the true one, over the true one's square |
| `ceiling` | the cosines with the true advantages: what is left is the sampling of steps |

A baseline that depends on nothing but the state moves a away from A but not the expected gradient, so bias is measured
there. The expected gradient mu is known by the mean m of n batches, whose square has the mean mu^2 + variance / n; with
the variance estimated from the same batches, m^2 - variance / n is free of that excess (and may be a little off either
way).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ..estimators.base import Record
from ..estimators.table import ESTIMATORS
from ..estimators.terms import Result
from ..settings import build
from ..steps.columns import FloatArray, IntArray
from .entries import Entry
from .sampling import SampledSteps, as_batch, sample
from .situations import Situations, first_logits, probabilities, situations
from .truth import truth
from .worlds import SmallWorld, generator_for

Measures = dict[str, float]
NOTHING = 1e-12
GROUPS = (1, 4, 16, 64)
"""Batches over which gradients are averaged: the tasks of an update."""


def groups_within(batches: int) -> list[int]:
    """The numbers of groups that can be averaged over with so many batches."""
    return [number for number in GROUPS if number <= batches]


def groups_name(number: int) -> str:
    """The measure's name for the mean gradient of `number` groups."""
    return "gradient_cosine" if number == 1 else f"gradient_cosine_{number}"


class GradientSums:
    """Gradients of many batches against the true one [parameters]."""

    def __init__(self, true: FloatArray) -> None:
        self.true, self.length = true, float(np.linalg.norm(true))
        self.total = np.zeros_like(true)
        self.squares, self.count = 0.0, 0
        self.blocks = {number: np.zeros_like(true) for number in GROUPS}
        self.cosines: dict[int, list[float]] = {number: [] for number in GROUPS}

    def add(self, gradient: FloatArray) -> None:
        """Count one batch."""
        self.total += gradient
        self.squares += float(gradient @ gradient)
        self.count += 1
        for number, block in self.blocks.items():
            block += gradient
            if self.count % number == 0:
                self.cosines[number].append(self._cosine(block))
                block[:] = 0.0

    def _cosine(self, gradient: FloatArray) -> float:
        lengths = float(np.linalg.norm(gradient)) * self.length
        return float(gradient @ self.true) / lengths if lengths > NOTHING else 0.0

    def measures(self) -> Measures:
        """Cosines for all numbers of groups there are, bias and variance."""
        found = {groups_name(n): float(np.mean(one)) for n, one in self.cosines.items() if one}
        mean = self.total / self.count
        along = float(mean @ self.true)
        if self.count < 2 or along <= NOTHING:
            return {**found, "gradient_bias": 1.0, "gradient_variance": 0.0}
        variance = (self.squares - self.count * float(mean @ mean)) / (self.count - 1)
        expected = max(float(mean @ mean) - variance / self.count, NOTHING)
        truth = self.length**2
        return {
            **found,
            "gradient_bias": 1.0 - along**2 / (expected * truth),
            "gradient_variance": variance * truth / along**2,
        }


@dataclass
class ErrorSums:
    """Sums over the batches of one world for one estimator (or one of its levels)."""

    gradients: GradientSums | None = None
    products: FloatArray = field(default_factory=lambda: np.zeros(3))
    """Sums of a A, a^2 and A^2."""
    agreements: IntArray = field(default_factory=lambda: np.zeros(2, dtype=np.int64))
    """Steps that agree in sign, and steps that could."""
    steps: IntArray = field(default_factory=lambda: np.zeros(2, dtype=np.int64))
    """Steps with an estimate, and all steps."""
    correlations: list[float] = field(default_factory=list)

    def add(self, estimated: FloatArray, true: FloatArray, total: int) -> None:
        """Count one batch: estimated and true advantages of the steps that have an estimate."""
        self.products += estimated @ true, estimated @ estimated, true @ true
        both = (estimated != 0.0) & (np.abs(true) > NOTHING)
        self.agreements += (
            np.count_nonzero(both & (np.sign(estimated) == np.sign(true))),
            np.count_nonzero(both),
        )
        self.steps += len(estimated), total
        if len(true) > 1 and true.std() > NOTHING:
            constant = estimated.std() <= NOTHING
            self.correlations.append(0.0 if constant else float(np.corrcoef(estimated, true)[0, 1]))

    def measures(self) -> Measures:
        """The measures of this world and seed."""
        cross, squares, scale = self.products
        factor = max(cross, 0.0) / squares if squares > 0.0 else 0.0
        return {
            "mse": float(1.0 - factor * cross / scale) if scale > 0.0 else 0.0,
            "correlation": float(np.mean(self.correlations)) if self.correlations else 0.0,
            "sign_agreement": float(self.agreements[0] / max(int(self.agreements[1]), 1)),
            "share": float(self.steps[0] / max(int(self.steps[1]), 1)),
            **(self.gradients.measures() if self.gradients is not None else {}),
        }


@dataclass(frozen=True)
class Measured:
    """Measures of one world and seed."""

    success: float
    steps: float
    shared: float
    """Share of steps whose observation another rollout of the batch saw too."""
    ceilings: Measures
    """The cosines with the true advantages."""
    entries: dict[str, Measures]
    levels: dict[str, list[Measures]]
    """Per estimator with context levels: measures of each level on its own."""
    error_correlations: dict[str, FloatArray]
    """Per such estimator: correlations between the errors of its levels."""


def measure(
    world: SmallWorld, entries: list[Entry], num_batches: int, levels_of: tuple[str, ...] = ()
) -> Measured:
    """Measure all entries on the same batches of one world, and each level of those named in `levels_of`."""
    places = situations(world)
    policy = probabilities(first_logits(places))
    exact = truth(places, policy)
    size = world.knobs.group_size
    played = sample(places, policy, size * num_batches, generator_for("batches", world.name, world.seed))
    settings = {
        entry.label: build(ESTIMATORS[entry.estimator].settings, entry.settings, entry.label)
        for entry in entries
    }
    slope = exact.gradient.reshape(-1)
    sums = {entry.label: ErrorSums(GradientSums(slope)) for entry in entries}
    best = GradientSums(slope)
    levels: dict[str, list[ErrorSums]] = {}
    errors: dict[str, list[FloatArray]] = {}
    shared = []

    def climb(rollouts: SampledSteps, advantages: FloatArray) -> FloatArray:
        return gradient(places, policy, rollouts, advantages).reshape(-1)

    for number in range(num_batches):
        rollouts = played.between(number * size, (number + 1) * size)
        true = exact.advantages[rollouts.step, rollouts.situation, rollouts.action]
        record = Record.of(as_batch(places, rollouts))
        best.add(climb(rollouts, true))
        shared.append(shared_observations(places, rollouts))
        for entry in entries:
            result = ESTIMATORS[entry.estimator].compute(record, settings[entry.label])
            own = sums[entry.label]
            own.add(result.advantages, true, len(true))
            if own.gradients is not None:
                own.gradients.add(climb(rollouts, result.advantages))
            if entry.label in levels_of and len(result.seen_levels) > 1:
                of_level = levels.setdefault(
                    entry.label, [ErrorSums(GradientSums(slope)) for _ in result.seen_levels]
                )
                for one, level in zip(of_level, result.seen_levels):
                    rows = level.rows[level.used]
                    said = np.zeros(len(true))
                    said[rows] = level.values[level.used]
                    one.add(said[rows], true[rows], len(true))
                    if one.gradients is not None:
                        one.gradients.add(climb(rollouts, said))
                errors.setdefault(entry.label, []).append(level_errors(result, true))
    return Measured(
        exact.success,
        len(played.step) / (size * num_batches),
        float(np.mean(shared)),
        {name: value for name, value in best.measures().items() if name.startswith("gradient_cosine")},
        {label: own.measures() for label, own in sums.items()},
        {label: [own.measures() for own in of_level] for label, of_level in levels.items()},
        {label: _correlations(np.concatenate(parts, axis=1)) for label, parts in errors.items()},
    )


def shared_observations(places: Situations, rollouts: SampledSteps) -> float:
    """Share of the steps of a batch whose observation another of its rollouts saw too."""
    seen = places.observation[rollouts.situation]
    pairs = np.unique(np.stack([seen, rollouts.rollout]), axis=1)[0]
    by = np.bincount(pairs, minlength=int(seen.max()) + 1)
    return float(np.mean(by[seen] > 1))


def gradient(
    places: Situations, policy: FloatArray, rollouts: SampledSteps, advantages: FloatArray
) -> FloatArray:
    """sum over steps of a grad log pi, for logits: float [C, A]."""
    count, actions = policy.shape
    context = places.context[rollouts.situation]
    taken = np.bincount(context * actions + rollouts.action, advantages, minlength=count * actions)
    expected = np.bincount(context, advantages, minlength=count)[:, None] * policy
    summed: FloatArray = taken.reshape(count, actions) - expected
    return summed


def level_errors(result: Result, true: FloatArray) -> FloatArray:
    """Values of all levels and the truth on the steps where every level says something: float [levels + 1, m]."""
    values = np.full((len(result.seen_levels) + 1, len(true)), np.nan)
    for row, level in zip(values, result.seen_levels):
        row[level.rows[level.used]] = level.values[level.used]
    values[-1] = true
    common: FloatArray = values[:, np.isfinite(values).all(axis=0)]
    return common


def _correlations(values: FloatArray) -> FloatArray:
    """Correlations between level errors, each level on the scale of the truth. Float [levels, levels]."""
    levels, true = values[:-1], values[-1]
    if values.shape[1] < 3:
        return np.full((len(levels), len(levels)), np.nan)
    factors = (true @ true) / np.maximum(levels @ true, NOTHING)
    errors = factors[:, None] * levels - true
    with np.errstate(invalid="ignore", divide="ignore"):
        correlations: FloatArray = np.corrcoef(errors)
    return correlations
