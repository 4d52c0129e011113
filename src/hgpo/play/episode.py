"""The one episode runner: training, evaluation and the distributed engine all play through it.

An episode asks the policy for a reply only while it is live; nothing is generated for finished ones.
"""

from __future__ import annotations

import copy
import functools
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from ..envs import answers
from ..envs.actions import Outcome, action_form, parse
from ..envs.contract import Observation, TextEnv, Transition
from ..envs.prompt import Situation
from ..errors import BadSetting, EnvironmentFailed
from ..seeds import derive
from .memory import Memory, recalled
from .policy import Policy, Reply, Request
from .prompts import PromptStyle, shrink

T = TypeVar("T")


@dataclass(frozen=True)
class Limits:
    """Bounds of one episode."""

    max_steps: int = 50
    """The episode is cut after this many actions."""
    max_prompt_tokens: int = 4096
    """Longer prompts give up old memories first, then the command list, then part of the observation."""

    def __post_init__(self) -> None:
        for name in ("max_steps", "max_prompt_tokens"):
            if getattr(self, name) < 1:
                raise BadSetting(f"{name} is {getattr(self, name)}; expected 1 or more.")


@dataclass(frozen=True)
class Step:
    """One action with everything that led to it and what it led to."""

    index: int
    observation: str
    admissible: tuple[str, ...]
    prompt: str
    prompt_ids: tuple[int, ...]
    response: str
    response_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    action: str
    outcome: Outcome
    reward: float
    next_observation: str
    terminated: bool
    truncated: bool
    shortened: bool
    """The prompt was too long and gave something up."""
    info: Mapping[str, Any] = field(default_factory=dict)
    """What the environment said about the situation in which the action was taken."""


@dataclass(frozen=True)
class Episode:
    """A finished episode."""

    task: str
    group: str
    """Rollouts with the same group are compared with one another."""
    index: int
    """Which rollout of its group this is."""
    seed: int
    steps: tuple[Step, ...]
    success: bool
    score: float
    kind: str = ""
    """Type of the task where the environment names one."""

    @property
    def reward(self) -> float:
        """Sum of the rewards."""
        return sum(step.reward for step in self.steps)

    @property
    def name(self) -> str:
        """Unique inside a batch: group and rollout."""
        return f"{self.group}/{self.index}"


@dataclass(frozen=True)
class Moment:
    """A live episode before its next action: all that the rest of it depends on, but for what the policy keeps."""

    env: TextEnv
    memory: Memory
    number: int
    """Actions taken so far."""
    observation: str
    admissible: tuple[str, ...]
    info: Mapping[str, Any]
    sentence: str
    """The task in words."""
    kind: str
    """Type of the task where the environment names one."""
    opening: str
    """What was seen first."""

    def copy(self) -> Moment:
        """An independent copy, from which the episode can be played on as often as one likes.

        Raises:
            BadSetting: the environment has no method `clone()`.
        """
        clone = getattr(self.env, "clone", None)
        if not callable(clone):
            raise BadSetting(
                f"{type(self.env).__name__} cannot be copied in the middle of an episode. Give it a method `clone()` "
                "that returns an independent copy, or use one that has it: household, alfworld (engine=native), shop, "
                "webshop."
            )
        return replace(self, env=clone(), memory=copy.deepcopy(self.memory))


def task_kind(task: str, info: Mapping[str, Any]) -> str:
    """The type of a task: `task_type` of the environment's info, else the start of the task's own name."""
    if info.get("task_type"):
        return str(info["task_type"])
    parts = [part for part in task.split("/") if part]
    return re.split(r"[-:#\d]", parts[min(1, len(parts) - 1)])[0] if parts else ""


async def inline(call: Callable[[], T]) -> T:
    """Run an environment call here and now: right for environments that answer in microseconds."""
    return call()


async def run_episode(
    env: TextEnv,
    policy: Policy,
    memory: Memory,
    *,
    task: str,
    style: PromptStyle,
    limits: Limits,
    seed: int,
    group: str | None = None,
    index: int = 0,
    start: int | None = None,
    call: Callable[[Callable[[], Any]], Awaitable[Any]] = inline,
    env_name: str = "",
    watch: Callable[[Moment], None] | None = None,
) -> Episode:
    """Play `task` from its start to its end.

    Args:
        env: a free environment; it is this episode's alone until the end.
        policy: answers one request per step.
        memory: fed with every (observation, action); its recall goes into the prompts.
        task: the task id.
        style: how prompts are written and replies are read.
        limits: bounds on steps and prompt tokens.
        seed: decides the environment's randomness and, with the step index, the sampling of each reply.
        group: which rollouts this one is compared with (default: the task).
        index: number of this rollout in its group.
        start: seed of the environment; rollouts of a group share it, so that all start alike (default: `seed`).
        call: how environment calls are run (`inline`, or in a thread for environments that block).
        env_name: what the environment is called in messages (default: its class).
        watch: sees the episode before each of its actions.

    Raises:
        EnvironmentFailed: the environment raised, or answered what the contract does not allow; nothing of the episode
            may be used.
    """
    env_name = env_name or type(env).__name__
    memory.reset()

    def begin() -> Observation:
        return answers.observation(env.reset(task, seed=seed if start is None else start))

    first: Observation = await _guard(call, begin, env_name, task)
    sentence, kind = str(first.info.get("goal") or ""), task_kind(task, first.info)
    opening = Moment(
        env, memory, 0, first.text, tuple(first.admissible), first.info, sentence, kind, first.text
    )
    return await play_on(
        opening,
        policy,
        task=task,
        style=style,
        limits=limits,
        seed=seed,
        group=group,
        index=index,
        call=call,
        env_name=env_name,
        watch=watch,
    )


async def play_on(
    moment: Moment,
    policy: Policy,
    *,
    task: str,
    style: PromptStyle,
    limits: Limits,
    seed: int,
    group: str | None = None,
    index: int = 0,
    call: Callable[[Callable[[], Any]], Awaitable[Any]] = inline,
    env_name: str = "",
    watch: Callable[[Moment], None] | None = None,
) -> Episode:
    """Play an episode from `moment` to its end; the arguments are those of `run_episode`.

    The steps keep their numbers in the whole episode, and so do its limits: what is returned holds the steps from
    `moment` on. `watch` sees every moment before its action; it copies those it wants to keep.
    """
    env, memory, sentence, kind = moment.env, moment.memory, moment.sentence, moment.kind
    observation, admissible, info = moment.observation, moment.admissible, moment.info
    group = task if group is None else group
    name, env_name = f"{group}/{index}", env_name or type(env).__name__

    def act(action: str) -> Transition:
        return answers.transition(env.step(action))

    form = await _guard(call, lambda: action_form(env), env_name, task)
    steps: list[Step] = []
    success, score = False, 0.0
    try:
        for number in range(moment.number, limits.max_steps):
            if watch is not None:
                watch(
                    Moment(env, memory, number, observation, admissible, info, sentence, kind, moment.opening)
                )
            status = str(info.get("status") or "")
            situation = Situation(
                sentence, observation, recalled(memory), number, admissible, status, moment.opening
            )
            prompt, ids, shortened = await _fit(situation, style, policy, limits)
            reply: Reply = await policy.generate(
                Request(prompt, ids, derive(seed, number), name, number, observation, admissible, task)
            )
            tags, reasoning = style.asks(prompt)
            parsed = parse(
                reply.text, admissible, tags=tags, reasoning=reasoning, form=form, chinese=style.chinese
            )
            action = parsed.action
            after: Transition = await _guard(call, functools.partial(act, action), env_name, task)
            last = number + 1 == limits.max_steps
            steps.append(
                Step(
                    index=number,
                    observation=observation,
                    admissible=admissible,
                    prompt=prompt,
                    prompt_ids=ids,
                    response=reply.text,
                    response_ids=tuple(reply.response_ids),
                    logprobs=tuple(reply.logprobs),
                    action=action,
                    outcome=parsed.outcome,
                    reward=after.reward,
                    next_observation=after.text,
                    terminated=after.terminated,
                    truncated=after.truncated or (last and not after.terminated),
                    shortened=shortened,
                    info=info,
                )
            )
            success, score = after.success, after.score
            if after.done:
                break
            memory.add(observation, action)
            observation, admissible, info = after.text, tuple(after.admissible), after.info
    finally:
        policy.finish(name)
    return Episode(task, group, index, seed, tuple(steps), success, max(score, float(success)), kind)


async def _guard(
    call: Callable[[Callable[[], Any]], Awaitable[Any]], step: Callable[[], Any], env_name: str, task: str
) -> Any:
    """Run an environment call; whatever it raises becomes one kind of failure with the cause attached.

    Errors of this package count too: an environment may raise them, and what is wrong with the user's settings was
    said when its tasks were listed, before the first episode.
    """
    try:
        return await call(functools.partial(answers.contained, step))
    except Exception as error:
        raise EnvironmentFailed(
            f"The environment {env_name} failed on task {task!r}: {answers.cause(error)}"
        ) from error


async def _fit(
    situation: Situation, style: PromptStyle, policy: Policy, limits: Limits
) -> tuple[str, tuple[int, ...], bool]:
    """The prompt and its ids within the token limit, and whether something had to be given up."""
    shortened = False
    while True:
        prompt = style.render(situation)
        ids = tuple(await policy.encode(prompt))
        if len(ids) <= limits.max_prompt_tokens:
            return prompt, ids, shortened
        smaller = shrink(situation)
        if smaller is None:
            raise BadSetting(
                f"A prompt of {len(ids)} tokens does not fit into max_prompt_tokens={limits.max_prompt_tokens} "
                "even without history and commands. Raise max_prompt_tokens."
            )
        situation, shortened = smaller, True
