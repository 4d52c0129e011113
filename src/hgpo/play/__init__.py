"""The agent's side of an episode: memory, prompts, actions, the runner, and the records it leaves."""

from ..envs.actions import ParsedAction, parse
from ..envs.prompt import Remembered, Situation
from .collect import Collection, Job, collect
from .episode import Episode, Limits, Step, run_episode
from .memory import FullMemory, Memory, WindowMemory
from .metrics import episode_metrics
from .prompts import PromptStyle, style
from .record import record
from .stage import Environments, Stage

__all__ = [
    "Collection",
    "Environments",
    "Episode",
    "FullMemory",
    "Job",
    "Limits",
    "Memory",
    "ParsedAction",
    "PromptStyle",
    "Remembered",
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
