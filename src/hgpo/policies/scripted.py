"""Scripted policies: programs that name the next command, played like any model."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from ..envs import answers
from ..envs.actors import Actor, actor, explored
from ..envs.contract import Observation
from ..errors import BadSetting, EnvironmentFailed, HgpoError
from ..play.policy import Reply, Request
from ..play.prompts import PromptStyle
from ..seeds import generator
from .engine import CountedPolicy, Counters, Source

T = TypeVar("T")

SCRIPTED = ("expert", "random")
"""The names under which scripted policies are evaluated."""


class ScriptedEngine:
    """Plays with programs: fresh `Actor`s from `make`, whatever the temperature."""

    def __init__(self, make: Callable[[int], Actor], style: PromptStyle) -> None:
        self.make, self.style = make, style
        self.counters = Counters()

    @classmethod
    def open(cls, source: Source) -> ScriptedEngine:
        """The environment's `expert`, or `random` commands decided by the seed of each episode."""
        env = source.stage.expert_source
        return cls(lambda seed: actor(source.path, env, seed=seed), source.stage.style)

    def policy(self, temperature: float) -> CountedPolicy:
        """A policy that knows no temperature."""
        return CountedPolicy(SeededPolicy(self.make, self.style), self)

    def pause(self) -> None:
        """There is nothing to give back."""

    def load(self, model: Any) -> None:
        """A program has no weights; the table says so before a run starts."""
        raise BadSetting("A scripted policy has no weights to train; train with rollout.engine=hf.")

    def close(self) -> None:
        """There is nothing to close."""


class ScriptedPolicy:
    """One fresh `Actor` per episode; its commands are wrapped in the form that the style asks for.

    With `noise`, that share of the steps goes wrong: half of them play a random admissible command, half one that
    was admissible earlier and is not any more. `noisy` remembers which, so that nobody clones the mistakes; what
    the actor does after them is worth cloning. An actor with a method `slipped(action)` is told what was done instead
    of its command; one that plays `by_heart` makes no mistakes, for it could not recover.
    """

    def __init__(self, make: Callable[[], Actor], style: PromptStyle, noise: float = 0.0) -> None:
        self.make, self.style, self.noise = make, style, noise
        self.actors: dict[str, Actor] = {}
        self.noisy: set[tuple[str, int]] = set()
        self.earlier: dict[str, set[str]] = {}

    def actor(self, request: Request) -> Actor:
        """Who plays the episode that begins with `request`."""
        return self.make()

    async def encode(self, prompt: str) -> Sequence[int]:
        """Scripts have no tokens."""
        return ()

    async def generate(self, request: Request) -> Reply:
        """The actor's command, or now and then a random one."""
        seen = Observation(request.observation, request.admissible, {"task": request.task})

        def begin() -> None:
            self.actors[request.episode] = self.actor(request)
            self.actors[request.episode].reset(seen)

        if request.step == 0:
            _ask(request, begin)
        actor = self.actors[request.episode]
        action = intended = _ask(request, lambda: answers.action(actor.act(seen)))
        if self.noise > 0 and request.admissible and not getattr(actor, "by_heart", False):
            random = generator("noise", request.seed)
            before = self.earlier.setdefault(request.episode, set())
            if random.random() < self.noise:
                past = sorted(before.difference(request.admissible))
                choices = past if past and random.random() < 0.5 else request.admissible
                action = choices[int(random.integers(len(choices)))]
                self.noisy.add((request.episode, request.step))
                slipped = getattr(actor, "slipped", None)
                if action != intended and slipped is not None:
                    _ask(request, lambda: slipped(action))
            before.update(request.admissible)
        return Reply(self.style.reply(action, request.prompt))

    def fork(self, episode: str, other: str) -> None:
        """Let `other` play on from where `episode` is, with an actor of its own that knows the same."""
        if episode in self.actors:
            self.actors[other] = copy.deepcopy(self.actors[episode])
            self.earlier[other] = set(self.earlier.get(episode, ()))

    def finish(self, episode: str) -> None:
        """Forget the episode's actor."""
        self.actors.pop(episode, None)
        self.earlier.pop(episode, None)


class SeededPolicy(ScriptedPolicy):
    """Actors that draw, each by the seed of its episode: other seeds of an evaluation are other draws."""

    def __init__(self, make: Callable[[int], Actor], style: PromptStyle) -> None:
        super().__init__(lambda: make(0), style)
        self.seeded = make

    def actor(self, request: Request) -> Actor:
        """As the seed of the episode's first request decides."""
        return self.seeded(request.seed)


class ExploringPolicy:
    """Random play that needs no expert: any admissible command, or what the texts suggest where none are listed.

    The seed of a request decides its reply.
    """

    def __init__(self, style: PromptStyle) -> None:
        self.style = style
        self.openings: dict[str, str] = {}

    async def encode(self, prompt: str) -> Sequence[int]:
        """Scripts have no tokens."""
        return ()

    async def generate(self, request: Request) -> Reply:
        """A random command."""
        opening = self.openings.setdefault(request.episode, request.observation)
        texts = list(dict.fromkeys([request.observation, opening]))
        action = explored(texts, request.admissible, generator("explore", request.seed))
        return Reply(self.style.reply(action, request.prompt))

    def finish(self, episode: str) -> None:
        """Forget the episode's opening."""
        self.openings.pop(episode, None)


def _ask(request: Request, call: Callable[[], T]) -> T:
    """Ask an actor. An expert is part of its environment: foreign code."""
    try:
        return answers.contained(call)
    except HgpoError:
        raise
    except Exception as error:
        raise EnvironmentFailed(
            f"The scripted policy failed on task {request.task!r}: {answers.cause(error)}"
        ) from error
