"""From a config to the stage on which its episodes are played."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ..envs.answers import cause, contained
from ..envs.prompt import Situation
from ..envs.registry import is_address, located, own_process
from ..errors import BadSetting, UnknownName
from ..play.episode import Limits
from ..play.memory import METHODS, Memory, MemoryFactory, memory_factory
from ..play.prompts import OWN, style
from ..play.stage import Environments, Stage
from .schema import MEMORIES, AgentConfig, Config


def open_stage(config: Config) -> Stage:
    """The environment, prompts, memory and limits of `config`; nothing is started before it is played on."""
    env, agent = config.env, config.agent
    environments = Environments(
        env.name,
        env.settings,
        supervised=env.execution == "process" or own_process(env.name),
        workers=env.workers,
        step_timeout=env.step_timeout,
        reset_timeout=max(30.0, 3 * env.step_timeout),
        attempts=env.attempts,
        max_reuse=env.max_reuse,
    )
    # One in this process, which plays no episode: it writes the prompts and makes the memories it brings.
    source = functools.cache(environments.make)
    return Stage(
        environments,
        style=style(
            agent.prompt,
            reasoning=agent.reasoning,
            show_admissible=agent.show_admissible,
            show_status=agent.show_status,
            write=_prompt(source, env.name) if agent.prompt == OWN else None,
        ),
        limits=Limits(agent.max_steps, agent.max_prompt_tokens),
        memory=_memory(agent, source, env.name),
    )


def _prompt(source: Callable[[], Any], name: str) -> Callable[[Situation], str]:
    """The environment's own `prompt(situation)`."""

    def write(situation: Situation) -> str:
        own = getattr(source(), "prompt", None)
        if not callable(own):
            raise BadSetting(
                f"agent.prompt=env was given, but {name} has no method prompt(situation) that returns a text. Write "
                "one, or choose another style: agent.prompt=generic."
            )
        text: str = own(situation)
        return text

    return write


def _memory(agent: AgentConfig, source: Callable[[], Any], name: str) -> MemoryFactory:
    """What makes the memory of an episode."""

    def own(which: str) -> MemoryFactory:
        if which != OWN and not is_address(which):
            raise UnknownName(
                "memory",
                which,
                MEMORIES,
                fix="Or give the address of a class: module:Class or path/file.py:Class.",
            )

        def made() -> Memory:
            if which != OWN:
                make: Any = _located(which)
            else:
                make = getattr(source(), "memory", None)
                if not callable(make):
                    raise BadSetting(
                        f"agent.memory=env was given, but {name} has no method memory() that makes one. Write one, "
                        f"or choose another: {', '.join(MEMORIES)}."
                    )
            return _checked(make, which)

        return made

    return memory_factory(agent.memory, agent.history_length, own)


def _located(address: str) -> Any:
    try:
        return contained(functools.partial(located, address))
    except Exception as error:
        raise BadSetting(
            f"The memory {address!r} cannot be loaded ({cause(error)}). Expected the address of a class: module:Class "
            "or path/file.py:Class."
        ) from error


def _checked(make: Any, which: str) -> Memory:
    try:
        memory: Memory = contained(make)
    except Exception as error:
        raise BadSetting(f"The memory {which!r} could not be made ({cause(error)}).") from error
    missing = [method for method in METHODS if not callable(getattr(memory, method, None))]
    if missing:
        raise BadSetting(
            f"The memory {which!r} is a {type(memory).__name__} without {', '.join(missing)}; expected the methods of "
            "hgpo.play.Memory."
        )
    return memory
