"""Engines side by side, for `benchmarks/rollout.py --engine`: the same fresh prompts, replies of any lengths."""

from __future__ import annotations

import argparse
import gc
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from train import make, matmul_rate, stored, synchronise

from hgpo.errors import HgpoError
from hgpo.models.packing import pack
from hgpo.models.tiny import make_tokenizer
from hgpo.play.policy import Request
from hgpo.policies.hf.engine import HFEngine


def copy_rate(device: torch.device) -> float:
    """Measured bytes per second, read or written, of a large copy."""
    data = torch.empty(2**30 if device.type == "cuda" else 2**27, dtype=torch.uint8, device=device)
    target = torch.empty_like(data)
    best = float("inf")
    for _ in range(5):
        synchronise(device)
        start = time.perf_counter()
        target.copy_(data)
        synchronise(device)
        best = min(best, time.perf_counter() - start)
    return 2 * len(data) / best


def batches(args: argparse.Namespace, vocabulary: int) -> list[list[np.ndarray]]:
    """So many batches of prompts as are timed, one more to warm up, all of them different."""
    count = (args.repeats + 1) * args.rows
    if args.data:
        held = stored(args.data, 0).lists("prompt_ids")
        order = np.random.default_rng(0).permutation(len(held))[:count]
        prompts = [held[int(row)] for row in order]
    else:
        random = np.random.default_rng(0)
        prompts = [random.integers(4, vocabulary, random.integers(200, 521)) for _ in range(count)]
    return [prompts[start : start + args.rows] for start in range(0, len(prompts), args.rows)]


def requests(prompts: list[np.ndarray], first: int) -> list[Request]:
    return [
        Request("", tuple(ids.tolist()), first + i, str(first + i), 0, "") for i, ids in enumerate(prompts)
    ]


def compare(args: argparse.Namespace) -> None:
    """Print one JSON line for every engine and every kind of replies."""
    device = torch.device(args.device)
    half = device.type == "cuda"
    dtype = torch.bfloat16 if half else torch.float32
    copying, multiplying = copy_rate(device), matmul_rate(device, dtype)
    for engine in args.engine.split(","):
        for replies in args.replies.split(","):
            try:
                result = measure(args, device, dtype, engine, replies, copying, multiplying)
            except HgpoError as error:  # vLLM is not there: the others are measured all the same
                result = {"engine": engine, "replies": replies, "failed": str(error)}
            print(json.dumps(result), flush=True)
            if args.out:
                with args.out.open("a") as file:
                    file.write(json.dumps(result) + "\n")
            gc.collect()
            if half:
                torch.cuda.empty_cache()


def measure(
    args: argparse.Namespace, device: torch.device, dtype: torch.dtype, name: str, replies: str, copying: float,
    multiplying: float,
) -> dict[str, Any]:  # fmt: skip
    """One line of the table."""
    mean, _, most = replies.partition(":")
    limit = int(most or mean)
    model = make(args.model_shape, device, dtype).eval()
    vocabulary = model.config.vocab_size
    random = np.random.default_rng(1)
    ends = (
        random.choice(np.arange(4, vocabulary), max(1, vocabulary // int(mean)), replace=False)
        if most
        else []
    )
    tokenizer = make_tokenizer(["a b c d e f g h"], "word", 20)
    # A single end is one of many thousand tokens that are about equally likely: hardly ever said.
    model.generation_config.eos_token_id = [int(one) for one in ends] or [tokenizer.eos_token_id]
    engine = open_engine(args, name, model, tokenizer, limit)
    seconds, counts, distinct, held, longest = [], 0, 0, 0, 0
    for number, prompts in enumerate(batches(args, vocabulary)):
        asked = requests(prompts, number * 10_000)
        synchronise(device)
        start = time.perf_counter()
        answers = engine.answer(asked, 1.0)
        took = time.perf_counter() - start
        if number == 0:
            continue  # the first batch has everything recorded or compiled
        seconds.append(took)
        sizes = np.array([len(answer.response_ids) for answer in answers])
        counts += int(sizes.sum())
        distinct += len(pack(prompts).tokens)
        held += int((sizes * ([len(p) for p in prompts] + sizes / 2)).sum())
        longest += int(sizes.max())
    config = model.config
    layers = sum(parameter.numel() for parameter in model.model.layers.parameters())
    head = model.lm_head.weight.numel()
    each = 2 * config.num_key_value_heads * (config.hidden_size // config.num_attention_heads)
    size = model.dtype.itemsize
    reading = (longest * (layers + head) + held * config.num_hidden_layers * each) * size / copying
    arithmetic = 2 * layers * distinct / multiplying
    if args.profile and name == "hf":
        profile(
            engine,
            requests(batches(args, vocabulary)[0], 7),
            args.profile / f"{args.model_shape}-{replies}.txt",
        )
    engine.close()
    total = sum(seconds)
    return {
        "benchmark": "sampling",
        "device": torch.cuda.get_device_name() if device.type == "cuda" else "cpu",
        "torch": torch.__version__,
        "shape": args.model_shape,
        "engine": name,
        "seeds": "none" if name == "vllm" and args.seedless else "one a request",
        "replies": replies,
        "rows": args.rows,
        "prompts_are": args.data.name if args.data else "random",
        "batches": len(seconds),
        "seconds": seconds,
        "seconds_a_batch": total / len(seconds),
        "new_tokens": counts,
        "mean_reply": counts / (args.rows * len(seconds)),
        "new_tokens_per_second": counts / total,
        "limit_seconds_reading": reading / len(seconds),
        "limit_seconds_prompt_arithmetic": arithmetic / len(seconds),
        "seconds_over_limit": total / (reading + arithmetic),
    }


def open_engine(args: argparse.Namespace, name: str, model: Any, tokenizer: Any, limit: int) -> Any:
    if name == "hf":
        return HFEngine(model, tokenizer, max_new_tokens=limit, batch_tokens=2**22)
    from hgpo.policies.vllm import VllmEngine

    folder = tempfile.mkdtemp()
    model.save_pretrained(folder, safe_serialization=True)
    tokenizer.save_pretrained(folder)
    # A small share: vLLM gives its memory back when the process ends, and every kind of replies starts one.
    return VllmEngine(
        folder, limit, seeds=not args.seedless, gpu_memory_utilization=0.2, max_model_len=2048, seed=0
    )


def profile(engine: Any, asked: list[Request], path: Path) -> None:
    """Where the time of a batch goes, by kernel."""
    from torch.profiler import ProfilerActivity
    from torch.profiler import profile as record

    path.parent.mkdir(parents=True, exist_ok=True)
    with record(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as found:
        engine.answer(asked, 1.0)
        torch.cuda.synchronize()
    averages = found.key_averages()
    path.write_text(
        averages.table(sort_by="self_cuda_time_total", row_limit=40, max_name_column_width=90)
        + averages.table(sort_by="self_cpu_time_total", row_limit=15)
    )
