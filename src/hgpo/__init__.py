"""HGPO: Hierarchy-of-Groups Policy Optimization for long-horizon language agents.

>>> from hgpo import StepBatch, estimate

The rooms of the package, in order. A module imports from its own room and from rooms above it, never from one
below; `tests/test_rooms.py` reads this list and checks it.

    errors seeds files progress settings version
    steps
    estimators
    envs
    play
    config
    models
    policies
    learn
    runs
    inspect
    lab
    verl
    cli
"""

from .errors import HgpoError
from .estimators.estimate import Estimate, estimate
from .estimators.explain import explain
from .steps.batch import StepBatch
from .version import __version__

__all__ = ["Estimate", "HgpoError", "StepBatch", "__version__", "estimate", "explain"]
