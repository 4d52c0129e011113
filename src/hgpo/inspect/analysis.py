"""One iteration's rollouts, estimated by every chosen estimator and ready to be counted and drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np

from ..errors import BadSetting, BadSteps, UnknownName
from ..estimators.explain import Explanation, explain
from ..estimators.returns import task_of_trajectory, trajectory_sums
from ..estimators.table import ESTIMATORS
from ..settings import build
from ..steps.batch import StepBatch
from ..steps.columns import FloatArray, IntArray, ObjectArray
from ..steps.labels import dense
from ..steps.order import Trajectories
from .rollouts import Iteration

REFERENCE = "hgpo"
TYPE_COLUMNS = ("task_type", "kind", "type")


@dataclass(frozen=True)
class ChosenEstimators:
    """Which estimators to run, each with its settings."""

    estimators: dict[str, dict[str, Any]]
    reference: dict[str, Any]
    """Settings of the HGPO estimate whose hierarchy of groups is reported."""

    @property
    def depth(self) -> int:
        """K."""
        return int(self.reference["depth"])


def choose_estimators(
    names: Sequence[str], given: Mapping[str, Any], run: Mapping[str, Any] | None = None
) -> ChosenEstimators:
    """Give each estimator those of the settings that it takes; `given` goes before what the `run` was trained with.

    Estimators may have a setting of the same name with other values (`normalise_over`): each gets what it understands.
    """
    for name in names:
        if name not in ESTIMATORS:
            raise UnknownName("estimator", name, ESTIMATORS)
    if not names:
        raise BadSetting("No estimator was given; expected names such as hgpo,gigpo,grpo.")
    known = {
        name: {field.name for field in fields(ESTIMATORS[name].settings)} for name in (*names, REFERENCE)
    }
    for setting, value in given.items():
        having = [name for name, has in known.items() if setting in has]
        if not having:
            raise UnknownName(f"setting of {', '.join(names)}", setting, set().union(*known.values()))
        if not any(_takes(name, setting, value) for name in having):
            build(ESTIMATORS[having[0]].settings, {setting: value}, f"estimator {having[0]!r}")
    wanted = {**(run or {}), **given}

    def of(name: str) -> dict[str, Any]:
        return {
            setting: value
            for setting, value in wanted.items()
            if setting in known[name] and _takes(name, setting, value)
        }

    reference = of(REFERENCE)
    reference.setdefault("depth", ESTIMATORS[REFERENCE].settings().depth)
    return ChosenEstimators(
        {name: dict(reference) if name == REFERENCE else of(name) for name in names}, reference
    )


def _takes(name: str, setting: str, value: Any) -> bool:
    """Whether an estimator's setting may have this value."""
    try:
        build(ESTIMATORS[name].settings, {setting: value}, name)
    except BadSetting:
        return False
    return True


@dataclass(frozen=True)
class Analysis:
    """Rollouts of one iteration with their estimates; arrays are in canonical order [steps]."""

    number: int
    position: int
    """Place among the iterations that were read, from 0; numbers may repeat."""
    batch: StepBatch
    reference: Explanation
    estimates: dict[str, Explanation]

    @property
    def trajectories(self) -> Trajectories:
        """Where each step stands."""
        return self.reference.computed.record.trajectories

    @property
    def order(self) -> IntArray:
        """[steps] row of the batch."""
        return self.reference.rows

    @property
    def levels(self) -> IntArray:
        """[depth + 1, steps] group labels, -1 for none."""
        return self.reference.computed.result.levels

    @property
    def returns(self) -> FloatArray:
        """[steps] discounted returns of the reference estimate."""
        return self.reference.returns

    @cached_property
    def tasks(self) -> IntArray:
        """[trajectories] task of each trajectory, 0, 1, ... in canonical order."""
        tasks = task_of_trajectory(self.trajectories)
        first = np.concatenate(([0], np.flatnonzero(np.diff(tasks)) + 1))
        numbers = np.zeros(len(tasks), dtype=np.int64)
        numbers[first[1:]] = 1
        return np.cumsum(numbers)

    @cached_property
    def totals(self) -> FloatArray:
        """[trajectories] sum of rewards."""
        return trajectory_sums(self.reference.computed.record.rewards, self.trajectories)

    @cached_property
    def successes(self) -> FloatArray | None:
        """[trajectories] 1.0 where the rollout succeeded; None when that was not recorded."""
        if "success" not in self.batch:
            return None
        flags = self.batch.flag("success")[self.order].astype(np.float64)
        return np.minimum(trajectory_sums(flags, self.trajectories), 1.0)

    @cached_property
    def starts(self) -> IntArray:
        """[trajectories] canonical position of the first step."""
        return np.flatnonzero(self.trajectories.step == 0)

    def of_trajectories(self, column: str) -> ObjectArray:
        """[trajectories] value of a column at the first step of each."""
        rows = self.order[self.starts]
        values: ObjectArray = self.batch.take(rows)[column]
        return values

    @cached_property
    def types(self) -> ObjectArray | None:
        """[trajectories] task type, None when there is no such column."""
        column = next((name for name in TYPE_COLUMNS if name in self.batch), None)
        return None if column is None else self.of_trajectories(column)

    @cached_property
    def contexts(self) -> IntArray:
        """[steps] the state with its whole recorded history up to the depth; steps agree where this is equal."""
        length = np.minimum(self.trajectories.step, len(self.levels) - 1)
        own = self.levels[length, np.arange(len(length))]
        return dense(length * (int(own.max()) + 1) + own)


def analyse(iteration: Iteration, chosen: ChosenEstimators, position: int = 0) -> Analysis:
    """Run all chosen estimators on one iteration."""
    padding = iteration.batch.flag("padding")
    if padding.all():
        raise BadSteps(
            f"Iteration {iteration.number} has only padding rows; expected at least one real step."
        )
    batch = iteration.batch.take(np.flatnonzero(~padding)) if padding.any() else iteration.batch
    reference = explain(batch, REFERENCE, **chosen.reference)
    estimates = {
        name: reference if name == REFERENCE else explain(batch, name, **settings)
        for name, settings in chosen.estimators.items()
    }
    return Analysis(iteration.number, position, batch, reference, estimates)


def distinct(labels: IntArray, codes: IntArray, count: int) -> IntArray:
    """Number of distinct codes in each of `count` groups. Int [count]."""
    if len(labels) == 0:
        return np.zeros(count, dtype=np.int64)
    low = int(codes.min())
    width = int(codes.max()) - low + 1
    pairs = np.unique(labels * width + codes - low)
    return np.bincount(pairs // width, minlength=count)
