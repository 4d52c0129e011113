"""HGPO: Hierarchy-of-Groups Policy Optimization for long-horizon language agents."""

from .errors import HgpoError
from .version import __version__

__all__ = ["HgpoError", "__version__"]
