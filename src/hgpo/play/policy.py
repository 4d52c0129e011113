"""What a policy is to the episode runner: something that answers a request, perhaps much later.

`generate` is a coroutine so that a policy may wait for other requests and answer them together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Request:
    """One turn of one live episode."""

    prompt: str
    """The rendered prompt."""
    prompt_ids: Sequence[int]
    """The prompt as the policy's own `encode` gave it; empty for policies without tokens."""
    seed: int
    """Decides the sampling of this reply and of no other."""
    episode: str
    """Which live episode asks; policies that keep a state per episode use it as a key."""
    step: int
    """Index of the step in its episode, from 0."""
    observation: str
    """The raw observation, for scripted policies."""
    admissible: Sequence[str] = ()
    """The commands that do something now, for scripted policies."""
    task: str = ""
    """The task id."""


@dataclass(frozen=True)
class Reply:
    """What the policy said, with the very tokens it sampled."""

    text: str
    """The decoded reply."""
    response_ids: Sequence[int] = ()
    """The sampled token ids, end-of-sequence included when it was sampled."""
    logprobs: Sequence[float] = ()
    """Log-probability of each sampled token under the distribution it was sampled from."""
    truncated: bool = False
    """The reply ran into the token limit."""


class Policy(Protocol):
    """Anything that can act.

    A policy that keeps something of each episode may have a method `fork(episode, other)`: `other` goes on from where
    `episode` is, each by itself from then on.
    """

    async def encode(self, prompt: str) -> Sequence[int]:
        """The prompt as token ids, chat template included; empty for policies without tokens."""
        ...

    async def generate(self, request: Request) -> Reply:
        """Answer one request."""
        ...

    def finish(self, episode: str) -> None:
        """The episode is over: drop whatever is kept for it."""
        ...
