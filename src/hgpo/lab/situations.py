"""Situations: everything the future of a rollout depends on, a world state together with what is remembered.

The policy sees only the context (remembered steps and the present observation), so several situations can share
one row of its logits. All pairs that can be reached from the start are numbered once; values, visits and
gradients are then exact sums over arrays.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..steps.columns import BoolArray, FloatArray, IntArray
from .worlds import Knobs, SmallWorld, generator_for

Context = tuple[int, ...]
NONE = -1


@dataclass(frozen=True)
class Situations:
    """Reachable situations M of a world with contexts C; index 0 is the start."""

    world: SmallWorld
    contexts: IntArray
    """[C, memory + 1] elements of each context, oldest first, -1 before the start of the rollout."""
    context: IntArray
    """[M] context of each situation."""
    observation: IntArray
    """[M] present observation."""
    following: IntArray
    """[M, A, B] next situation; meaningless where the task ends."""
    chances: FloatArray
    """[M, A, B]"""
    rewards: FloatArray
    """[M, A, B]"""
    ends: BoolArray
    """[M, A, B] whether the task ends with this outcome."""
    arrivals: IntArray
    """[M, A, B] what is seen after it."""

    @property
    def num_contexts(self) -> int:
        """How many rows of logits a policy has."""
        return len(self.contexts)


def situations(world: SmallWorld) -> Situations:
    """Walk the world from its start and number the situations that can be reached."""
    actions = world.next_states.shape[1]
    outcomes = world.next_states.shape[2]
    memory = world.knobs.memory
    start = (0, (*(NONE,) * memory, int(world.observations[0])))
    numbers: dict[tuple[int, Context], int] = {start: 0}
    reached = [start]
    following: list[list[int]] = []
    for state, context in reached:
        rows = []
        for action in range(actions):
            past = _remembered(context, action, world.knobs)
            for outcome in range(outcomes):
                target = int(world.next_states[state, action, outcome])
                if world.terminal[target]:
                    rows.append(0)
                    continue
                after = (target, (*past, int(world.observations[target])))
                if after not in numbers:
                    numbers[after] = len(reached)
                    reached.append(after)
                rows.append(numbers[after])
        following.append(rows)
    states = np.array([state for state, _ in reached])
    contexts = sorted({context for _, context in reached})
    rank = {context: number for number, context in enumerate(contexts)}
    shape = (len(reached), actions, outcomes)
    return Situations(
        world,
        np.array(contexts, dtype=np.int64).reshape(len(contexts), memory + 1),
        np.array([rank[context] for _, context in reached]),
        world.observations[states],
        np.array(following, dtype=np.int64).reshape(shape),
        world.chances[states],
        world.rewards[states],
        world.terminal[world.next_states[states]],
        world.observations[world.next_states[states]],
    )


def _remembered(context: Context, action: int, knobs: Knobs) -> Context:
    """What is remembered once `action` was taken in `context`, its last element being the present observation."""
    *past, seen = context
    if not past:
        return ()
    if knobs.remember == "first":
        # The places fill from the first on, and then stay as they are.
        free = past.index(NONE) if NONE in past else len(past)
        return (*past[:free], seen, *past[free + 1 :]) if free < len(past) else tuple(past)
    return (*past[1:], seen * knobs.actions + action if knobs.remember == "actions" else seen)


def first_logits(places: Situations) -> FloatArray:
    """Logits of the policy to be measured: by observation, plus noise for each context. Float [C, A]."""
    world = places.world
    rng = generator_for("policy", world.name, world.seed)
    by_context = np.zeros((places.num_contexts, world.preferences.shape[1]))
    # States that look alike share their logits: the first state with an observation speaks for it.
    states = [int(np.flatnonzero(world.observations == seen)[0]) for seen in places.contexts[:, -1]]
    by_context += world.preferences[states]
    return by_context + world.knobs.history * rng.normal(size=by_context.shape)


def probabilities(logits: FloatArray) -> FloatArray:
    """Softmax over the last axis."""
    shifted = np.exp(logits - logits.max(axis=-1, keepdims=True))
    share: FloatArray = shifted / shifted.sum(axis=-1, keepdims=True)
    return share
