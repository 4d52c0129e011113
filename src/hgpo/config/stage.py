"""Where episodes are played: environments, prompts, memory and limits of a config, ready to use."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace

from ..envs.contract import TextEnv
from ..envs.worker import build
from ..errors import BadSetting, UnknownName
from ..play import Collection, Episode, Job, Limits, Slots, WindowMemory, collect, style
from ..play.policy import Policy
from ..play.prompts import PromptStyle
from .schema import AgentConfig, EnvConfig


class Stage:
    """Plays jobs with any policy; environments are kept between calls."""

    def __init__(self, env: EnvConfig, agent: AgentConfig) -> None:
        self.env, self.agent = env, agent
        self.style: PromptStyle = style(
            agent.prompt, reasoning=agent.reasoning, show_admissible=agent.show_admissible
        )
        self.limits = Limits(agent.max_steps, agent.max_prompt_tokens)
        self.blocking = env.execution == "process"
        self._scout: TextEnv | None = None
        self._slots: Slots | None = None

    @property
    def scout(self) -> TextEnv:
        """An environment that lists tasks; it plays no episode."""
        if self._scout is None:
            self._scout = build(self.env.name, self.env.settings)
        return self._scout

    def tasks(self, split: str, limit: int = 0) -> list[str]:
        """Task ids of a split, in the environment's fixed order; the first `limit` when it is not 0."""
        # Not checked against `splits` first: an environment may know a split by several names.
        try:
            tasks = list(self.scout.tasks(split))
        except Exception as error:
            if split in self.scout.splits:
                raise
            raise UnknownName(f"split of {self.env.name}", split, self.scout.splits) from error
        if not tasks:
            raise BadSetting(f"The split {split!r} of {self.env.name} has no tasks.")
        return tasks[:limit] if limit else tasks

    def within(self, max_steps: int) -> Limits:
        """The limits of an episode of at most `max_steps` steps; 0 keeps the agent's."""
        return replace(self.limits, max_steps=max_steps) if max_steps else self.limits

    def play(
        self,
        policy: Policy,
        jobs: Sequence[Job],
        on_episode: Callable[[Episode], None] | None = None,
        max_steps: int = 0,
    ) -> Collection:
        """Play all jobs and wait for them; `max_steps` is a longest episode other than the agent's."""
        wanted = self.env.workers or (8 if self.blocking else len(jobs))
        if self._slots is None or (not self.blocking and self._slots.limit < wanted):
            self.close()
            self._slots = Slots(self._make, wanted, blocking=self.blocking, max_reuse=self.env.max_reuse)
        return asyncio.run(
            collect(
                jobs,
                self._slots,
                policy,
                lambda: WindowMemory(self.agent.history_length),
                style=self.style,
                limits=self.within(max_steps),
                attempts=self.env.attempts,
                on_episode=on_episode,
            )
        )

    def _make(self) -> TextEnv:
        if not self.blocking:
            return build(self.env.name, self.env.settings)
        from ..envs.supervised import SupervisedEnv

        # One attempt: a failed episode is played again from its start, by `collect`.
        env: TextEnv = SupervisedEnv(
            self.env.name, self.env.settings, step_timeout=self.env.step_timeout, attempts=1
        )
        return env

    def close(self) -> None:
        """Close all environments."""
        if self._slots is not None:
            self._slots.close()
            self._slots = None
