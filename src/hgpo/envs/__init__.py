"""Text environments: the contract, the registry, a checker, and the environments themselves."""

from .check import check_env
from .contract import Observation, TextEnv, Transition
from .registry import make, names, register

__all__ = ["Observation", "TextEnv", "Transition", "check_env", "make", "names", "register"]
