"""Training through TRL's own trainer classes on the CPU: the script and the recipe of docs/trl.md, and TRL's hooks."""

from __future__ import annotations

import json
import runpy
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from hgpo import StepBatch, estimate
from hgpo.config import estimator_settings
from hgpo.config.schema import Config
from hgpo.errors import BadSteps, EngineFailed
from hgpo.hooks import Hook, check
from hgpo.play.policy import Reply
from hgpo.trl import RolloutWorker, trainer_settings
from hgpo.trl.hooks import CPU_HOOKS, HOOKS, RECIPE_HOOKS

from .conftest import SMALL
from .page import defined, program
from .test_recipes import played

pytestmark = [pytest.mark.trl, pytest.mark.timeout(600)]
trl = pytest.importorskip("trl")
STEPS = 2


@pytest.mark.parametrize("hook", [*HOOKS, *CPU_HOOKS, *RECIPE_HOOKS], ids=lambda hook: hook.path)
def test_hook_is_as_expected(hook: Hook) -> None:
    assert check(hook) == ""


def test_a_hook_that_moved_is_named_with_the_version() -> None:
    problem = check(Hook(HOOKS[0].module, "RolloutWorkerProtocol.restart", ("self",), "worker.py"))
    assert problem.startswith(
        f"trl {trl.__version__}: {HOOKS[0].module}.RolloutWorkerProtocol.restart does not exist"
    )


def test_a_trl_that_does_not_fit_is_refused_before_anything_is_played(
    config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    from trl.experimental.async_grpo.async_grpo_trainer import RolloutWorkerProtocol

    def check_health(self: Any, patience: float) -> None: ...

    monkeypatch.setattr(RolloutWorkerProtocol, "check_health", check_health)
    worker = RolloutWorker(config, SimpleNamespace())  # type: ignore[arg-type]
    with pytest.raises(
        EngineFailed, match=r"trl .*check_health takes \(self, patience\).*pip install .*\[trl\]"
    ):
        worker.start()


@pytest.fixture(scope="module")
def trained(start: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[tuple[Any, Any]]]:
    """The script of the page, run; its folder, and the batches that TRL trained on."""
    from trl.experimental.async_grpo.async_grpo_trainer import AsyncGRPOTrainer, DataCollatorForRollout

    folder = tmp_path_factory.mktemp("trl") / "out"
    script = folder.parent / "train_trl.py"
    script.write_text(program("train_trl.py"), encoding="utf-8")
    batches: list[tuple[Any, Any]] = []
    collate = DataCollatorForRollout.torch_call

    def spy(self: Any, examples: list[Any]) -> Any:
        batch = collate(self, examples)
        batches.append((examples[0], batch))
        return batch

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DataCollatorForRollout, "torch_call", spy)
        words = [
            str(start),
            "quickstart",
            *SMALL,
            "update.warmup=0",
            "--cpu",
            "--steps",
            str(STEPS),
            "--out",
            str(folder),
        ]
        patch.setattr(sys, "argv", ["train_trl.py", *words])
        runpy.run_path(str(script), run_name="__main__")
    assert AsyncGRPOTrainer.__name__ == "AsyncGRPOTrainer"
    return folder, batches


def test_the_script_starts_on_policy_and_trains(trained: tuple[Path, list[Any]]) -> None:
    folder, _ = trained
    log = json.loads((folder / "trainer_state.json").read_text())["log_history"]
    steps = [row for row in log if "ratio" in row]
    assert [row["step"] for row in steps] == [1, 2]
    assert steps[0]["ratio"] == pytest.approx(1.0, abs=1e-5)
    assert 0 <= steps[0]["kl"] < 1e-6
    assert all(row["grad_norm"] > 1e-3 for row in steps)
    assert steps[0]["hgpo/episodes"] == 8
    assert steps[1]["sample/staleness_max"] == 1
    assert "sample/dropped_stale_total" not in steps[1]


def test_what_trl_trains_on_is_what_estimate_gives(config: Config, trained: tuple[Path, list[Any]]) -> None:
    folder, batches = trained
    expected: dict[tuple[tuple[int, ...], tuple[int, ...]], set[float]] = {}
    for file in sorted(folder.glob("steps-*.jsonl.gz")):
        batch = StepBatch.read(file)
        values = estimate(batch, config.estimator.name, **estimator_settings(config)).advantages
        for row, value in zip(batch.rows(), values):
            assert row["advantage"] == pytest.approx(value, abs=1e-12)
            key = tuple(row["prompt_ids"]), tuple(row["response_ids"])
            expected.setdefault(key, set()).add(float(np.float32(value)))
    trained_on = 0
    for rows, tensors in batches:
        for place, row in enumerate(rows):
            kept = tensors["token_index"][place] >= 0
            advantages, owner = tensors["advantages"][place][kept], tensors["segment_id"][place][kept]
            for number, sample in enumerate(row.samples):
                reply = sample["completion_mask"].astype(bool)
                key = tuple(sample["input_ids"][~reply].tolist()), tuple(sample["input_ids"][reply].tolist())
                mine = advantages[owner == number]
                assert len(mine) == reply.sum() == len(key[1])
                assert set(mine.tolist()) <= expected[key]
                assert len(set(mine.tolist())) == 1
                trained_on += 1
    assert trained_on >= STEPS * 24
    assert max(abs(value) for values in expected.values() for value in values) > 0.1


def test_the_trained_model_can_be_evaluated_and_its_steps_read(
    trained: tuple[Path, list[Any]], start: Path
) -> None:
    folder, _ = trained
    ran = [
        subprocess.run(
            [sys.executable, "-m", "hgpo", *words], capture_output=True, text=True, check=False, timeout=300
        )
        for words in (
            [
                *("eval", str(folder / "model"), "--preset", "quickstart", "--tasks", "2"),
                *("--seeds", "1", "--json", "--logs", str(folder / "logs")),
            ],
            ["advantages", str(folder / "steps-0001.jsonl.gz"), "-o", str(folder / "again.parquet")],
        )
    ]
    assert [one.returncode for one in ran] == [0, 0], ran
    assert json.loads(ran[0].stdout)["episodes"] == 2
    from safetensors.torch import load_file

    before, after = (load_file(path / "model.safetensors") for path in (start, folder / "model"))
    assert before.keys() == after.keys()
    assert max((before[name] - after[name]).abs().max().item() for name in before) > 1e-5


class Broken:
    """A policy that answers a few times and then fails, or never again."""

    def __init__(self, fails: bool) -> None:
        self.fails = fails

    async def encode(self, prompt: str) -> list[int]:
        return [1, 2]

    async def generate(self, request: Any) -> Reply:
        if self.fails and request.step == 1:
            raise RuntimeError("the server is gone")
        return Reply("look", [3], [])

    def finish(self, episode: str) -> None: ...


def ended(worker: RolloutWorker) -> None:
    """Wait until the worker has nothing more to do."""
    for _ in range(200):
        worker.check_health(60.0)
        time.sleep(0.05)


def test_a_worker_that_dies_says_why(config: Config) -> None:
    worker = RolloutWorker(config, Broken(fails=True))
    worker.start()
    with pytest.raises(EngineFailed, match="The rollouts have ended: the server is gone"):
        ended(worker)
    silent = RolloutWorker(config, Broken(fails=False))
    silent.start()
    # Replies without log-probabilities cannot be trained on.
    with pytest.raises(EngineFailed, match="1 tokens and 0 log-probabilities") as told:
        ended(silent)
    assert isinstance(told.value.__cause__, BadSteps)
    waiting = RolloutWorker(config, Broken(fails=True))
    with pytest.raises(EngineFailed, match="No episode has ended"):
        waiting.check_health(-1.0)


def test_weights_of_another_model_are_refused(config: Config, start: Path) -> None:
    import torch

    from hgpo.trl.local import LocalPlayer

    player = LocalPlayer(str(start), config)
    weights = [(name, one.detach() + 1) for name, one in player.model.named_parameters()]
    with pytest.raises(EngineFailed, match=r"named 'no.such.weight', which \w+ForCausalLM does not have"):
        player.send_weights([("no.such.weight", torch.zeros(1))])
    with pytest.raises(EngineFailed, match="did not send 1 of the weights"):
        player.send_weights(weights[1:])
    player.send_weights(weights)
    assert all(torch.equal(one, dict(weights)[name]) for name, one in player.model.named_parameters())


def test_the_recipe_for_the_synchronous_trainer(config: Config, start: Path, tmp_path: Path) -> None:
    import torch
    from datasets import Dataset

    from trl import GRPOConfig

    model, tokenizer, batch = played(config, start)
    kind: Any = defined("recipe: GRPOTrainer", "StepTrainer")
    seen: list[Any] = []
    tokenizer.pad_token = tokenizer.eos_token
    trainer = kind(
        model=model,
        reward_funcs=lambda completions, **_: [0.0] * len(completions),
        args=GRPOConfig(
            str(tmp_path),
            max_steps=1,
            per_device_train_batch_size=2,
            gradient_accumulation_steps=2,
            num_generations=2,
            learning_rate=1e-3,
            use_cpu=True,
            bf16=False,
            report_to="none",
            save_strategy="no",
            logging_steps=1,
        ),
        train_dataset=Dataset.from_dict({"prompt": ["the tasks come from hgpo"] * 8}),
        processing_class=tokenizer,
    )
    trainer.play, trainer.settings = lambda one: batch, {"depth": 2, "invalid_penalty": 0.1}
    loss = trainer._compute_loss

    def spy(one: Any, inputs: Any) -> Any:
        seen.append({name: value.clone() for name, value in inputs.items()})
        return loss(one, inputs)

    trainer._compute_loss = spy
    trainer.train()
    values = estimate(batch, "hgpo", depth=2, invalid_penalty=0.1).advantages
    replies = batch.lists("response_ids")
    rows = len(batch) // 2 * 2
    expected = sorted(
        (round(float(np.float32(values[row])), 5), *replies[row].tolist()) for row in range(rows)
    )
    found = []
    for inputs in seen:
        for ids, mask, advantages in zip(
            inputs["completion_ids"], inputs["completion_mask"], inputs["advantages"]
        ):
            reply = mask.bool()
            assert len(set(advantages[reply].tolist())) == 1
            assert not advantages[~reply].any()
            found.append((round(advantages[0].item(), 5), *ids[reply].tolist()))
    assert sorted(found) == expected
    # On-policy: the sampler's log-probabilities are those of the trainer's model.
    logs = torch.cat([inputs["old_per_token_logps"][inputs["completion_mask"].bool()] for inputs in seen])
    assert (logs < 0).any()
    row = trainer.state.log_history[0]
    assert row["clip_ratio/region_mean"] == 0
    assert row["grad_norm"] > 1e-3


def test_trl_takes_all_settings(config: Config, tmp_path: Path) -> None:
    from dataclasses import replace

    from trl.experimental.async_grpo import AsyncGRPOConfig

    fitting = replace(config, update=replace(config.update, updates=0))
    settings = trainer_settings(fitting)
    found = AsyncGRPOConfig(str(tmp_path), use_cpu=True, **settings)
    assert {name: getattr(found, name) for name in settings} == settings
