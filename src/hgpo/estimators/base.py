"""What all estimators share: the steps in canonical order, returns, and the episode-level advantage."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, TypeVar

import numpy as np
import numpy.typing as npt

from ..steps.batch import StepBatch
from ..steps.columns import FloatArray, IntArray
from ..steps.order import Trajectories
from .groups import Groups
from .returns import discounted_returns, task_of_trajectory, trajectory_sums

Mode = Literal["mean_std_norm", "mean_norm"]
Std = Literal["population", "sample"]
NormaliseOver = Literal["trajectories", "steps"]
Single = Literal["raw", "zero"]
Penalty = Literal["after_discount", "before_discount"]
Variant = Literal["released", "paper"]

S = TypeVar("S")


@dataclass(frozen=True)
class Record:
    """The steps that count, in canonical order; arrays are [steps]."""

    batch: StepBatch
    trajectories: Trajectories
    rewards: FloatArray
    invalid: FloatArray
    """1.0 where the action was not valid."""

    @classmethod
    def of(cls, batch: StepBatch) -> Record:
        """View a batch without padding rows."""
        order = batch.trajectories.order
        invalid = (~batch.flag("valid")[order]).astype(np.float64)
        return cls(batch, batch.trajectories, batch.rewards[order], invalid)


@dataclass(frozen=True)
class LevelValues:
    """One level of a hierarchy as an estimator saw it."""

    rows: IntArray
    """Steps that have this level [m]."""
    groups: Groups
    """Their groups, by return."""
    values: FloatArray
    """Advantage of each of those steps at this level [m]."""
    used: npt.NDArray[np.bool_]
    """Whether the level entered the step's advantage [m]."""


@dataclass(frozen=True)
class Result:
    """What an estimator computes, in canonical order."""

    advantages: FloatArray
    returns: FloatArray
    levels: npt.NDArray[np.int64]
    """[levels, steps] group labels; no rows for an estimator without context levels."""
    level_values: tuple[LevelValues, ...] = ()


@dataclass(frozen=True)
class Estimator:
    """An entry of the table of estimators."""

    settings: type[Any]
    compute: Callable[[Record, Any], Result]
    alone: Callable[[Any], bool] = lambda settings: True
    """Whether, with these settings, what a task's steps get depends on that task alone."""


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


def divisors(groups: Groups, mode: Mode, std: Std, epsilon: float, floor: float = 0.0) -> FloatArray:
    """What the deviations of each group are divided by: sqrt(sigma^2 + floor^2) + epsilon. Float64 [groups].

    `mean_norm` divides by one.
    """
    if mode == "mean_norm":
        return np.ones(groups.num_groups)
    sigma = groups.std(sample=std == "sample")
    if floor:
        sigma = np.hypot(sigma, floor)
    # A divisor of zero belongs to a constant group, whose deviations are all zero.
    divisor = sigma + epsilon
    divisor[divisor == 0.0] = 1.0
    return divisor


def normalise(
    groups: Groups, deviations: FloatArray, mode: Mode, std: Std, epsilon: float, floor: float = 0.0
) -> FloatArray:
    """Divide deviations [n] by the divisor of their group. Zero stays zero whatever the divisor is."""
    if mode == "mean_norm":
        return deviations
    normalised: FloatArray = deviations / divisors(groups, mode, std, epsilon, floor)[groups.labels]
    return normalised


@dataclass(frozen=True)
class EpisodeTerm:
    """How the advantage of a whole episode is computed."""

    normalise_over: NormaliseOver
    """Statistics over trajectories, or over step rows, where a trajectory counts as often as it is long."""
    std: Std
    """Deviation over n (population) or n - 1 (sample)."""
    epsilon: float
    """Added to the deviation."""
    single: Single
    """What a group of one entry gets: zero, or its raw score."""


@dataclass(frozen=True)
class EpisodeValues:
    """The episode-level advantage with what it was made of; entries are step rows or trajectories."""

    entries: IntArray
    """[steps] entry of each step."""
    groups: Groups
    """Entries by task."""
    scores: FloatArray
    """[entries] sum of rewards S."""
    values: FloatArray
    """[entries] advantage."""


def episode_values(record: Record, mode: Mode, term: EpisodeTerm, invalid_penalty: float) -> EpisodeValues:
    """Advantage of the whole episode against the other rollouts of its task.

    With S_i the sum of rewards of trajectory i:

        A_i = (S_i - mean_j S_j) / (std_j S_j + epsilon)

    `trajectories` takes the statistics over trajectories, S_i less its penalties. `steps` takes them over step
    rows, so a trajectory counts as often as it is long, and each row carries only its own penalty (the released
    code).
    """
    trajectories = record.trajectories
    fine = invalid_penalty * record.invalid
    if term.normalise_over == "steps":
        scores = trajectory_sums(record.rewards, trajectories)[trajectories.trajectory_ids] - fine
        entries, tasks = np.arange(len(scores)), trajectories.task_ids
    else:
        scores = trajectory_sums(record.rewards - fine, trajectories)
        entries, tasks = trajectories.trajectory_ids, task_of_trajectory(trajectories)
    groups = Groups.of(tasks, scores)
    values = normalise(groups, groups.deviations, mode, term.std, term.epsilon)
    if term.single == "raw":
        alone = groups.sizes[groups.labels] == 1
        scale = 1.0 + term.epsilon if mode == "mean_std_norm" else 1.0
        values = np.where(alone, scores / scale, values)
    return EpisodeValues(entries, groups, scores, values)


def episode_advantages(record: Record, mode: Mode, term: EpisodeTerm, invalid_penalty: float) -> FloatArray:
    """The values of `episode_values`, one per step. Float64 [steps]."""
    found = episode_values(record, mode, term, invalid_penalty)
    return found.values if term.normalise_over == "steps" else found.values[found.entries]


def resolve(arithmetic: S, settings: Any) -> S:
    """The arithmetic of a variant, with what the settings say instead where they say something."""
    given = {field.name: getattr(settings, field.name) for field in fields(arithmetic)}  # type: ignore[arg-type]
    changed = {name: value for name, value in given.items() if value is not None}
    return replace(arithmetic, **changed)  # type: ignore[type-var]


def no_levels(record: Record) -> npt.NDArray[np.int64]:
    """Labels of an estimator without context levels: [0, steps]."""
    return np.empty((0, len(record.rewards)), dtype=np.int64)
