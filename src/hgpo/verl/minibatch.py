"""How many steps go into one optimiser step.

verl counts a mini-batch in prompts and multiplies it by the rollouts of each, which fits one row per rollout. Here
rows are steps and their number follows from how long the episodes were, so the mini-batch is derived from the rows:
`updates` parts, or as many as `minibatch_rows` asks for.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Plan:
    """Sizes of one iteration's update, padding included."""

    updates: int
    """Optimiser steps per pass."""
    rows: int
    """Rows of each, over all processes; a multiple of the number of processes."""

    @property
    def total(self) -> int:
        """Rows after padding."""
        return self.updates * self.rows


def plan(rows: int, processes: int, *, updates: int, minibatch_rows: int) -> Plan:
    """Cut `rows` steps into equal optimiser steps with as little padding as the processes allow.

    Args:
        rows: steps of the iteration.
        processes: data-parallel processes; each takes an equal share of every optimiser step.
        updates: optimiser steps per pass; 0 uses `minibatch_rows`.
        minibatch_rows: at most this many steps per optimiser step (rounded up to the processes).

    >>> plan(1001, 2, updates=4, minibatch_rows=256), plan(1001, 2, updates=0, minibatch_rows=256).updates
    (Plan(updates=4, rows=252), 4)
    """
    wanted = updates if updates > 0 else -(-rows // max(1, minibatch_rows))
    # Every process needs a real row in every optimiser step, or as nearly as there are rows.
    parts = max(1, min(wanted, rows // processes))
    return Plan(parts, -(-rows // (parts * processes)) * processes)
