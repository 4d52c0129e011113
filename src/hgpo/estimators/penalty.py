"""How much of an estimate the penalty for invalid actions makes.

Where groups are small and divided by their own deviation, a penalty of 0.1 can weigh as much as a success of 10: among
failures it is the only difference there is. A policy then learns to avoid invalid actions and nothing else.
"""

from __future__ import annotations

import numpy as np

from .estimate import Computed

HIGH_PENALTY_SHARE = 0.4
"""A share of the advantages from which on the penalty is likely to spoil the policy."""


def penalty_effect(computed: Computed) -> float:
    """sum over steps of |A - A'|, where A' is the estimate without the penalty.

    A' is computed, once, for the same steps as if all actions had been valid; groups are shared with A. The terms of A
    cannot tell: a penalty moves means, deviations and which groups are constant, and so which levels have a say.
    """
    if not computed.settings.invalid_penalty or not computed.record.invalid.any():
        return 0.0
    without = computed.estimator.compute(computed.record.without_penalties(), computed.settings)
    return float(np.abs(computed.result.advantages - without.advantages).sum())


def penalty_share(computed: Computed) -> float:
    """`penalty_effect` divided by sum |A|: 0 where the penalty plays no part, 1 where nothing else does.

    >>> from hgpo import StepBatch
    >>> from hgpo.estimators.estimate import compute
    >>> rows = [
    ...     {"task": "t", "trajectory": i, "step": 0, "observation": "door", "reward": 0.0, "valid": i > 0}
    ...     for i in range(4)
    ... ]
    >>> penalty_share(compute(StepBatch.from_rows(rows), "hgpo", {"depth": 0, "invalid_penalty": 0.1}))
    1.0
    """
    size = float(np.abs(computed.result.advantages).sum())
    return penalty_effect(computed) / size if size else 0.0
