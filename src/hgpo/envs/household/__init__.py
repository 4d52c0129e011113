"""The household world: houses, the simulation of an episode in one, and environments over sets of houses."""

from .house import TASK_TYPES, Goal, House
from .world import World

__all__ = ["TASK_TYPES", "Goal", "House", "World"]
