"""HGPO: Hierarchy-of-Groups Policy Optimization for long-horizon language agents.

>>> from hgpo import StepBatch, estimate
"""

from .errors import HgpoError
from .estimators.estimate import Estimate, estimate
from .estimators.explain import explain
from .steps.batch import StepBatch
from .version import __version__

__all__ = ["Estimate", "HgpoError", "StepBatch", "__version__", "estimate", "explain"]
