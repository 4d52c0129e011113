"""Real runs of verl on the CPU, through its own entry point: one process, two, resumed, and in a broken world.

Each takes a minute or two, nearly all of it imports in Ray's workers, so the tests share them.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from hgpo import StepBatch, estimate
from hgpo.config import estimator_settings
from hgpo.runs.folder import RunFolder

pytest.importorskip("verl")
pytestmark = [pytest.mark.verl, pytest.mark.timeout(1500)]

ROOT = Path(__file__).resolve().parents[2]
# A policy that knows some commands, so that returns differ and the advantages are not all zero.
SETTINGS = [
    "quickstart",
    "warm.episodes=80",
    "warm.epochs=12",
    "agent.max_steps=12",
    "agent.max_response_tokens=10",
    "model.tokenizer=word",
    "update.kl_coef=0.01",
    "update.updates=3",
]


def hgpo(*words: str) -> str:
    """Run the command in the repository's root; what it printed."""
    done = subprocess.run(
        [sys.executable, "-m", "hgpo", *words],
        cwd=ROOT,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")]),
            "OMP_NUM_THREADS": "1",
        },
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, f"hgpo {' '.join(words)}: {done.stdout[-2000:]}\n{done.stderr[-6000:]}"
    return done.stdout


def dry_run(run: Path, *words: str) -> dict:
    return json.loads(hgpo("verl", "dry-run", *words, "--run", str(run), "--json").splitlines()[-1])


@pytest.fixture(scope="module")
def one(tmp_path_factory):
    run = tmp_path_factory.mktemp("verl") / "one"
    return run, dry_run(run, *SETTINGS)


@pytest.fixture(scope="module")
def two(tmp_path_factory, one):
    """Two training processes, one step; then resumed for another."""
    run = tmp_path_factory.mktemp("verl") / "two"
    first = dry_run(run, *SETTINGS, "--processes", "2", "--steps", "1")
    rows = list(StepBatch.read(run / "rows.parquet").rows())
    return run, first, rows, dry_run(run, "--resume", "--processes", "2", "--steps", "1")


def check_numbers(run: Path, world: str = "") -> StepBatch:
    """What verl trained on equals `estimate` on the dumped rows, and is not trivial."""
    batch = StepBatch.read(run / "rows.parquet")
    config = RunFolder(run).config(allow_env=[world] if world else ())
    trained = batch["advantage"].astype(float)
    for iteration in np.unique(batch["iteration"]):
        places = np.flatnonzero(batch["iteration"] == iteration)
        expected = estimate(
            batch.take(places), config.estimator.name, **estimator_settings(config)
        ).advantages
        np.testing.assert_allclose(trained[places], expected, atol=1e-6)
    assert np.abs(trained).max() > 0.1
    return batch


def by_step(rows):
    """Rows by task, rollout and step; verl's own ids differ from run to run."""
    return {(row["task_id"], row["trajectory"].rpartition("/")[2], row["step"]): row for row in rows}


def test_one_process_trains_on_our_advantages(one):
    run, result = one
    assert result["steps"] == 2
    assert result["largest_difference"] <= 1e-6
    batch = check_numbers(run)
    assert set(batch["iteration"]) == {1, 2}
    assert {"task", "trajectory", "step", "observation", "reward", "advantage", "prompt_ids"} <= set(
        batch.column_names
    )
    metrics = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert [row["iteration"] for row in metrics] == [0, 1, 2]
    assert metrics[1]["episodes"] == 8
    assert metrics[1]["updates"] == 3
    assert metrics[1]["lost_groups"] == 0
    assert metrics[2]["grad_norm"] > 0
    assert "eval/in-domain/success" in metrics[0]
    assert "eval/in-domain/success" in metrics[2]
    # Sampler and trainer hold the same weights; they differ by verl's bfloat16 in the trainer.
    assert 0 < metrics[1]["engine/logprob_gap"] < 0.05
    assert metrics[1]["seconds/rollout"] + metrics[1]["seconds/update"] < metrics[1]["seconds"]


def test_the_prompts_are_those_of_the_local_runner(one):
    """The same task, seed and actions lead to the same prompts, as text and as tokens."""
    import torch

    from hgpo.config.stage import open_stage
    from hgpo.models.load import load_model
    from hgpo.play import WindowMemory, run_episode
    from hgpo.play.policy import Reply
    from hgpo.policies.encoding import PromptEncoder

    run, _ = one
    config = RunFolder(run).config()
    _, tokenizer = load_model(str(run / "start"), config.model, torch.device("cpu"))
    stage = open_stage(config)
    episodes: dict[str, list] = {}
    for row in StepBatch.read(run / "rows.parquet").rows():
        episodes.setdefault(row["trajectory"], []).append(row)
    assert len(episodes) == 16
    for steps in episodes.values():
        steps.sort(key=lambda row: row["step"])

        class Repeat:
            def __init__(self, steps):
                self.steps = steps

            async def encode(self, prompt):
                return PromptEncoder(tokenizer)(prompt)

            async def generate(self, request):
                return Reply(self.steps[request.step]["response"])

            def finish(self, episode): ...

        found = asyncio.run(
            run_episode(
                stage.env.make(),
                Repeat(steps),
                WindowMemory(config.agent.history_length),
                task=steps[0]["task_id"],
                style=stage.style,
                limits=stage.limits,
                seed=steps[0]["episode_seed"],
            )
        )
        assert [step.prompt for step in found.steps] == [row["prompt"] for row in steps]
        assert [list(step.prompt_ids) for step in found.steps] == [list(row["prompt_ids"]) for row in steps]


def test_the_first_iteration_is_the_local_trainers(one):
    """The same settings play the same tasks with the same replies, here and there."""
    import torch

    from hgpo.config.stage import open_stage
    from hgpo.learn.distributed import Processes
    from hgpo.models.load import load_model
    from hgpo.policies.hf.engine import HFEngine
    from hgpo.runs.rollout import roll_out

    run, _ = one
    config = RunFolder(run).config()
    device = torch.device("cpu")
    model, tokenizer = load_model(str(run / "start"), config.model, device)
    engine = HFEngine(model.eval(), tokenizer, max_new_tokens=config.agent.max_response_tokens)
    policy = engine.policy(1.0)
    stage = open_stage(config)
    tasks = stage.tasks(config.env.split, config.env.tasks)
    local = by_step(roll_out(stage, policy, config, Processes(device), tasks, 0, 1).batch.rows())
    there = by_step(row for row in StepBatch.read(run / "rows.parquet").rows() if row["iteration"] == 1)
    assert local.keys() == there.keys()
    for key, row in local.items():
        assert list(row["response_ids"]) == list(there[key]["response_ids"])
        assert row["reward"] == there[key]["reward"]


def test_two_processes_play_the_same_and_resume(one, two):
    run, first, rows, resumed = two
    assert first["steps"] == 1
    before = by_step(row for row in StepBatch.read(one[0] / "rows.parquet").rows() if row["iteration"] == 1)
    same = by_step(rows)
    assert before.keys() == same.keys()
    for key, row in before.items():
        assert row["action"] == same[key]["action"]
        assert row["advantage"] == pytest.approx(same[key]["advantage"], abs=1e-6)
    assert resumed["steps"] == 2
    batch = check_numbers(run)
    assert set(batch["iteration"]) == {1, 2}
    assert "Resuming from" in (run / "verl.log").read_text(errors="replace")
    # The resumed step goes on with the next tasks.
    seen = [set(batch["task_id"][batch["iteration"] == step]) for step in (1, 2)]
    straight = StepBatch.read(one[0] / "rows.parquet")
    assert seen[1] == set(straight["task_id"][straight["iteration"] == 2])
    assert seen[0].isdisjoint(seen[1])


def test_the_exported_model_can_be_evaluated(one, tmp_path):
    run, _ = one
    words = ["eval", str(run), "--tasks", "2", "--seeds", "123", "--logs", str(tmp_path), "--json"]
    found = json.loads(hgpo(*words))
    assert found["episodes"] == 2
    assert found["model"] == str(run / "model")


def test_compare_eval_and_inspect_read_the_run_like_a_local_one(one, tmp_path):
    """The same preset trained here and by verl, on the same panel."""
    from hgpo.runs.folder import LAYOUT, LOCAL, VERL

    run, _ = one
    local = tmp_path / "local"
    words = ["eval.tasks=2", "rollout.tasks=2", "rollout.group_size=4", "rollout.keep_every=1"]
    hgpo("train", *SETTINGS, *words, "iterations=2", "eval.every=2", "--run", str(local), "--quiet")
    ours, theirs = RunFolder(local).description(), RunFolder(run).description()
    assert (ours.trainer, theirs.trainer) == (LOCAL, VERL)
    assert ours.panels == theirs.panels
    assert ours.training_tasks == theirs.training_tasks
    assert ours.estimator == theirs.estimator
    assert RunFolder(local).results().keys() == RunFolder(run).results().keys()
    expected = [
        entry.name.rstrip("/") for entry in LAYOUT if "/N" not in entry.name and "glob" not in entry.name
    ]
    absent = {name for name in expected if not (run / name).exists()}
    assert absent == {"not_finite.jsonl.gz", "tensorboard"}

    table = hgpo("compare", str(local), str(run), "--out", str(tmp_path / "comparison"))
    # Called by what differs between them, and by the trainer that is not ours.
    assert re.search(r"^.+, verl - (?!.*, verl).+: [+-]", table, re.MULTILINE), table
    result = json.loads((tmp_path / "comparison" / "comparison.json").read_text())
    assert [group["iterations"] for group in result["groups"]] == [[0, 2], [0, 2]]
    # Both began with the same policy and played the same tasks with the same seeds.
    assert result["groups"][0]["start"] == result["groups"][1]["start"]

    options = ["--tasks", "2", "--seeds", "123", "--logs", str(tmp_path / "logs"), "--json"]
    found = json.loads(hgpo("eval", str(run), "--checkpoint", "2", *options))
    assert found["model"] == str(RunFolder(run).verl_model(2))
    assert found["success"] == json.loads(hgpo("eval", str(run), *options))["success"]
    assert f"{theirs.estimator['name']} with" in hgpo("inspect", str(run))


def test_adapters_are_trained_played_and_exported_merged(tmp_path):
    """A LoRA run: what `hgpo eval` plays is the policy that verl trained and evaluated last."""
    from safetensors.torch import load_file

    run, world = tmp_path / "lora", "tests.verl.worlds:Corridor"
    words = [
        f"env={world}",
        "agent.prompt=generic",
        "agent.max_steps=9",
        "model.lora_rank=4",
        "update.lr=0.02",
    ]
    result = dry_run(run, "quickstart", *words, "eval.tasks=8")
    assert result["steps"] == 2
    check_numbers(run, world)
    start, model = (load_file(run / name / "model.safetensors") for name in ("start", "model"))
    assert start.keys() == model.keys()
    moved = {name for name in start if (start[name].float() - model[name].float()).abs().max() > 1e-4}
    assert moved
    assert all("_proj" in name for name in moved)
    options = [
        "--tasks",
        "8",
        "--seeds",
        "123",
        "--allow-env",
        world,
        "--logs",
        str(tmp_path / "logs"),
        "--json",
    ]
    found = json.loads(hgpo("eval", str(run), *options))
    first, *_, last = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    played = ("success", "steps")
    assert {name: found[name] for name in played} == {
        name: pytest.approx(last[f"eval/in-domain/{name}"]) for name in played
    }
    # How long the episodes are depends on every reply: the model without its adapters plays others.
    assert last["eval/in-domain/return"] != first["eval/in-domain/return"]
    again = json.loads(hgpo("eval", str(run), "--checkpoint", "2", *options))
    assert again["steps"] == found["steps"]


def test_an_interrupt_ends_ray_and_all_of_its_processes(tmp_path):
    import signal
    import time

    run, mark = tmp_path / "run", f"HGPO_TEST_FAMILY={tmp_path}".encode()

    def family():
        found = set()
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                if mark in (folder / "environ").read_bytes() and int(folder.name) != os.getpid():
                    found.add(int(folder.name))
            except OSError:
                continue
        return found

    started = subprocess.Popen(
        [sys.executable, "-m", "hgpo", "verl", "dry-run", "quickstart", "--run", str(run)],
        cwd=ROOT,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")]),
            "HGPO_TEST_FAMILY": str(tmp_path),
        },
        stderr=subprocess.PIPE,
        text=True,
    )
    log, end = run / "verl.log", time.monotonic() + 300
    while time.monotonic() < end and not (log.exists() and "hgpo> " in log.read_text(errors="replace")):
        assert started.poll() is None, started.stderr.read()
        time.sleep(0.5)
    assert len(family()) > 5
    started.send_signal(signal.SIGINT)
    _, said = started.communicate(timeout=120)
    assert started.returncode not in (0, 2)
    assert family() == set()
    assert "verl is up; its workers load the model" in said


def test_a_run_is_not_overwritten(one):
    run, _ = one
    done = subprocess.run(
        [sys.executable, "-m", "hgpo", "verl", "dry-run", "quickstart", "--run", str(run)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 2
    assert "--resume" in done.stderr


def test_an_asynchronous_mode_trains_on_our_advantages(tmp_path):
    """The same mixin on verl's own colocated asynchronous trainer, which plays ahead while it trains."""
    run = tmp_path / "async"
    result = dry_run(
        run,
        "quickstart",
        "env=tests.verl.worlds:Corridor",
        "agent.prompt=generic",
        "agent.max_steps=5",
        "update.old_logprobs=recomputed",
        "trainer.v1.trainer_mode=hgpo_colocate_async",
        # The sampler plays ahead, with older weights: verl corrects for that, token by token.
        "algorithm.rollout_correction.rollout_is=token",
    )
    assert result["steps"] == 2
    batch = check_numbers(run, "tests.verl.worlds:Corridor")
    assert "rollout_corr/rollout_is_mean" in (run / "verl.log").read_text(errors="replace")
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert all(row["engine/logprob_gap"] > 0 for row in rows[1:])
    # Rollouts of a group start from the same cell, which the row's seed decides.
    first = {}
    for row in batch.rows():
        if row["step"] == 0:
            first.setdefault(row["task"], set()).add(row["observation"])
    assert len(first) == 4
    assert all(len(seen) == 1 for seen in first.values())


def test_a_world_that_raises_hangs_and_dies_does_not_stop_the_run(tmp_path):
    """Three of eight tasks can never be played: their groups are replaced and counted, the run goes on."""
    run = tmp_path / "faulty"
    result = dry_run(
        run,
        "quickstart",
        "env=tests.verl.worlds:Faulty",
        "env.attempts=1",
        "env.step_timeout=3",
        "agent.prompt=generic",
        "agent.max_steps=5",
        "rollout.tasks=4",
        "rollout.group_size=2",
        "update.old_logprobs=recomputed",
    )
    assert result["steps"] == 2
    metrics = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    lost = sum(row.get("lost_groups", 0) for row in metrics)
    assert lost >= 3
    assert sum(row.get("environment_failures", 0) for row in metrics) >= 2 * lost
    batch = check_numbers(run, "tests.verl.worlds:Faulty")
    # Only whole groups were trained on, four in each iteration.
    for iteration in (1, 2):
        part = batch.take(np.flatnonzero(batch["iteration"] == iteration))
        rollouts = {(row["task"], row["trajectory"]) for row in part.rows()}
        assert len(rollouts) == 8
        assert len({task for task, _ in rollouts}) == 4
    assert not {"train/0", "train/1", "train/2"} & set(batch["task_id"])
    log = (run / "verl.log").read_text(errors="replace")
    for cause in ("the engine lost its game file", "no answer within 3 s", "ended with status 3"):
        assert cause in log
