"""Targets made from the state a step led to, compared as GiGPO and HGPO compare returns."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from ..columns import FloatArray
from ..contexts import Contexts
from ..groups import Groups
from ..hierarchy import hierarchy
from . import base, hgpo
from .base import LevelValues, Record, Result

EPISODE = base.EpisodeTerm(normalise_over="steps", std="sample", epsilon=1e-6, single="raw")
"""The episode term of the released code, which GiGPO and its successors share."""


class Comparison(Protocol):
    """The settings that say how targets are compared."""

    @property
    def depth(self) -> int: ...
    @property
    def mode(self) -> base.Mode: ...
    @property
    def episode_w(self) -> float: ...
    @property
    def step_advantage_w(self) -> float: ...
    @property
    def invalid_penalty(self) -> float: ...


def compare(record: Record, states: Contexts, targets: FloatArray, s: Comparison) -> Result:
    """Episode term plus step term of targets [steps] against those of the same state (or nested contexts)."""
    levels = hierarchy(states, record.trajectories, s.depth)
    if s.depth == 0:
        groups = Groups.of(levels[0], targets)
        step_term = base.normalise(groups, groups.deviations, s.mode, "sample", 1e-6)
        values: tuple[LevelValues, ...] = (
            LevelValues(np.arange(len(targets)), groups, step_term, step_term != 0.0),
        )
    else:
        chosen = hgpo.HgpoSettings(depth=s.depth, mode=s.mode)
        step_term, values = hgpo.mix(record, levels, targets, chosen, hgpo.VARIANTS["released"])
    episode = base.episode_advantages(record, s.mode, EPISODE, s.invalid_penalty)
    return Result(s.episode_w * episode + s.step_advantage_w * step_term, targets, levels, values)
