"""The agent's side of an episode: memory, prompts, actions, the runner, and the records it leaves."""

from ..envs.prompt import Situation
from .actions import ParsedAction, parse
from .collect import Collection, Job, collect
from .episode import Episode, Limits, Step, run_episode
from .memory import Memory, WindowMemory
from .metrics import episode_metrics
from .prompts import PromptStyle, style
from .record import record
from .stage import Environments, Stage

__all__ = [
    "Collection",
    "Environments",
    "Episode",
    "Job",
    "Limits",
    "Memory",
    "ParsedAction",
    "PromptStyle",
    "Situation",
    "Stage",
    "Step",
    "WindowMemory",
    "collect",
    "episode_metrics",
    "parse",
    "record",
    "run_episode",
    "style",
]
