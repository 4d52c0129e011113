"""The seam between a run and what samples its replies: training and evaluation open an engine by its name.

An engine gives policies, takes new weights, counts what it did and is closed in the end. A new one is a file with a
class that fits `Engine` and a line in `ENGINES`; nothing else knows which engines there are.
"""

from __future__ import annotations

import dataclasses
import importlib
import importlib.util
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

from ..config.schema import Config
from ..errors import BadSetting, MissingExtra, UnknownName
from ..play.policy import Policy, Reply, Request
from ..play.stage import Stage


@dataclass(frozen=True)
class Counters:
    """What an engine has done. Take one before and one after: their difference is what happened in between."""

    requests: int = 0
    batches: int = 0
    prompt_tokens: int = 0
    new_tokens: int = 0
    padded_tokens: int = 0
    """Positions of prompts that hold no token."""
    seconds: float = 0.0
    """Spent generating; the replies are on the host by then."""

    def __add__(self, other: Counters) -> Counters:
        return Counters(*(a + b for a, b in zip(dataclasses.astuple(self), dataclasses.astuple(other))))

    def __sub__(self, other: Counters) -> Counters:
        return Counters(*(a - b for a, b in zip(dataclasses.astuple(self), dataclasses.astuple(other))))


class Engine(Protocol):
    """Something that samples replies."""

    counters: Counters
    """Everything so far, over all policies."""

    def policy(self, temperature: float) -> Policy:
        """A policy that samples at `temperature` with the present weights; cheap, one for every use."""
        ...

    def pause(self) -> None:
        """Nothing is asked until the next `load`: memory that an update can use may be given back."""
        ...

    def load(self, model: Any) -> None:
        """Play with the present weights of `model`, the transformers model in training (adapters merged)."""
        ...

    def close(self) -> None:
        """Finish what is under way and give everything back."""
        ...


@dataclass(frozen=True)
class Source:
    """What an engine plays with; each takes from it what it needs."""

    config: Config
    """Lengths of prompts and replies, token budgets, device and type of the weights."""
    stage: Stage
    """Where the episodes are played."""
    path: str = ""
    """Folder or hub id of the model; its name on a server; the name of a scripted policy."""
    model: Any = None
    """The transformers model in training, when its present weights are to be played with."""
    tokenizer: Any = None
    """Its tokenizer."""
    url: str = ""
    """Base address of a server."""


class Opener(Protocol):
    """A class of engines, as the table knows it. It may have a `check(source)` that refuses settings early."""

    def open(self, source: Source) -> Engine:
        """An engine that is ready to play."""
        ...


@dataclass(frozen=True)
class Entry:
    """One line of the table."""

    place: str
    """`module:Class`, imported when the engine is first asked for."""
    packages: tuple[str, ...] = ()
    """What has to be installed for it."""
    extra: str = ""
    """The extra of this package that installs them."""
    trains: bool = False
    """`load` takes new weights, so a run can train with it."""
    alone: bool = False
    """It trains in one process only."""


ENGINES: dict[str, Entry] = {
    "hf": Entry("hgpo.policies.hf.engine:HFEngine", ("torch", "transformers"), "train", trains=True),
    "vllm": Entry("hgpo.policies.vllm:VllmEngine", ("vllm",), "vllm", trains=True, alone=True),
    "endpoint": Entry("hgpo.policies.endpoint:EndpointEngine"),
    "completions": Entry("hgpo.policies.completions:CompletionsEngine", ("transformers",), "train"),
    "scripted": Entry("hgpo.policies.scripted:ScriptedEngine"),
}


def check_engine(name: str, *, training: bool = False, processes: int = 1) -> Entry:
    """The table's entry for `name`, before any work is done for it.

    Raises:
        UnknownName: there is no such engine.
        MissingExtra: a package that it needs is not installed.
        BadSetting: a run that is `training` asks for an engine that cannot take new weights, or not in so many
            `processes`.
    """
    if name not in ENGINES:
        raise UnknownName("engine", name, ENGINES)
    entry = ENGINES[name]
    if training and not entry.trains:
        able = ", ".join(one for one, other in ENGINES.items() if other.trains)
        raise BadSetting(
            f"rollout.engine is {name!r}, which cannot take the new weights of an update; expected one of: {able}. "
            f"To play a trained model with it, use hgpo eval --engine {name}."
        )
    if training and entry.alone and processes > 1:
        raise BadSetting(
            f"rollout.engine is {name!r} in a run of {processes} processes; it trains in one. Use rollout.engine=hf, "
            "or verl for several GPUs."
        )
    for package in entry.packages:
        if not installed(package):
            raise MissingExtra(package, entry.extra, f"The engine {name!r}")
    return entry


def open_engine(name: str, source: Source) -> Engine:
    """The engine called `name`, ready to play; raises what `check_engine` does."""
    return _opener(check_engine(name)).open(source)


def check_opening(name: str, source: Source) -> None:
    """Let the engine called `name` refuse what it would be opened with, before any work is done for it."""
    check = getattr(_opener(check_engine(name)), "check", None)
    if check is not None:
        check(source)


def _opener(entry: Entry) -> Opener:
    module, _, attribute = entry.place.partition(":")
    return cast(Opener, getattr(importlib.import_module(module), attribute))


def installed(package: str) -> bool:
    """Whether a package can be imported; it is not."""
    if package in sys.modules:
        return sys.modules[package] is not None
    return importlib.util.find_spec(package) is not None


class CountedPolicy:
    """Counts for an engine what passes through one of its policies: requests, tokens, seconds.

    Time counts once, however many requests are under way.
    """

    def __init__(self, policy: Policy, engine: Engine) -> None:
        self.inner, self.engine = policy, engine
        self.waiting = 0
        self.since = 0.0

    async def encode(self, prompt: str) -> Sequence[int]:
        """As the policy encodes it."""
        return await self.inner.encode(prompt)

    async def generate(self, request: Request) -> Reply:
        """As the policy answers it."""
        if self.waiting == 0:
            self.since = time.perf_counter()
        self.waiting += 1
        try:
            reply = await self.inner.generate(request)
        finally:
            self.waiting -= 1
            if self.waiting == 0:
                self.engine.counters += Counters(seconds=time.perf_counter() - self.since)
        self.engine.counters += Counters(
            requests=1, prompt_tokens=len(request.prompt_ids), new_tokens=len(reply.response_ids)
        )
        return reply

    def finish(self, episode: str) -> None:
        """The policy may forget the episode."""
        self.inner.finish(episode)
