"""HGPO: Hierarchy-of-Groups Policy Optimization for long-horizon language agents.

>>> from hgpo import StepBatch, estimate

The rooms of the package, in order. A module imports from its own room and from rooms above it, never from one
below; `tests/test_rooms.py` reads this list and checks it.

    errors install seeds files digests progress download words settings version interrupts hooks
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
    watch
    lab
    verl
    trl
    cli
"""

from __future__ import annotations

from .version import __version__

TYPE_CHECKING = False  # as type checkers know it; `typing` itself takes longer to import than all of this
if TYPE_CHECKING:
    from typing import Any

    from .errors import HgpoError
    from .estimators.estimate import Estimate, estimate
    from .estimators.explain import explain
    from .steps.batch import StepBatch
    from .steps.tokens import spread_over_tokens

__all__ = ["Estimate", "HgpoError", "StepBatch", "__version__", "estimate", "explain", "spread_over_tokens"]

# Imported when they are first used: until the command line is there, nobody answers Ctrl-C.
_PLACES = {
    "Estimate": "estimators.estimate",
    "estimate": "estimators.estimate",
    "explain": "estimators.explain",
    "HgpoError": "errors",
    "StepBatch": "steps.batch",
    "spread_over_tokens": "steps.tokens",
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    found = getattr(importlib.import_module(f".{_PLACES[name]}", __name__), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
