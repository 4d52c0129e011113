"""Whether a policy answers what its prompts ask for: noticed in the first iteration, with what to do about it."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..config.schema import Config
from ..envs.actions import parse
from ..play.prompts import BARE, PromptStyle
from ..steps.batch import StepBatch

NEARLY_ALL = 0.9
"""The share of replies from which something is wrong with the form itself, not with the agent."""


def unfit_replies(batch: StepBatch, style: PromptStyle, config: Config) -> str:
    """A sentence where nearly all replies are malformed, or none is among the admissible actions; else empty."""
    outcome = batch["outcome"]
    malformed, unknown = (float(np.mean(outcome == kind)) for kind in ("malformed", "inadmissible"))
    if malformed >= NEARLY_ALL:
        row = int(np.flatnonzero(outcome == "malformed")[0])
        reply, prompt = str(batch["response"][row]), str(batch["prompt"][row])
        tags, reasoning = style.asks(prompt)
        reason = parse(reply, tags=tags, reasoning=reasoning, chinese=style.chinese).reason
        return (
            f"{malformed:.0%} of the replies do not have the form that the prompts ask for ({reason}; for example "
            f"{_short(reply)}), so nothing can be learned from them. {_fix(config, tags, reasoning)}"
        )
    if unknown >= NEARLY_ALL:
        row = int(np.flatnonzero(outcome == "inadmissible")[0])
        listed = list(batch["admissible"][row]) if "admissible" in batch else []
        shown = f", where {_short(listed[0])} would do" if listed else ""
        return (
            f"{unknown:.0%} of the actions are not among those that the environment lists (for example "
            f"{_short(batch['action'][row])}{shown}). List the commands in the prompt (agent.show_admissible=true), "
            "let a warm start teach them (warm.source=format), or check the environment's action_form."
        )
    return ""


def _fix(config: Config, tags: bool, reasoning: bool) -> str:
    """What to do about malformed replies."""
    ways = []
    if reasoning:
        ways.append("ask for no thoughts (agent.reasoning=false)")
    if tags and config.agent.prompt not in BARE:
        ways.append("ask for a bare action (agent.prompt=plain)")
    ways.append("let a warm start teach the form (warm.source=format warm.episodes=300)")
    ways.append(f"allow longer replies (agent.max_response_tokens is {config.agent.max_response_tokens})")
    return f"Stop the run and {', or '.join(ways)}."


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
