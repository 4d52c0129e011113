"""The engine seam: found by name, the same for training and evaluation, and stopped whichever it is."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hgpo.config.schema import Config
from hgpo.config.stage import open_stage
from hgpo.errors import BadSetting, MissingExtra, UnknownName
from hgpo.play import Job
from hgpo.play.stage import Stage
from hgpo.policies.engine import ENGINES, Counters, Source, check_engine, open_engine
from hgpo.policies.hf.engine import HFEngine
from hgpo.runs import evaluate, load, train
from hgpo.runs.stopping import Stop, StoppablePolicy, StopRequested

from ..worlds import FETCH, WORLD
from . import one_by_one
from .server import serving

SHORT = ["iterations=2", "eval.every=2"]


@pytest.fixture
def one_by_one_engine(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A further engine in the table; what is asked of it."""
    monkeypatch.setitem(ENGINES, "one-by-one", one_by_one.ENTRY)
    one_by_one.calls.clear()
    return one_by_one.calls


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with the default engine."""
    folder = tmp_path_factory.mktemp("engine") / "run"
    train(load(FETCH, SHORT), folder, quiet=True)
    return folder


@pytest.fixture
def stage() -> Iterator[Stage]:
    stage = open_stage(load(FETCH, ["env.workers=4"]))
    yield stage
    stage.close()


def fetch_it(prompt: str) -> str:
    """What the expert says, from the prompt alone."""
    *_, now = prompt.splitlines()
    if "can : give" in prompt.splitlines():
        return "give"
    wish = prompt.splitlines()[0].split()[-1]
    words = now.replace(",", "").replace(".", "").split()
    return f"take {words[words.index(wish) - 1]}"


def test_unknown_names_and_missing_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnknownName, match=r"Unknown engine 'vlm'. Did you mean 'vllm'"):
        check_engine("vlm")
    monkeypatch.setitem(sys.modules, "vllm", None)
    with pytest.raises(MissingExtra, match=r"engine 'vllm' needs the package 'vllm'.*pip install .*\[vllm\]"):
        check_engine("vllm")


@pytest.mark.parametrize(
    ("setting", "error", "sentence"),
    [
        ("rollout.engine=hff", UnknownName, "Unknown engine 'hff'"),
        ("rollout.engine=vllm", MissingExtra, r"engine 'vllm' needs the package 'vllm'"),
        ("rollout.memory_share=1.5", BadSetting, r"memory_share.*1\.5"),
        ("rollout.memory_share=0", BadSetting, r"memory_share.*0"),
        ("rollout.engine=endpoint", BadSetting, "hgpo eval --engine endpoint"),
        ("rollout.engine=scripted", BadSetting, "cannot take the new weights"),
        ("update.importance_cap=2", BadSetting, r"importance_cap=2.0 .* expected recomputed"),
        ("update.loss=pop", UnknownName, "Unknown loss 'pop'. Did you mean 'ppo'"),
    ],
)
def test_a_run_that_cannot_be_is_refused_before_any_work(
    setting: str, error: type[Exception], sentence: str, tmp_path: Path
) -> None:
    with pytest.raises(error, match=sentence):
        train(load(FETCH, [setting]), tmp_path / "run", quiet=True)
    assert not (tmp_path / "run").exists()


def test_another_engine_trains_the_same_run(run: Path, tmp_path: Path, one_by_one_engine: list[str]) -> None:
    """A file and a line in the table: the same numbers as the default, whose batches are other ones."""
    train(load(FETCH, [*SHORT, "rollout.engine=one-by-one"]), tmp_path / "run", quiet=True)
    ours, theirs = (
        [json.loads(line) for line in (one / "metrics.jsonl").read_text().splitlines()]
        for one in (tmp_path / "run", run)
    )
    for mine, other in zip(ours, theirs, strict=True):
        assert mine["success"] == other["success"]
        assert mine.get("steps") == other.get("steps")
        assert mine.get("loss/policy", 0.0) == pytest.approx(other.get("loss/policy", 0.0), abs=1e-4)
    assert ours[1]["seconds/generate"] > 0
    played = ["policy 1.0", "pause", "load"]
    assert one_by_one_engine == ["open", "policy 0.4", *played, *played, "policy 0.4", "close"]


def test_evaluation_plays_with_any_engine(run: Path, tmp_path: Path, one_by_one_engine: list[str]) -> None:
    def success(path: str, **options: Any) -> float:
        result = evaluate(path, seeds=(1,), tasks=10, logs=str(tmp_path / "logs"), allow_env=WORLD, **options)
        return float(result["success"])

    assert success("expert", preset=FETCH) == 1.0
    assert success("random", preset=FETCH) < 1.0
    assert success(str(run)) == success(str(run), engine="one-by-one")
    assert one_by_one_engine == ["open", "policy 0.4", "close"]
    with serving(fetch_it) as server:
        assert success("some-model", preset=FETCH, engine="endpoint", url=server.url) == 1.0
        assert {one["model"] for one in server.seen} == {"some-model"}
        assert len(server.seen) == 20
    with pytest.raises(UnknownName, match="Unknown engine 'hff'"):
        success(str(run), engine="hff")
    with pytest.raises(BadSetting, match="--url is ''"):
        success("some-model", preset=FETCH, engine="endpoint")


def test_programs_are_evaluated_without_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And a model on a server that happens to be called like one of them is not taken for it."""
    monkeypatch.setitem(sys.modules, "torch", None)
    options = {"preset": FETCH, "seeds": (1,), "tasks": 4, "logs": str(tmp_path)}
    assert evaluate("expert", **options)["success"] == 1.0
    with serving(fetch_it) as server:
        assert evaluate("random", engine="endpoint", url=server.url, **options)["success"] == 1.0
        assert {one["model"] for one in server.seen} == {"random"}


def opened(name: str, config: Config, stage: Stage, run: Path, url: str) -> Any:
    path = {"hf": str(run / "model"), "scripted": "expert"}.get(name, "some-model")
    return open_engine(name, Source(config, stage, path, url=url))


@pytest.mark.parametrize("name", ["scripted", "endpoint", "hf"])
def test_a_stop_ends_play_with_any_engine(name: str, run: Path, stage: Stage) -> None:
    """After the request nothing more is asked; the engine itself is none the worse for it."""
    jobs = [Job(task, task, 0, 1) for task in stage.tasks("train")[:12]]
    stop = Stop()

    def finished(_: Any) -> None:
        stop.requested = True

    with serving(fetch_it) as server:
        engine = opened(name, load(FETCH), stage, run, server.url)
        policy = StoppablePolicy(engine.policy(0.4), stop)
        assert len(stage.play(policy, jobs).episodes) == 12
        whole: Counters = engine.counters
        with pytest.raises(StopRequested):
            stage.play(policy, jobs, finished)
        asked = engine.counters - whole
        assert 0 < asked.requests < whole.requests
        with pytest.raises(StopRequested):
            stage.play(policy, jobs)
        assert engine.counters - whole == asked, "nothing is asked once a stop was requested"
        stop.requested = False
        assert len(stage.play(policy, jobs).episodes) == 12
        engine.close()


def test_a_stop_while_a_thread_is_at_work(run: Path, stage: Stage, capfd: pytest.CaptureFixture[str]) -> None:
    """With environments that block, replies are made in a thread: it ends its batch, and nobody hears of it."""
    from hgpo.models.device import pick_device
    from hgpo.models.load import load_model

    stop = Stop()
    model, tokenizer = load_model(str(run / "model"), load(FETCH).model, pick_device("cpu"))
    engine = HFEngine(model.eval(), tokenizer, max_new_tokens=4, beside=True)
    answer = engine.answer

    def slow(requests: Any, temperature: float) -> Any:
        stop.requested = True  # arrives while the batch is under way
        time.sleep(0.1)
        return answer(requests, temperature)

    engine.answer = slow  # type: ignore[method-assign]
    jobs = [Job(task, task, 0, 1) for task in stage.tasks("train")[:12]]
    with pytest.raises(StopRequested):
        stage.play(StoppablePolicy(engine.policy(1.0), stop), jobs)
    engine.close()
    assert engine.counters.batches == 1
    assert engine.counters.requests == 4
    assert capfd.readouterr().err == ""


def test_counters_are_what_happened_in_between() -> None:
    before = Counters(requests=2, batches=1, prompt_tokens=30, new_tokens=4, padded_tokens=5, seconds=0.5)
    during = Counters(requests=1, batches=1, prompt_tokens=10, new_tokens=2, padded_tokens=0, seconds=0.25)
    assert (before + during) - before == during
