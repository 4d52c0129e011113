"""What all estimators share: the steps in canonical order, their groups, returns and normalisation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, TypeVar

import numpy as np
import numpy.typing as npt

from ..steps.batch import StepBatch
from ..steps.columns import BoolArray, FloatArray
from ..steps.order import Trajectories
from .contexts import Contexts, Key, contexts
from .groups import Groups
from .hierarchy import hierarchy
from .returns import discounted_returns
from .terms import Result

Mode = Literal["mean_std_norm", "mean_norm"]
Std = Literal["population", "sample"]
NormaliseOver = Literal["trajectories", "steps"]
Single = Literal["raw", "zero"]
Penalty = Literal["after_discount", "before_discount"]
Variant = Literal["released", "paper"]
TimeLimit = Literal["end", "cut"]

S = TypeVar("S")


@dataclass(frozen=True)
class Record:
    """The steps that count, in canonical order; arrays are [steps]."""

    batch: StepBatch
    trajectories: Trajectories
    rewards: FloatArray
    invalid: FloatArray
    """1.0 where the action was not valid."""
    _grouped: dict[Any, Any] = field(default_factory=dict, repr=False, compare=False)
    """Contexts and hierarchies made so far; they depend on the batch alone."""

    @classmethod
    def of(cls, batch: StepBatch) -> Record:
        """View a batch without padding rows."""
        order = batch.trajectories.order
        invalid = (~batch.flag("valid")[order]).astype(np.float64)
        return cls(batch, batch.trajectories, batch.rewards[order], invalid)

    def without_penalties(self) -> Record:
        """The same steps as if every action had been valid; groups are not made again."""
        return replace(self, invalid=np.zeros_like(self.invalid))

    def contexts(self, key: Key, similarity: float) -> Contexts:
        """The contexts of the steps, numbered once per key."""
        if (key, similarity) not in self._grouped:
            self._grouped[key, similarity] = contexts(self.batch, key, similarity)
        made: Contexts = self._grouped[key, similarity]
        return made

    def levels(self, key: Key, similarity: float, depth: int) -> npt.NDArray[np.int64]:
        """Group labels of every step at every level, int [depth + 1, steps], made once per key and depth."""
        if (key, similarity, depth) not in self._grouped:
            states = self.contexts(key, similarity)
            self._grouped[key, similarity, depth] = hierarchy(states, self.trajectories, depth)
        made: npt.NDArray[np.int64] = self._grouped[key, similarity, depth]
        return made

    @property
    def last(self) -> BoolArray:
        """The last steps of trajectories. Bool [steps]."""
        last: BoolArray = self.trajectories.remaining == 0
        return last

    @property
    def unfinished(self) -> BoolArray:
        """The last steps of trajectories that stopped before the task ended (`done` false). Bool [steps]."""
        if "done" not in self.batch:
            return np.zeros(len(self.rewards), dtype=bool)
        unfinished: BoolArray = self.last & ~self.batch.flag("done")[self.trajectories.order]
        return unfinished

    def cut(self, time_limit: TimeLimit) -> BoolArray:
        """The unfinished ones whose task is taken to have gone on. Bool [steps].

        Those that reached their step limit (`truncated`) are among them only with `cut`.
        """
        if time_limit == "cut":
            return self.unfinished
        cut: BoolArray = self.unfinished & ~self.batch.flag("truncated")[self.trajectories.order]
        return cut


def by_task_always(settings: Any) -> bool:
    """For an estimator whose tasks never depend on each other."""
    return True


@dataclass(frozen=True)
class Estimator:
    """An entry of the table of estimators."""

    settings: type[Any]
    compute: Callable[[Record, Any], Result]
    by_task: Callable[[Any], bool] = by_task_always
    """Whether, with these settings, what a task's steps get depends on that task only; large batches are then worked
    on a few tasks at a time."""


def step_returns(record: Record, gamma: float, invalid_penalty: float, penalty: Penalty) -> FloatArray:
    """Discounted returns R_t with the invalid-action penalty. Float64 [steps].

    `after_discount` subtracts the penalty from the return of the invalid step only; `before_discount` from its
    reward, so that earlier steps of the trajectory feel it too.
    """
    fine = invalid_penalty * record.invalid
    if penalty == "before_discount":
        return discounted_returns(record.rewards - fine, record.trajectories, gamma)
    returns: FloatArray = discounted_returns(record.rewards, record.trajectories, gamma) - fine
    return returns


def normalise(
    groups: Groups, deviations: FloatArray, mode: Mode, std: Std, epsilon: float, floor: float = 0.0
) -> tuple[FloatArray, FloatArray]:
    """Deviations [n] over the divisor of their group, and the divisors: float64 [n] and [groups].

    The divisor is sqrt(sigma^2 + floor^2) + epsilon, or one with `mean_norm`. Zero stays zero whatever it is.
    """
    if mode == "mean_norm":
        return deviations, np.ones(groups.num_groups)
    sigma = groups.std(sample=std == "sample")
    if floor:
        sigma = np.hypot(sigma, floor)
    # A divisor of zero belongs to a constant group, whose deviations are all zero.
    divisor = sigma + epsilon
    divisor[divisor == 0.0] = 1.0
    normalised: FloatArray = deviations / divisor[groups.labels]
    return normalised, divisor


def resolve(arithmetic: S, settings: Any) -> S:
    """The arithmetic of a variant, with what the settings say instead where they say something."""
    given = {one.name: getattr(settings, one.name) for one in fields(arithmetic)}  # type: ignore[arg-type]
    changed = {name: value for name, value in given.items() if value is not None}
    return replace(arithmetic, **changed)  # type: ignore[type-var]


def no_levels(record: Record) -> npt.NDArray[np.int64]:
    """Labels of an estimator without context levels: [0, steps]."""
    return np.empty((0, len(record.rewards)), dtype=np.int64)
