"""Episodes played on from a moment in their middle: environment, memory and policy go on as if nothing had happened."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from hgpo.config.load import load
from hgpo.config.stage import open_stage
from hgpo.envs.actors import expert
from hgpo.errors import BadSetting
from hgpo.play.episode import Moment, play_on, run_episode
from hgpo.policies.scripted import ScriptedPolicy

from ..worlds import Fetch


def setting(engine: str) -> tuple[Any, ScriptedPolicy]:
    stage = open_stage(load(None, [f"env.name={engine}", "agent.prompt=generic"]))
    env = stage.env.make()
    return stage, ScriptedPolicy(lambda: expert(env), stage.style, noise=0.5)


@pytest.mark.parametrize("engine", ["household", "shop"])
@pytest.mark.parametrize("number", [0, 4, 11])
def test_the_rest_of_an_episode_can_be_played_again_and_otherwise(
    engine: str, number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if engine == "shop":
        pytest.importorskip("rapidfuzz")
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    stage, policy = setting(engine)
    task = stage.tasks("train")[number]
    moments: list[Moment] = []

    def keep(moment: Moment) -> None:
        moments.append(moment.copy())
        policy.fork("whole/0", f"kept@{moment.number}")

    def options(**more: Any) -> dict[str, Any]:
        return {"task": task, "style": stage.style, "limits": stage.limits, "seed": 3, **more}

    async def everything() -> None:
        whole = await run_episode(
            stage.env.make(), policy, stage.memory(), group="whole", watch=keep, **options()
        )
        assert [moment.number for moment in moments] == list(range(len(whole.steps)))
        others = set()
        for moment in moments:
            # First otherwise: what is done from a copy must not show in the kept moment.
            for index, seed in enumerate((8, 9, 3)):
                policy.fork(f"kept@{moment.number}", f"rest@{moment.number}/{index}")
                rest = await play_on(
                    moment.copy(), policy, group=f"rest@{moment.number}", index=index, **options(seed=seed)
                )
                assert rest.steps[0].index == moment.number
                assert rest.steps[0].prompt == whole.steps[moment.number].prompt
                others.add(tuple(step.action for step in rest.steps))
            assert rest.steps == whole.steps[moment.number :]
            assert (rest.success, rest.kind) == (whole.success, whole.kind)
        assert len(others) > len(moments), "other draws lead elsewhere"

    asyncio.run(everything())
    assert set(policy.actors) <= {f"kept@{moment.number}" for moment in moments}


def test_an_environment_without_copies_is_named() -> None:
    moment = Moment(Fetch(), open_stage(load("quickstart")).memory(), 0, "", (), {}, "", "", "")
    with pytest.raises(BadSetting, match=r"Fetch cannot be copied"):
        moment.copy()
