"""Many askers, one answer: failures stay with their batch, and nobody is left a batch behind."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from hgpo.policies.batcher import Batcher


def test_a_failing_batch_fails_its_askers_only() -> None:
    def answer(questions: list[int]) -> list[int]:
        if 13 in questions:
            raise ValueError("bad luck")
        return [2 * one for one in questions]

    async def go() -> list[object]:
        batcher: Batcher[int, int] = Batcher(answer)
        first = await asyncio.gather(batcher.ask(13), batcher.ask(1), return_exceptions=True)
        return [*first, await batcher.ask(4)]

    one, two, three = asyncio.run(go())
    assert isinstance(one, ValueError)
    assert isinstance(two, ValueError)
    assert three == 8


@pytest.mark.parametrize("beside", [False, True])
def test_who_needs_longer_to_ask_is_waited_for(beside: bool) -> None:
    """Prompts that had to be shortened are encoded twice; their episodes still share the batch of the others."""
    batches: list[list[int]] = []

    def answer(questions: Sequence[int]) -> list[int]:
        batches.append(sorted(questions))
        return list(questions)

    async def go() -> None:
        first: Batcher[int, int] = Batcher(list)
        executor = ThreadPoolExecutor(1) if beside else None
        second: Batcher[int, int] = Batcher(answer, executor, after=first)

        async def episode(number: int) -> None:
            for _ in range(4):
                for _ in range(1 + number):
                    await first.ask(number)
                await second.ask(number)

        await asyncio.gather(*map(episode, range(5)))

    asyncio.run(go())
    assert batches == [[0, 1, 2, 3, 4]] * 4


def test_a_loop_that_is_left_during_a_batch(capfd: pytest.CaptureFixture[str]) -> None:
    """A run that stops leaves the event loop while the thread is at work: nothing hangs, nothing is printed."""
    started, release = threading.Event(), threading.Event()

    def answer(questions: Sequence[int]) -> list[int]:
        started.set()
        release.wait(10)
        return list(questions)

    executor = ThreadPoolExecutor(1)

    async def go() -> None:
        asking = asyncio.ensure_future(Batcher(answer, executor).ask(1))
        while not started.is_set():
            await asyncio.sleep(0.001)
        asking.cancel()

    asyncio.run(go())
    release.set()
    executor.shutdown()
    assert capfd.readouterr().err == ""
