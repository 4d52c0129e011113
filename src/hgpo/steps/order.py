"""Where each step stands in its trajectory, from its step index alone.

Rows may come in any order. `Trajectories` puts them into one canonical order (trajectories sorted by task and
name, steps ascending), in which all arithmetic is done; so the numbers are the same to the last bit for any
permutation of the rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..errors import BadSteps
from .columns import BoolArray, Categorical, IntArray, ObjectArray, object_array
from .labels import dense

PIECE = 2**20
"""Steps that are looked at in one go."""


@dataclass(frozen=True)
class Trajectories:
    """Canonical order of `n` steps in `m` trajectories. All arrays but `order` are in canonical order."""

    order: IntArray
    """[n] row number of each canonical position."""
    trajectory_ids: IntArray
    """[n] trajectory of each step, 0..m-1."""
    task_ids: IntArray
    """[n] task of each step."""
    step: IntArray
    """[n] step index, 0 at the start of a trajectory."""
    lengths: IntArray
    """[m] number of steps of each trajectory."""

    @property
    def num_trajectories(self) -> int:
        """How many trajectories there are."""
        return len(self.lengths)

    @cached_property
    def ends(self) -> IntArray:
        """[m] position of the last step of each trajectory."""
        ends: IntArray = np.cumsum(self.lengths) - 1
        return ends

    @cached_property
    def remaining(self) -> IntArray:
        """[n] number of steps that follow in the same trajectory."""
        rest: IntArray = self.lengths[self.trajectory_ids] - 1 - self.step
        return rest

    @cached_property
    def reaching(self) -> tuple[BoolArray, ...]:
        """[n - 1], [n - 2], [n - 4], ..: whether so many steps on is the same trajectory, as far as the longest."""
        longest = int(self.lengths.max(initial=0))
        shifts = [1 << power for power in range(64) if 1 << power < longest]
        return tuple(self.remaining[:-shift] >= shift for shift in shifts)


@dataclass(frozen=True, order=True)
class TaskOfIteration:
    """A task within one of several iterations."""

    iteration: int
    task: Any

    def __repr__(self) -> str:
        return f"{self.task!r} of iteration {self.iteration}"


def apart(task: Categorical, iterations: IntArray) -> Categorical:
    """Tasks by iteration: those of different iterations are different ones."""
    numbers, places = np.unique(iterations, return_inverse=True)
    width = len(task.values)
    pairs, codes = np.unique(places * width + task.codes, return_inverse=True)
    values = [TaskOfIteration(int(numbers[pair // width]), task.values[pair % width]) for pair in pairs]
    return Categorical(codes, object_array(values))


def locate(task: Categorical, trajectory: Categorical, step: IntArray) -> Trajectories:
    """Order the steps and check that every trajectory has the steps 0, 1, 2, ... exactly once.

    A trajectory is a (task, trajectory) pair: names may repeat between tasks.
    """
    # The rows of a trajectory mostly stand together: what is sorted is stretches of them.
    new = (task.codes[1:] != task.codes[:-1]) | (trajectory.codes[1:] != trajectory.codes[:-1])
    starts = np.concatenate(([0], np.flatnonzero(new) + 1))
    sizes = np.diff(starts, append=len(step))
    of_tasks, of_names = task.codes[starts], trajectory.codes[starts]
    tasks, names = _ranks(task.values, of_tasks), _ranks(trajectory.values, of_names)
    stretches = dense(tasks * len(trajectory.values) + names)
    if int(stretches.max()) + 1 == len(starts) and _ascend(step, starts):
        return _by_stretch(task, step, starts, sizes, stretches)
    ids = np.repeat(stretches, sizes)
    lengths = np.bincount(ids).astype(np.int64, copy=False)
    starts = np.concatenate(([0], np.cumsum(lengths)[:-1]))

    inside = (step >= 0) & (step < lengths[ids])
    position = starts[ids] + np.where(inside, step, 0)
    if not inside.all() or (np.bincount(position, minlength=len(step)) != 1).any():
        _explain(task, trajectory, step, ids, inside)
    order = np.empty(len(step), dtype=np.int64)
    order[position] = np.arange(len(step))
    return Trajectories(order, ids[order], task.codes[order], step[order], lengths)


def _ascend(step: IntArray, starts: IntArray) -> bool:
    """Whether steps [n] count 0, 1, 2, ... from each of the starts."""
    if step[starts].any():
        return False
    breaks = np.zeros(len(step), dtype=bool)
    # A piece at a time: fresh memory for the whole would cost more than the arithmetic.
    for at in range(1, len(step), PIECE):
        end = min(at + PIECE, len(step))
        np.not_equal(step[at:end], step[at - 1 : end - 1] + 1, out=breaks[at:end])
    breaks[starts] = False
    return not breaks.any()


def _counted(sizes: IntArray) -> IntArray:
    """0, 1, 2, ... within each of the stretches of these sizes. Int [sum of sizes]."""
    numbers: IntArray = np.arange(int(sizes.sum()))
    numbers -= np.repeat(np.cumsum(sizes) - sizes, sizes)
    return numbers


def _by_stretch(
    task: Categorical, step: IntArray, starts: IntArray, sizes: IntArray, ranks: IntArray
) -> Trajectories:
    """The order of trajectories that each stand in one piece, steps ascending, with their ranks [trajectories]."""
    if (ranks[1:] > ranks[:-1]).all():
        return Trajectories(np.arange(len(step)), np.repeat(ranks, sizes), task.codes, step, sizes)
    place = np.empty(len(ranks), dtype=np.int64)
    place[ranks] = np.arange(len(ranks))
    lengths = sizes[place]
    order = np.repeat(starts[place], lengths) + _counted(lengths)
    ids = np.repeat(np.arange(len(ranks)), lengths)
    return Trajectories(order, ids, task.codes[order], step[order], lengths)


def _ranks(values: ObjectArray, codes: IntArray) -> IntArray:
    """Rank of each coded value among those that occur, sorted by value (by type name where types differ). Int [n]."""
    present = np.flatnonzero(np.bincount(codes))
    met = values[present].tolist()
    kinds = [type(value).__name__ for value in met]
    keys = met if len(set(kinds)) == 1 else list(zip(kinds, met))
    try:
        order = sorted(range(len(met)), key=keys.__getitem__)
    except TypeError:  # values that have no order of their own
        texts = [repr(key) for key in keys]
        order = sorted(range(len(met)), key=texts.__getitem__)
    ranks = np.empty(len(values), dtype=np.int64)
    ranks[present[order]] = np.arange(len(met))
    found: IntArray = ranks[codes]
    return found


def _explain(
    task: Categorical, trajectory: Categorical, step: IntArray, ids: IntArray, inside: BoolArray
) -> None:
    """Raise the error that names the first trajectory whose step indices are wrong."""
    suspects = np.flatnonzero(~inside)
    if len(suspects) == 0:
        lengths = np.bincount(ids)
        starts = np.concatenate(([0], np.cumsum(lengths)[:-1]))
        position = starts[ids] + step
        suspects = np.flatnonzero(np.bincount(position, minlength=len(step))[position] != 1)
    row = int(suspects[0])
    rows = np.flatnonzero(ids == ids[row])
    steps = np.sort(step[rows])
    repeated = np.unique(steps[1:][steps[1:] == steps[:-1]])
    missing = np.setdiff1d(np.arange(max(int(steps[-1]), 0) + 1)[:100_000], steps)
    problems = []
    if len(repeated):
        problems.append(f"step {_few(repeated)} more than once")
    if len(missing):
        problems.append(f"no step {_few(missing)}")
    if steps[0] < 0:
        problems.append(f"a negative step {int(steps[0])}")
    name, of = trajectory.values[trajectory.codes[row]], task.values[task.codes[row]]
    raise BadSteps(
        f"Trajectory {name!r} of task {of!r} has {' and '.join(problems)} among its {len(rows)} rows; expected the "
        f"steps 0, 1, 2, ... exactly once each. Number the steps of each trajectory from 0, give every rollout its "
        f"own trajectory name, and mark rows that are only padding with padding=true."
    )


def _few(numbers: IntArray) -> str:
    shown = ", ".join(str(int(number)) for number in numbers[:5])
    return shown + (", ..." if len(numbers) > 5 else "")
