"""What tests let two processes do under torchrun: `launch` starts `python -m tests.learn.together WORK FOLDER ...`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from hgpo.config.schema import Config, ModelConfig, UpdateConfig
from hgpo.interrupts import leave
from hgpo.learn.distributed import Processes
from hgpo.learn.learner import Learner
from hgpo.models.load import load_model, save_model
from hgpo.models.tensors import TensorFile, write_tensors
from hgpo.models.tiny import make_tiny
from hgpo.policies.hf.decoder import Decoder
from hgpo.policies.hf.engine import HFEngine

from ..conftest import ROOT
from .test_learner import rows

CPU = torch.device("cpu")
ENVIRONMENT = {
    **os.environ,
    "OMP_NUM_THREADS": "1",
    "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")]),
}


def launch(module: str, *words: str, timeout: float = 240) -> None:
    """Run `python -m MODULE WORDS` in two processes; fails when one of them fails or it takes too long."""
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "-m", "--"]
    subprocess.run([*torchrun, module, *words], env=ENVIRONMENT, check=True, timeout=timeout, cwd=ROOT)


def work(name: str, folder: Path, *words: str) -> list[Any]:
    """What two processes that do the work called `name` leave in the folder, by rank."""
    launch("tests.learn.together", name, str(folder), *words, timeout=120)
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(2)]


def crowd(most: int, where: str, tried: list[int]) -> None:
    """Let feed-forward layers fail on more than `most` token positions, on the way forward or back."""
    from transformers.models.llama.modeling_llama import LlamaMLP

    def full(size: int) -> None:
        tried.append(size)
        if size > most:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB.")

    plain = LlamaMLP.forward

    def forward(self: Any, x: torch.Tensor) -> torch.Tensor:
        size = x.shape[0] * x.shape[1]
        if where == "forward":
            full(size)
        out: torch.Tensor = plain(self, x)
        if where == "backward" and out.requires_grad:
            out.register_hook(lambda _: full(size))
        return out

    LlamaMLP.forward = forward


def tight(old_logprobs: str) -> tuple[Config, Any]:
    shape = ModelConfig(hidden=16, layers=3, heads=2, intermediate=32)
    update = UpdateConfig(
        updates=2, micro_tokens=10_000, lr=1e-2, warmup=8, kl_coef=0.1, old_logprobs=old_logprobs
    )
    return Config(model=shape, update=update), make_tiny(shape, 20, 0, seed=3, positions=64)


def out_of_memory(
    processes: Processes, folder: Path, rank: str, where: str, most: str, old: str
) -> dict[str, Any]:
    """An update for which one process has too little memory."""
    config, model = tight(old)
    learner = Learner(model if processes.first else None, config, processes, 0)
    tried: list[int] = []
    if processes.rank == int(rank):
        crowd(int(most), where, tried)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            metrics = learner.update(rows(), 0)
        except torch.OutOfMemoryError as error:
            return {"error": type(error).__name__, "budget": learner.budget.tokens}
    write_tensors(folder / f"{processes.rank}.safetensors", learner.state().items(), learner.state())
    return {
        "metrics": metrics,
        "budget": learner.budget.tokens,
        "tried": tried,
        "updates": learner.updates,
        "said": [str(one.message) for one in caught if "no memory" in str(one.message)],
    }


def exchanges(processes: Processes, folder: Path, often: str) -> dict[str, Any]:
    """How often two optimiser steps of several passes each exchange gradients: once per `often`."""
    import torch.distributed as dist

    config, model = tight("sampled")
    config = replace(config, update=replace(config.update, micro_tokens=40))
    learner = Learner(model if processes.first else None, config, processes, 0)
    assert learner.once, "a CPU has the room"
    learner.once = often == "step"
    counts: dict[str, Any] = {"reductions": 0, "passes": 0}
    name = "reduce_scatter_single" if hasattr(dist, "reduce_scatter_single") else "reduce_scatter_tensor"
    plain, scores = getattr(dist, name), learner.passes.scores

    def counted_reduction(*given: Any, **named: Any) -> Any:
        counts["reductions"] += 1
        return plain(*given, **named)

    def counted_scores(*given: Any, **named: Any) -> Any:
        counts["passes"] += 1
        return scores(*given, **named)

    setattr(dist, name, counted_reduction)
    learner.passes.scores = counted_scores  # type: ignore[method-assign]
    counts["metrics"] = learner.update(rows(), 0)
    return counts


def peak() -> int:
    """The most memory that this process has held since the last call of `forget_peak`, in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


def forget_peak() -> int:
    """Bytes held now; the peak counts from here."""
    Path("/proc/self/clear_refs").write_text("5")
    return peak()


def memory(processes: Processes, folder: Path, model: str) -> dict[str, Any]:
    """Bytes by which each phase raises the peak of this process: load, write, read, save."""
    config, small = tight("sampled")
    # Imports and connections are not what is measured.
    Learner(small if processes.first else None, config, processes, 0).update(rows(4), 0)
    config = Config(model=ModelConfig(path=model), update=UpdateConfig(kl_coef=0.0, micro_tokens=64, lr=1e-3))
    found: dict[str, Any] = {}

    def measure(name: str, phase: Callable[[], Any]) -> Any:
        processes.barrier()
        before = forget_peak()
        result = phase()
        found[name] = peak() - before
        return result

    def load() -> tuple[Learner, Any]:
        made, tokenizer = load_model(model, config.model, CPU) if processes.first else (None, None)
        return Learner(made, config, processes, 0), processes.tell(tokenizer)

    learner, tokenizer = measure("load", load)
    learner.update(rows(4), 0)
    file = folder / f"{processes.rank}.safetensors"
    measure("write", lambda: write_tensors(file, learner.state().items(), learner.state()))
    updates = learner.updates
    del learner
    learner, _ = load()
    measure("read", lambda: learner.restore(TensorFile(folder / "0.safetensors"), updates))
    target = folder / "saved" if processes.first else None
    if target is not None:
        target.mkdir()
    measure("save", lambda: save_model(learner.actor, tokenizer, target))
    return found


def play(processes: Processes, folder: Path, lora: str, dtype: str) -> dict[str, Any]:
    """Replies of engines and decoders that put their weights together from shards, before and after an update."""
    shape = ModelConfig(hidden=16, layers=2, heads=2, intermediate=32, lora_rank=int(lora), dtype=dtype)
    config = Config(model=shape, update=UpdateConfig(kl_coef=0.0, lr=1e-2, updates=2))
    model = make_tiny(shape, 20, 0, seed=3, positions=64)
    model = model.to({"float32": torch.float32, "bfloat16": torch.bfloat16}[dtype])
    learner = Learner(model if processes.first else None, config, processes, 0)

    class Tokenizer:
        eos_token_id = 0

    prompts, seeds = [[3, 4, 5], [6, 7], [8] * 9], [1, 2, 3]
    engine = HFEngine(learner.actor, Tokenizer(), max_new_tokens=8)
    decoder = Decoder(learner.actor, [0], 8)
    found = []
    for step in range(2):
        if step:
            learner.update(rows(), 0)
            engine.load(learner.actor)
            decoder.refresh(learner.actor)
        logits = engine.model(input_ids=torch.tensor([prompts[2]])).logits[0, -1].float()
        replies = [one.ids for one in decoder.sample(prompts, seeds, 1.0)]
        found.append({"logits": logits.tolist(), "replies": replies, "dtype": str(engine.model.dtype)})
    save_model(learner.actor, _NoTokenizer(), folder / "saved" if processes.first else None)
    return {"found": found}


class _NoTokenizer:
    def save_pretrained(self, folder: Path) -> None:
        """Nothing to save."""


WORKS: dict[str, Callable[..., dict[str, Any]]] = {
    "exchanges": exchanges,
    "out_of_memory": out_of_memory,
    "memory": memory,
    "play": play,
}


def main(name: str, folder: str, *words: str) -> None:
    processes = Processes(CPU)
    result = WORKS[name](processes, Path(folder), *words)
    (Path(folder) / f"{processes.rank}.json").write_text(json.dumps(result))
    processes.barrier()
    processes.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
    leave(0)
