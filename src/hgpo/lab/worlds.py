"""Small worlds whose true advantages can be computed, and the policies that act in them.

A world has a few states, a few actions and a goal. What the agent sees is the observation of the state (several
states may share one) and what it remembers of its last `memory` steps; its policy has one row of logits per such
context, so it depends on history as a language agent's does. Every world is drawn from a seed.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from ..errors import UnknownName
from ..steps.columns import BoolArray, FloatArray, IntArray

GOAL_REWARD = 10.0


@dataclass(frozen=True)
class Knobs:
    """What a kind of world can vary."""

    states: int = 10
    actions: int = 4
    horizon: int = 20
    group_size: int = 8
    """Rollouts per batch."""
    memory: int = 2
    """Steps of history that the policy sees."""
    remember: Literal["last", "actions", "first"] = "last"
    """Which steps they are: the last observations, the last with their actions, or the first of the rollout."""
    history: float = 1.0
    """How much the policy's logits depend on the remembered steps (their standard deviation)."""
    preference: float = 0.7
    """How much they depend on the observation alone."""
    stage: float = 0.0
    """Stage of training: weight of the optimal action values in the logits."""
    slip: float = 0.0
    """Chance that an action leads to a random state instead."""
    alias: float = 0.0
    """Chance that a state looks like another one."""
    stuck: float = 0.0
    """Chance that an action does nothing in a state."""
    nothing_happens: bool = False
    """Show the same text after every action that did nothing, whatever the state."""
    looks: int = 1
    """Ways in which a state can look; one is drawn at every visit, so observations are seldom seen again."""
    step_reward: float = 0.0
    """Reward of every step that does not end in the goal."""
    noise: float = 0.0
    """Deviation of random noise on the final reward (two-point, so its mean is known)."""
    cut: bool = False
    """The horizon only cuts the recording: the task would go on (truncated). Otherwise it ends the task."""
    shortcuts: bool = True
    """Whether random moves may lead straight to the goal; otherwise a single move does."""
    chain: bool = False
    """One action per state leads on, the others lead back by up to two states."""
    gamma: float = 0.95


@dataclass(frozen=True)
class SmallWorld:
    """A finite world; arrays over states S, actions A and outcomes B of an action."""

    name: str
    seed: int
    knobs: Knobs
    next_states: IntArray
    """[S, A, B]"""
    chances: FloatArray
    """[S, A, B], sums to 1 over B."""
    rewards: FloatArray
    """[S, A, B]"""
    terminal: BoolArray
    """[S] whether arriving there ends the task."""
    observations: IntArray
    """[S] what the agent sees there."""
    preferences: FloatArray
    """[S, A] logits by observation, before history."""

    @property
    def num_observations(self) -> int:
        """How many observations there are."""
        return int(self.observations.max()) + 1


def generator_for(*parts: int | str) -> np.random.Generator:
    """A random generator decided by the given names and numbers alone."""
    numbers = [zlib.crc32(part.encode()) if isinstance(part, str) else part for part in parts]
    return np.random.default_rng(np.random.SeedSequence(numbers))


def make_world(name: str, seed: int, **changes: object) -> SmallWorld:
    """The world called `name` for a seed; `changes` replace knobs."""
    if name not in WORLDS:
        raise UnknownName("world", name, WORLDS)
    knobs = replace(WORLDS[name].knobs, **changes)  # type: ignore[arg-type]
    rng = generator_for("world", name, seed)
    next_states = _chain(rng, knobs) if knobs.chain else _graph(rng, knobs)
    stuck = rng.random(next_states.shape) < knobs.stuck
    # The first action of a random world walks around its ring: the goal can always be reached.
    stuck[:, 0] &= knobs.chain
    if knobs.chain:
        stuck &= next_states <= np.arange(knobs.states)[:, None]
    next_states = np.where(stuck, np.arange(knobs.states)[:, None], next_states)
    observations = _observations(rng, knobs)
    goal = knobs.states - 1
    if knobs.nothing_happens:
        next_states, observations = _show_nothing(next_states, observations)
    terminal = np.arange(len(next_states)) == goal
    world = _outcomes(name, seed, knobs, next_states, terminal, observations)
    preferences = knobs.preference * rng.normal(size=(world.num_observations, knobs.actions))[observations]
    if knobs.stage:
        preferences = preferences + knobs.stage * _optimal_logits(world)
    return _with_looks(replace(world, preferences=preferences))


def _with_looks(world: SmallWorld) -> SmallWorld:
    """Every state once for each of its looks: S l + s is state s with look l, and a move draws the look of its end."""
    looks, count = world.knobs.looks, len(world.terminal)
    if looks == 1:
        return world

    def again(values: FloatArray) -> FloatArray:
        drawn: FloatArray = np.tile(np.concatenate([values] * looks, axis=-1), (looks, 1, 1))
        return drawn

    ends = np.concatenate([world.next_states + count * look for look in range(looks)], axis=-1)
    names = [world.observations + world.num_observations * look for look in range(looks)]
    return replace(
        world,
        next_states=np.tile(ends, (looks, 1, 1)),
        chances=again(world.chances / looks),
        rewards=again(world.rewards),
        terminal=np.tile(world.terminal, looks),
        observations=np.concatenate(names),
        preferences=np.tile(world.preferences, (looks, 1)),
    )


def _graph(rng: np.random.Generator, knobs: Knobs) -> IntArray:
    """Random transitions with a ring through all states. Int [S, A]."""
    reachable = knobs.states - int(not knobs.shortcuts)
    next_states: IntArray = rng.integers(0, reachable, size=(knobs.states, knobs.actions))
    next_states[:, 0] = (np.arange(knobs.states) + 1) % knobs.states
    return next_states


def _chain(rng: np.random.Generator, knobs: Knobs) -> IntArray:
    """One action leads on, the others back by nothing to two states. Int [S, A]."""
    here = np.arange(knobs.states)
    back = rng.integers(0, 3, size=(knobs.states, knobs.actions))
    next_states: IntArray = np.maximum(here[:, None] - back, 0)
    next_states[here, rng.integers(knobs.actions, size=knobs.states)] = np.minimum(here + 1, knobs.states - 1)
    return next_states


def _observations(rng: np.random.Generator, knobs: Knobs) -> IntArray:
    """What each state looks like; start and goal are never aliased. Int [S]."""
    observations = np.arange(knobs.states)
    inner = np.arange(1, knobs.states - 1)
    aliased = rng.random(len(inner)) < knobs.alias
    observations[inner] = np.where(aliased, rng.integers(1, knobs.states - 1, size=len(inner)), inner)
    return observations


def _show_nothing(next_states: IntArray, observations: IntArray) -> tuple[IntArray, IntArray]:
    """Double the states: S + s is state s after an action that did nothing, and all of those look the same."""
    count = len(next_states)
    idle = next_states == np.arange(count)[:, None]
    seen = np.where(idle, next_states + count, next_states)
    nothing = np.full(count, int(observations.max()) + 1)
    return np.concatenate([seen, seen]), np.concatenate([observations, nothing])


def _outcomes(
    name: str,
    seed: int,
    knobs: Knobs,
    next_states: IntArray,
    terminal: BoolArray,
    observations: IntArray,
) -> SmallWorld:
    """Add slips and reward noise as further outcomes of each action."""
    count, actions = next_states.shape
    options = [(next_states, np.full((count, actions), 1.0 - knobs.slip))]
    if knobs.slip:
        rng = generator_for("slips", name, seed)
        for _ in range(2):
            elsewhere = rng.integers(0, knobs.states - int(not knobs.shortcuts), (count, actions))
            options.append((elsewhere, np.full((count, actions), knobs.slip / 2)))
    states = np.stack([option[0] for option in options], axis=-1)
    chances = np.stack([option[1] for option in options], axis=-1)
    rewards = np.where(terminal[states], GOAL_REWARD, knobs.step_reward)
    if knobs.noise:
        shift = np.where(terminal[states], knobs.noise, 0.0)
        rewards = np.concatenate([rewards - shift, rewards + shift], axis=-1)
        states, chances = np.concatenate([states] * 2, axis=-1), np.concatenate([chances / 2] * 2, axis=-1)
    return SmallWorld(
        name, seed, knobs, states, chances, rewards, terminal, observations, np.zeros((count, actions))
    )


def _optimal_logits(world: SmallWorld) -> FloatArray:
    """Advantages of the optimal policy, scaled to a spread of 1 in each state. Float [S, A]."""
    values = np.zeros(len(world.terminal))
    quality = np.zeros(world.next_states.shape[:2])
    for _ in range(200):
        onward = np.where(world.terminal, 0.0, values)[world.next_states]
        quality = (world.chances * (world.rewards + world.knobs.gamma * onward)).sum(axis=-1)
        values = quality.max(axis=-1)
    centred = quality - quality.mean(axis=1, keepdims=True)
    scaled: FloatArray = centred / np.maximum(centred.std(axis=1, keepdims=True), 1e-9)
    return scaled


@dataclass(frozen=True)
class Kind:
    """A named kind of world and what it is there to show."""

    knobs: Knobs
    purpose: str


GRAPH = Knobs()
MAZE = Knobs(horizon=30, shortcuts=False)
CHAIN = Knobs(states=8, horizon=30, chain=True, preference=0.5, history=0.5)

WORLDS: dict[str, Kind] = {
    "graph": Kind(GRAPH, "deterministic moves, short ways to the goal, policy depends on history"),
    "maze": Kind(MAZE, "a single way into the goal: a household in miniature"),
    "history": Kind(replace(MAZE, history=2.0), "the policy depends on history more than on the state"),
    "slips": Kind(replace(MAZE, slip=0.3), "three moves in ten lead elsewhere"),
    "aliased": Kind(replace(MAZE, alias=0.4, history=1.5), "four states in ten look like another one"),
    "nothing": Kind(
        replace(MAZE, stuck=0.4, nothing_happens=True),
        "'Nothing happens.' hides the state after idle actions",
    ),
    "loops": Kind(replace(MAZE, stuck=0.5), "half of the actions do nothing: trajectories loop"),
    "chain": Kind(CHAIN, "sparse reward at the end of a chain, success near zero"),
    "aliased_chain": Kind(replace(CHAIN, alias=0.3, history=1.0), "the chain with states that look alike"),
    "long": Kind(replace(MAZE, states=16, horizon=50), "fifty steps, as in ALFWorld"),
    "late": Kind(replace(MAZE, stage=1.0), "late in training: most rollouts succeed"),
    "pairs": Kind(replace(MAZE, group_size=2), "two rollouts per task"),
    "small": Kind(replace(MAZE, group_size=4), "four rollouts per task"),
    "large": Kind(replace(MAZE, group_size=16), "sixteen rollouts per task"),
    "costs": Kind(replace(MAZE, step_reward=-0.2, noise=4.0), "a cost per step and a noisy final reward"),
    "memoryless": Kind(replace(MAZE, memory=0), "the policy remembers nothing: depth has nothing to find"),
    "deeper": Kind(replace(MAZE, memory=4, history=1.5), "the policy remembers four steps"),
    "actions": Kind(
        replace(MAZE, remember="actions", history=1.5), "it remembers two steps with their actions"
    ),
    "first": Kind(
        replace(MAZE, remember="first", history=1.5), "it remembers the first two steps, not the last"
    ),
    "rare": Kind(replace(MAZE, memory=0, looks=40), "a state looks different at almost every visit"),
    "cut": Kind(replace(MAZE, cut=True, horizon=12), "recording stops but the task goes on (truncated)"),
}
