"""Episodes that ask in turns, so that environments in other processes give what those in this one give.

A policy that answers whatever is waiting in one batch gives replies whose last bits depend on the batch. Environments
in this process answer at once, and all live episodes ask together; those in other processes answer when they are
done. Here every live episode waits until all of them have asked, and they ask in the order of their jobs: the batches
are the same, run after run, however long the processes take.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from .policy import Policy, Reply, Request

PATIENCE = 0.5
"""Seconds after which a waiting episode asks again whether the run is to stop."""


class Turns:
    """What the episodes of one collection share.

    Args:
        policy: answers them.
        live: how many episodes have yet to ask or to end.
    """

    def __init__(self, policy: Policy, live: Callable[[], int]) -> None:
        self.policy, self.live = policy, live
        self.waiting: dict[int, asyncio.Future[None]] = {}

    def of(self, position: int) -> Policy:
        """The policy as the episode of the job at `position` sees it."""
        return _Turn(self, position)

    def look(self) -> None:
        """Let all ask if none is missing; to be called whenever an episode ends."""
        if len(self.waiting) < self.live():
            return
        ready, self.waiting = self.waiting, {}
        for position in sorted(ready):
            if not ready[position].done():
                ready[position].set_result(None)

    async def wait(self, position: int) -> None:
        """Wait for the turn of the job at `position`."""
        mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.waiting[position] = mine
        self.look()
        stopping = getattr(self.policy, "check", None)
        while not mine.done():
            await asyncio.wait({mine}, timeout=PATIENCE)
            if not mine.done() and stopping is not None:
                stopping()


class _Turn:
    def __init__(self, turns: Turns, position: int) -> None:
        self.turns, self.position = turns, position

    async def encode(self, prompt: str) -> Sequence[int]:
        """At once: a prompt's ids do not depend on the others."""
        return await self.turns.policy.encode(prompt)

    async def generate(self, request: Request) -> Reply:
        """When every live episode has asked."""
        await self.turns.wait(self.position)
        return await self.turns.policy.generate(request)

    def finish(self, episode: str) -> None:
        """The policy may forget the episode."""
        self.turns.policy.finish(episode)
