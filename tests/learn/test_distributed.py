"""Several processes under torchrun, weights sharded: they end where one process ends, and none has what it need not."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from hgpo.config.schema import ModelConfig
from hgpo.learn.distributed import Processes
from hgpo.learn.learner import Learner
from hgpo.models.device import DTYPES
from hgpo.models.load import load_weights
from hgpo.models.tiny import make_tiny, make_tokenizer
from hgpo.policies.hf.decoder import Decoder

from ..conftest import ROOT
from ..worlds import FETCH
from .test_learner import rows
from .together import CPU, ENVIRONMENT, launch, tight, work

pytestmark = pytest.mark.slow

RUN = ("train", FETCH, "--quiet")


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """As the processes that are started here have: sums depend on how many threads share them."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def alone(*words: str) -> None:
    subprocess.run([sys.executable, "-m", "hgpo", *words], env=ENVIRONMENT, check=True, timeout=240, cwd=ROOT)


def together(*words: str) -> None:
    launch("hgpo", *words)


def trained(run: Path, iteration: int) -> dict[str, torch.Tensor]:
    return dict(load_file(run / f"checkpoints/{iteration:06d}/trainer.safetensors"))


def apart(one: dict[str, torch.Tensor], two: dict[str, torch.Tensor]) -> float:
    """The largest difference between tensors of the same names."""
    assert one.keys() == two.keys()
    return max(float((one[name].float() - two[name].float()).abs().max()) for name in one)


@pytest.mark.parametrize(
    ("extra", "most"),
    [
        (("update.aggregate=token-mean", "update.micro_tokens=200"), 2e-5),
        (("update.aggregate=step-mean", "update.old_logprobs=recomputed"), 2e-5),
        (("update.regulariser_share=0.3", "update.micro_tokens=200"), 2e-5),
        (("model.lora_rank=2", "update.micro_tokens=200", "model.gradient_checkpointing=true"), 2e-5),
        # Rounding turns small gradients round, and AdamW's first steps are as long as the rate whatever their size.
        (("model.dtype=bfloat16", "update.micro_tokens=200"), 1e-2),
        (("model.dtype=bfloat16", "model.lora_rank=2"), 1e-2),
    ],
)
def test_two_processes_equal_one(tmp_path: Path, extra: tuple[str, ...], most: float) -> None:
    settings = ["iterations=2", "update.kl_coef=0.05", "lr=1e-3", "rollout.tasks=3", *extra]
    one, two = tmp_path / "one", tmp_path / "two"
    alone(*RUN, *settings, "--run", str(one))
    together(*RUN, *settings, "--run", str(two))
    assert apart(trained(one, 2), trained(two, 2)) < most
    # The policies, at the end and (adapters alone) in the checkpoint: the same files with the same names and types.
    for place in ("model", "checkpoints/000002/model"):
        files = sorted(path.name for path in (one / place).iterdir())
        assert files == sorted(path.name for path in (two / place).iterdir())
        for name in files:
            mine, other = one / place / name, two / place / name
            if name.endswith(".safetensors"):
                left, right = dict(load_file(mine)), dict(load_file(other))
                assert [left[key].dtype for key in sorted(left)] == [
                    right[key].dtype for key in sorted(right)
                ]
                assert apart(left, right) < most
            elif name in ("config.json", "generation_config.json"):
                assert json.loads(mine.read_text()) == json.loads(other.read_text())
    # All processes play the panels, each its share: the numbers are those of one.
    rows_of = [[json.loads(line) for line in (run / "metrics.jsonl").open()] for run in (one, two)]
    for mine, other in zip(*rows_of):
        shared = [key for key in mine if key.startswith("eval/") or key in ("success", "steps", "episodes")]
        assert {key: mine[key] for key in shared} == {key: other[key] for key in shared}
    assert "eval/in-domain/success" in rows_of[1][-1]


def test_a_run_goes_on_with_as_many_processes_or_others(tmp_path: Path) -> None:
    settings = ("lr=1e-3", "rollout.tasks=3", "save_every=1", "eval.every=0")
    whole, parts, fewer, more = (tmp_path / name for name in ("whole", "parts", "fewer", "more"))
    together(*RUN, *settings, "iterations=3", "--run", str(whole))
    for folder, first, then in (
        (parts, together, together),
        (fewer, together, alone),
        (more, alone, together),
    ):
        first(*RUN, *settings, "iterations=2", "--run", str(folder))
        then(*RUN, *settings, "iterations=3", "--resume", "--run", str(folder))
    assert apart(trained(whole, 3), trained(parts, 3)) == 0.0, "as many: bit for bit"
    assert 0.0 < apart(trained(whole, 3), trained(fewer, 3)) < 2e-5
    assert 0.0 < apart(trained(whole, 3), trained(more, 3)) < 2e-5


def test_hgpo_eval_is_shared_out_too(tmp_path: Path) -> None:
    run = tmp_path / "run"
    alone(*RUN, "iterations=1", "eval.every=0", "--run", str(run))
    words = ("eval", str(run), "tests.worlds:Fetch", "--seeds", "1,2", "--tasks", "7")
    alone(*words, "--logs", str(tmp_path / "one"))
    together(*words, "--logs", str(tmp_path / "two"))
    one, two = tmp_path / "one", tmp_path / "two"
    names = ["output_seed1.log", "output_seed2.log", "result_in-domain.json"]
    assert [sorted(path.name for path in folder.iterdir()) for folder in (one, two)] == [names, names]
    for name in names[:2]:
        assert (one / name).read_text() == (two / name).read_text(), "every episode, word for word"
    left, right = (json.loads((folder / names[2]).read_text()) for folder in (one, two))
    assert {**left, "seconds": 0} == {**right, "seconds": 0}


@pytest.mark.parametrize(
    ("rank", "where", "old"),
    [(1, "forward", "sampled"), (1, "backward", "sampled"), (0, "forward", "recomputed")],
)
def test_when_one_has_no_memory_all_take_smaller_passes(
    tmp_path: Path, rank: int, where: str, old: str
) -> None:
    found = work("out_of_memory", tmp_path, str(rank), where, "50", old)
    assert max(found[rank]["tried"]) > 50, "it did fail"
    assert found[0]["budget"] == found[1]["budget"] <= 50
    assert found[0]["said"], "one process tells"
    assert found[1]["said"] == []
    config, model = tight(old)
    learner = Learner(model, config, Processes(CPU), 0)
    expected = learner.update(rows(), 0)
    for one in found:
        assert one["updates"] == 2
        for name in ("loss/policy", "loss/kl", "grad_norm", "lr"):
            assert one["metrics"][name] == pytest.approx(expected[name], rel=1e-4, abs=1e-6)
    states = [dict(load_file(tmp_path / f"{one}.safetensors")) for one in range(2)]
    assert apart(states[0], states[1]) == 0.0
    assert apart(states[0], dict(learner.state())) < 1e-4


def test_when_no_pass_is_small_enough_all_end(tmp_path: Path) -> None:
    found = work("out_of_memory", tmp_path, "1", "forward", "0", "sampled")
    assert [one["error"] for one in found] == ["PeerOutOfMemory", "OutOfMemoryError"]


@pytest.mark.parametrize(
    ("lora", "dtype"), [(0, "float32"), (2, "float32"), (0, "bfloat16"), (2, "bfloat16")]
)
def test_engines_play_with_what_is_trained(tmp_path: Path, lora: int, dtype: str) -> None:
    """The decoder and the copy that a CPU plays with, put together from shards, against a model loaded whole."""
    found = work("play", tmp_path, str(lora), dtype)
    assert found[0] == found[1]
    before, after = found[0]["found"]
    start, end = torch.tensor(before["logits"]), torch.tensor(after["logits"])
    saved = load_weights(str(tmp_path / "saved"), DTYPES[dtype])
    with torch.no_grad():
        logits = saved(input_ids=torch.tensor([[8] * 9])).logits[0, -1].float()
    # Another process may sum in another order.
    tolerance = 1e-5 if dtype == "float32" else 0.02
    torch.testing.assert_close(end, logits, rtol=0.0, atol=tolerance)
    assert float((end - start).abs().max()) > 3 * tolerance, "the update moved them further than that"
    assert after["dtype"] == str(saved.dtype) == f"torch.{dtype}"
    sampled = Decoder(saved, [0], 8).sample([[3, 4, 5], [6, 7], [8] * 9], [1, 2, 3], 1.0)
    assert after["replies"] == [one.ids for one in sampled]


@pytest.mark.skipif(
    not Path("/proc/self/clear_refs").exists(), reason="the system does not tell peaks of memory"
)
def test_no_process_holds_more_than_its_share_and_one_tensor(tmp_path: Path) -> None:
    shape = ModelConfig(hidden=768, layers=6, heads=8, intermediate=3072)
    model: Any = make_tiny(shape, 8192, 0, seed=0, positions=64)
    weights = [parameter.numel() * 4 for parameter in model.parameters()]
    size, largest = sum(weights), max(weights)
    model.save_pretrained(tmp_path / "model")
    make_tokenizer(["a b c"], "word", 64).save_pretrained(tmp_path / "model")
    del model
    first, other = work("memory", tmp_path, str(tmp_path / "model"))
    # Some copies of one weight at a time, and what the allocator keeps.
    passing = 4 * largest + 24e6
    print({"size": size, "largest": largest, "first": first, "other": other})
    assert size > 200e6
    assert other["load"] < size / 2 + passing, "its shards"
    assert first["load"] < 1.5 * size + passing, "the whole model in its own memory, and its shards"
    for found in (first, other):
        assert found["write"] < passing, f"{3 * size} bytes pass through"
        assert found["read"] < size + passing, "two moments of its shards, which it had not before"
        assert found["save"] < passing
    assert math.isclose((tmp_path / "saved/model.safetensors").stat().st_size, size, rel_tol=0.01)


def test_gradients_are_exchanged_once_per_optimiser_step_or_pass(tmp_path: Path) -> None:
    config, _ = tight("sampled")
    units = config.model.layers + 1  # every layer is one, and all the rest
    found = {}
    for often in ("step", "pass"):
        found[often] = work("exchanges", tmp_path, often)[1]
        assert found[often]["passes"] > 2 * config.update.updates, "several passes for each step"
    assert found["step"]["reductions"] == units * config.update.updates
    assert found["pass"]["reductions"] == units * found["pass"]["passes"]
    for name in ("loss/policy", "grad_norm"):
        one, other = (found[often]["metrics"][name] for often in ("step", "pass"))
        assert one == pytest.approx(other, rel=1e-4)
