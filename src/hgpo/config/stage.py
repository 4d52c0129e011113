"""From a config to the stage on which its episodes are played."""

from __future__ import annotations

from ..play.episode import Limits
from ..play.memory import WindowMemory
from ..play.prompts import style
from ..play.stage import Environments, Stage
from .schema import Config


def open_stage(config: Config) -> Stage:
    """The environment, prompts, memory and limits of `config`; nothing is started before it is played on."""
    env, agent = config.env, config.agent
    return Stage(
        Environments(
            env.name,
            env.settings,
            supervised=env.execution == "process",
            workers=env.workers,
            step_timeout=env.step_timeout,
            reset_timeout=max(30.0, 3 * env.step_timeout),
            attempts=env.attempts,
            max_reuse=env.max_reuse,
        ),
        style=style(agent.prompt, reasoning=agent.reasoning, show_admissible=agent.show_admissible),
        limits=Limits(agent.max_steps, agent.max_prompt_tokens),
        memory=lambda: WindowMemory(agent.history_length),
    )
