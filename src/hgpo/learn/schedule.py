"""The learning rate: a linear rise over the first updates, then constant or falling over the iterations of the run.

    rate = lr x min(1, (u + 1) / warmup) x f(p)          u: optimiser steps so far
                                                         p: share of the run's iterations that is over
    constant  f(p) = 1
    linear    f(p) = 1 - (1 - lr_end) p
    cosine    f(p) = lr_end + (1 - lr_end) (1 + cos(pi p)) / 2

The fall goes by iterations, not by optimiser steps: how many of those an iteration has may depend on its rollouts.
"""

from __future__ import annotations

import math

from ..config.schema import UpdateConfig


def rate(settings: UpdateConfig, updates: int, progress: float) -> float:
    """The rate of the optimiser step after `updates` others, at `progress` from 0 (start) to 1 (end of the run)."""
    rise = min(1.0, (updates + 1) / settings.warmup) if settings.warmup else 1.0
    return settings.lr * rise * _fall(settings, progress)


def _fall(settings: UpdateConfig, progress: float) -> float:
    left = 1.0 - settings.lr_end
    if settings.schedule == "linear":
        return 1.0 - left * progress
    if settings.schedule == "cosine":
        return settings.lr_end + left * (1.0 + math.cos(math.pi * progress)) / 2.0
    return 1.0
