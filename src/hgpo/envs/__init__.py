"""Text environments: the contract, the registry, and the environments themselves."""

from .contract import Observation, TextEnv, Transition
from .registry import make, names, register

__all__ = ["Observation", "TextEnv", "Transition", "make", "names", "register"]
