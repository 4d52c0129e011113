"""The episode runner and the collector."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from hgpo.envs import Observation, Transition
from hgpo.envs.pool import EnvPool
from hgpo.errors import BadSetting, EnvironmentFailed
from hgpo.play import Job, Limits, WindowMemory, collect, record, run_episode, style
from hgpo.play.policy import Reply, Request
from hgpo.policies.scripted import ScriptedPolicy

from ..worlds import Expert, Fetch

COMPACT = style("compact")


class Counting(ScriptedPolicy):
    """The expert, with one token a word, remembering every request."""

    def __init__(self) -> None:
        super().__init__(Expert, COMPACT)
        self.requests: list[Request] = []

    async def encode(self, prompt: str) -> Sequence[int]:
        return [len(word) for word in prompt.split()]

    async def generate(self, request: Request) -> Reply:
        self.requests.append(request)
        reply = await super().generate(request)
        return Reply(reply.text, (7, 8), (-0.25, -0.5))


def play(env: Fetch, policy: Counting, **options: object) -> object:
    settings = {"task": "fetch-3", "style": COMPACT, "limits": Limits(6, 100), "seed": 5, **options}
    return asyncio.run(run_episode(env, policy, WindowMemory(2), **settings))  # type: ignore[arg-type]


def test_records_what_was_seen_sampled_and_done() -> None:
    policy = Counting()
    episode = play(Fetch(), policy)
    assert episode.success
    assert [step.action for step in episode.steps][-1] == "give"
    assert [step.terminated for step in episode.steps] == [False, True]
    first, last = episode.steps
    assert first.response_ids == (7, 8)
    assert first.logprobs == (-0.25, -0.5)
    assert last.observation == first.next_observation
    assert first.prompt_ids == tuple(asyncio.run(policy.encode(first.prompt)))
    assert first.action in last.prompt, "the history shows what was done"
    batch = record([episode])
    assert list(batch["response_ids"][0]) == [7, 8]
    assert batch["done"].tolist() == [False, True]


def test_no_request_after_the_end() -> None:
    policy = Counting()
    pool = EnvPool(Fetch, 4, blocking=False)
    jobs = [Job(f"fetch-{n}", f"fetch-{n}", 0, n) for n in range(10)]
    found = asyncio.run(
        collect(jobs, pool, policy, lambda: WindowMemory(1), style=COMPACT, limits=Limits(6, 100))
    )
    assert len(policy.requests) == sum(len(one.steps) for one in found.episodes) == 20
    assert [one.task for one in found.episodes] == [job.task for job in jobs], "order of the jobs"
    assert len(pool.idle) <= 4


def test_seeds_of_steps_differ_and_repeat() -> None:
    one, two = Counting(), Counting()
    play(Fetch(), one)
    play(Fetch(), two)
    seeds = [request.seed for request in one.requests]
    assert seeds == [request.seed for request in two.requests]
    assert len(set(seeds)) == len(seeds)


def test_long_prompts_forget_before_they_lose_the_task() -> None:
    policy = Counting()
    episode = play(Fetch(), policy, limits=Limits(6, 16))
    assert episode.steps[1].shortened
    assert "task : bring" in episode.steps[1].prompt
    with pytest.raises(BadSetting, match="max_prompt_tokens"):
        play(Fetch(), policy, limits=Limits(6, 2))


class Breaks(Fetch):
    """Fails on chosen tasks, so many times each."""

    left: dict[str, int]

    def reset(self, task: str, *, seed: int | None = None) -> Observation:
        self.task = task
        return super().reset(task, seed=seed)

    def step(self, action: str) -> Transition:
        if self.left.get(self.task, 0) > 0:
            self.left[self.task] -= 1
            raise RuntimeError("the world fell over")
        return super().step(action)


def test_failed_episodes_are_played_again_then_their_group_is_dropped() -> None:
    Breaks.left = {"fetch-1": 2, "fetch-2": 99}
    pool = EnvPool(Breaks, 8, blocking=False)
    jobs = [Job(f"fetch-{n}", f"fetch-{n}", index, 100 * n + index) for n in range(4) for index in range(3)]
    found = asyncio.run(
        collect(
            jobs, pool, Counting(), lambda: WindowMemory(1), style=COMPACT, limits=Limits(6, 100), attempts=3
        )
    )
    assert found.dropped == ("fetch-2",)
    assert {one.group for one in found.episodes} == {"fetch-0", "fetch-1", "fetch-3"}
    assert len(found.episodes) == 9, "a group is whole or absent"
    assert found.failures >= 3 + 2
    assert all(one.success for one in found.episodes)
    assert "fell over" in found.causes[0]


def test_a_failure_names_task_and_cause() -> None:
    Breaks.left = {"fetch-3": 1}
    with pytest.raises(EnvironmentFailed, match=r"fetch-3.*fell over"):
        play(Breaks(), Counting())


def test_an_error_of_this_package_from_an_environment_is_its_failure() -> None:
    """A user's mistake is told when the tasks are listed, before any episode (`Stage.tasks`)."""

    class Picky(Fetch):
        def reset(self, task: str, *, seed: int | None = None) -> Observation:
            raise BadSetting("no such data")

    with pytest.raises(EnvironmentFailed, match="Picky failed on task 'fetch-3': BadSetting: no such data"):
        play(Picky(), Counting())


def test_memory_window() -> None:
    memory = WindowMemory(0)
    memory.add("a", "b")
    assert memory.recall() == ()
    with pytest.raises(BadSetting):
        WindowMemory(-1)
