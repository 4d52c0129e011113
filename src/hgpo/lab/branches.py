"""Truth from a real engine: the value of every state that a rollout came through, from copies of that state.

The lab's small worlds have exact values. An engine has not, but it can be copied in the middle of an episode, with what
the agent remembers and what its policy keeps: the copy is played on to its end, again and again with other draws, and
the mean return of n such continuations is an unbiased value of the state,

    V(t) = mean over i of G_i(t),     G_i(t) = sum_j gamma^j r_{t+j} of continuation i

Moves are certain in these engines, so taking action a_t in the state of step t *is* the state of step t + 1, and

    Q(t, a_t) = r_t + gamma V(t+1)     A(t) = Q(t, a_t) - V(t)

with V = 0 after the last step: the engine's step limit ends the task as a solved task does. Continuations are fresh
draws, V(t) and V(t+1) share none, so the noise of A(t) has the variance

    S(t) = s2(t) / n + gamma^2 s2(t+1) / n

with s2 the sample variance of the continuations' returns; `corrected.py` takes it out of what is measured.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass

import numpy as np

from ..play.episode import Episode, Moment, play_on, run_episode
from ..play.loops import complete
from ..play.policy import Policy
from ..play.stage import Stage
from ..seeds import derive
from ..steps.columns import FloatArray

LIVE = 512
"""Continuations that are under way together; a model answers them in batches."""


@dataclass(frozen=True)
class Branched:
    """A rollout and the returns of the continuations from each of its states."""

    episode: Episode
    returns: FloatArray
    """[steps, continuations]"""


@dataclass(frozen=True)
class MonteCarlo:
    """Advantages of the steps of one rollout with the variance of their noise; arrays are [steps]."""

    advantages: FloatArray
    noise: FloatArray

    @classmethod
    def of(cls, branched: Branched, gamma: float) -> MonteCarlo:
        """A and S of the formulas above."""
        rewards = np.array([step.reward for step in branched.episode.steps])
        values = branched.returns.mean(axis=1)
        spread = branched.returns.var(axis=1, ddof=1) / branched.returns.shape[1]
        after, after_spread = np.append(values[1:], 0.0), np.append(spread[1:], 0.0)
        return cls(rewards + gamma * after - values, spread + gamma**2 * after_spread)


def branch(
    stage: Stage, policy: Policy, task: str, index: int, *, seed: int, continuations: int, gamma: float
) -> Branched:
    """Play rollout `index` of `task`, then `continuations` from each of its states; `seed` decides every draw."""
    return complete(_branch(stage, policy, task, index, seed, continuations, gamma))


async def _branch(
    stage: Stage, policy: Policy, task: str, index: int, seed: int, continuations: int, gamma: float
) -> Branched:
    moments: list[Moment] = []
    name = f"{task}/{index}"

    def keep(moment: Moment) -> None:
        moments.append(moment.copy())
        _fork(policy, name, f"{name}@{moment.number}")

    episode = await run_episode(
        stage.env.make(),
        policy,
        stage.memory(),
        task=task,
        style=stage.style,
        limits=stage.limits,
        seed=derive(seed, "rollout", task, index),
        index=index,
        start=derive(seed, "start", task),
        env_name=stage.env.name,
        watch=keep,
    )
    gate = asyncio.Semaphore(LIVE)

    async def play(moment: Moment, number: int) -> float:
        async with gate:
            here = f"{name}@{moment.number}"
            _fork(policy, here, f"{here}/{number}")
            rest = await play_on(
                moment.copy(),
                policy,
                task=task,
                style=stage.style,
                limits=stage.limits,
                seed=derive(seed, "continuation", task, index, moment.number, number),
                group=here,
                index=number,
                env_name=stage.env.name,
            )
            return discounted(rest, gamma)

    found = await _all([play(moment, number) for moment in moments for number in range(continuations)])
    for moment in moments:
        policy.finish(f"{name}@{moment.number}")
    return Branched(episode, np.array(found).reshape(len(moments), continuations))


async def _all(plays: Sequence[Awaitable[float]]) -> list[float]:
    return list(await asyncio.gather(*plays))


def discounted(episode: Episode, gamma: float) -> float:
    """The discounted sum of an episode's rewards, from its first step here."""
    return float(sum(gamma**place * step.reward for place, step in enumerate(episode.steps)))


def _fork(policy: Policy, episode: str, other: str) -> None:
    """Let the policy play `other` from where `episode` is; one without a memory of its own needs nothing."""
    fork = getattr(policy, "fork", None)
    if fork is not None:
        fork(episode, other)
