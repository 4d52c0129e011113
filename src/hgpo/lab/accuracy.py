"""How far estimated advantages are from the true ones.

For each batch of rollouts an estimator gives advantages a, the truth is A. A learning rate can undo a constant factor
and estimators differ in scale, so one factor per world and estimator is free: c = sum a A / sum a^2, the best fit, for
the error; and e = sum A^2 / sum a A, which puts a on the scale of A (a noisy but unbiased estimate stays as noisy as it
is and its bias shows as zero), for bias and variance.

| measure | meaning |
| --- | --- |
| `mse` | sum (c a - A)^2 / sum A^2: 0 is the truth, 1 as good as saying nothing |
| `bias` | squared bias of e a, over repeated visits of the same situation, time and action, over the mean A^2 |
| `variance` | variance of e a from batch to batch there, over the mean A^2 |
| `correlation` | Pearson correlation of a and A over the steps of a batch, mean over batches; 0 where a is constant |
| `sign_agreement` | share of steps with a and A both not zero that agree in sign |
| `gradient_cosine` | cosine between the batch's gradient, sum a grad log pi, and the true gradient; 0 for no gradient |
| `ceiling` | the same cosine with the true advantages: what is left is the sampling of steps |
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
from .truth import Truth, truth
from .worlds import SmallWorld, generator_for

Measures = dict[str, float]
NOTHING = 1e-12


@dataclass
class ErrorSums:
    """Sums over the batches of one world for one estimator (or one of its levels)."""

    products: FloatArray = field(default_factory=lambda: np.zeros(3))
    """Sums of a A, a^2 and A^2."""
    agreements: IntArray = field(default_factory=lambda: np.zeros(2, dtype=np.int64))
    """Steps that agree in sign, and steps that could."""
    steps: IntArray = field(default_factory=lambda: np.zeros(2, dtype=np.int64))
    """Steps with an estimate, and all steps."""
    correlations: list[float] = field(default_factory=list)
    cosines: list[float] = field(default_factory=list)
    repeats: list[tuple[IntArray, FloatArray, FloatArray]] = field(default_factory=list)
    """Per batch: one step of each (situation, time, action) cell, its a and its A."""

    def add(self, estimated: FloatArray, true: FloatArray, cells: IntArray, total: int) -> None:
        """Count one batch: estimated and true advantages and cells of the steps that have an estimate."""
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
        _, first = np.unique(cells, return_index=True)
        self.repeats.append((cells[first], estimated[first], true[first]))

    def measures(self) -> Measures:
        """The measures of this world and seed."""
        cross, squares, scale = self.products
        factor = max(cross, 0.0) / squares if squares > 0.0 else 0.0
        bias, variance = self._decomposition(scale / cross) if cross > 0.0 else (1.0, 0.0)
        measures = {
            "mse": float(1.0 - factor * cross / scale) if scale > 0.0 else 0.0,
            "bias": bias,
            "variance": variance,
            "correlation": float(np.mean(self.correlations)) if self.correlations else 0.0,
            "sign_agreement": float(self.agreements[0] / max(int(self.agreements[1]), 1)),
            "share": float(self.steps[0] / max(int(self.steps[1]), 1)),
        }
        if self.cosines:
            measures["gradient_cosine"] = float(np.mean(self.cosines))
        return measures

    def _decomposition(self, factor: float) -> tuple[float, float]:
        """Squared bias and variance, over cells met in two or more batches, as shares of the mean A^2 there."""
        if not self.repeats:
            return 0.0, 0.0
        cells = np.concatenate([part[0] for part in self.repeats])
        estimated = factor * np.concatenate([part[1] for part in self.repeats])
        true = np.concatenate([part[2] for part in self.repeats])
        _, labels = np.unique(cells, return_inverse=True)
        count = np.bincount(labels).astype(np.float64)
        mean, target = np.bincount(labels, estimated) / count, np.bincount(labels, true) / count
        spread = np.bincount(labels, np.square(estimated - mean[labels])) / np.maximum(count - 1.0, 1.0)
        often = count > 1
        scale = float(count[often] @ np.square(target[often]))
        if scale <= 0.0:
            return 0.0, 0.0
        # The squared error of a mean of n estimates has spread / n too much.
        squared_bias = np.square(mean - target) - spread / count
        weigh = count[often]
        return float(weigh @ squared_bias[often]) / scale, float(weigh @ spread[often]) / scale


@dataclass(frozen=True)
class Measured:
    """Measures of one world and seed."""

    success: float
    steps: float
    ceiling: float
    entries: dict[str, Measures]
    levels: dict[str, list[Measures]]
    """Per estimator with context levels: measures of each level on its own."""
    error_correlations: dict[str, FloatArray]
    """Per such estimator: correlations between the errors of its levels."""


def measure(world: SmallWorld, entries: list[Entry], num_batches: int) -> Measured:
    """Measure all entries on the same batches of one world."""
    places = situations(world)
    policy = probabilities(first_logits(places))
    exact = truth(places, policy)
    size = world.knobs.group_size
    played = sample(places, policy, size * num_batches, generator_for("batches", world.name, world.seed))
    settings = {
        entry.label: build(ESTIMATORS[entry.estimator].settings, entry.settings, entry.label)
        for entry in entries
    }
    sums = {entry.label: ErrorSums() for entry in entries}
    levels: dict[str, list[ErrorSums]] = {}
    errors: dict[str, list[FloatArray]] = {}
    ceilings = []
    for number in range(num_batches):
        rollouts = played.between(number * size, (number + 1) * size)
        true = exact.advantages[rollouts.step, rollouts.situation, rollouts.action]
        cells = cell_numbers(rollouts, places)
        record = Record.of(as_batch(places, rollouts))
        ceilings.append(gradient_cosine(places, exact, rollouts, true))
        for entry in entries:
            result = ESTIMATORS[entry.estimator].compute(record, settings[entry.label])
            sums[entry.label].add(result.advantages, true, cells, len(true))
            sums[entry.label].cosines.append(gradient_cosine(places, exact, rollouts, result.advantages))
            if len(result.seen_levels) > 1:
                add_levels(levels.setdefault(entry.label, []), result, true, cells)
                errors.setdefault(entry.label, []).append(level_errors(result, true))
    return Measured(
        exact.success,
        len(played.step) / (size * num_batches),
        float(np.mean(ceilings)),
        {label: own.measures() for label, own in sums.items()},
        {label: [own.measures() for own in of_level] for label, of_level in levels.items()},
        {label: _correlations(np.concatenate(parts, axis=1)) for label, parts in errors.items()},
    )


def cell_numbers(rollouts: SampledSteps, places: Situations) -> IntArray:
    """A number for each (time, situation, action). Int [steps]."""
    count, actions = places.chances.shape[:2]
    numbers: IntArray = (rollouts.step * count + rollouts.situation) * actions + rollouts.action
    return numbers


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


def gradient_cosine(
    places: Situations, exact: Truth, rollouts: SampledSteps, advantages: FloatArray
) -> float:
    """Cosine between the batch's gradient and the true one."""
    estimated = gradient(places, exact.policy, rollouts, advantages).reshape(-1)
    true = exact.gradient.reshape(-1)
    lengths = float(np.linalg.norm(estimated) * np.linalg.norm(true))
    return float(estimated @ true) / lengths if lengths > NOTHING else 0.0


def add_levels(sums: list[ErrorSums], result: Result, true: FloatArray, cells: IntArray) -> None:
    """Count what each level says on its own, over the steps where it says something."""
    while len(sums) < len(result.seen_levels):
        sums.append(ErrorSums())
    for own, level in zip(sums, result.seen_levels):
        rows = level.rows[level.used]
        own.add(level.values[level.used], true[rows], cells[rows], len(true))


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
