"""The agent's side of an episode: memory, prompts, actions, the runner, and the records it leaves."""

from ..envs.prompt import Situation
from .actions import ParsedAction, parse
from .collect import Collection, Job, Slots, collect
from .episode import Episode, Limits, Step, run_episode
from .memory import Memory, WindowMemory
from .prompts import PromptStyle, style
from .record import rows

__all__ = [
    "Collection",
    "Episode",
    "Job",
    "Limits",
    "Memory",
    "ParsedAction",
    "PromptStyle",
    "Situation",
    "Slots",
    "Step",
    "WindowMemory",
    "collect",
    "parse",
    "rows",
    "run_episode",
    "style",
]
