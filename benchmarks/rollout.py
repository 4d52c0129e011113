"""Rollout speed: steps per second through the real episode runner, and engines side by side.

    python benchmarks/rollout.py                                        # the quick start's world and model, this CPU
    python benchmarks/rollout.py --device cuda --model-shape qwen2.5-1.5b --prompt-style household --tasks 16 --group 8
    python benchmarks/rollout.py --device cuda --model-shape qwen2.5-1.5b --engine hf,vllm --replies 24,256,120:512

**Episodes** (no --engine): a model made here is random, so episodes run to their step limit; with --model FOLDER (a
trained one) they end when they end. Generation for finished episodes is counted and must be 0. The hardware's limit is
the time to read the weights once per decoded token and batch at the measured copy rate, plus the arithmetic of the
prompts (each distinct one once) at the measured matrix-product rate. Prints a table and one JSON line.

**Engines** (--engine): requests straight to the engine, --rows at a time, every batch with prompts that were not asked
before (those of --data, as `benchmarks/train.py` reads them, or random ones of 200 to 520 tokens). `--replies 24` has
every reply go on to 24 tokens; `120:512` has replies end after 120 tokens on average, at 512 at the latest: so large a
share of the random model's vocabulary ends a reply. vLLM is started anew for every kind of replies; starting and the
first batch are not timed. The limit is the time to read the weights once per token of the longest reply and what the
replies look back on, at the measured copy rate, plus the arithmetic of the prompts' distinct tokens. A JSON line each.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch
from sampling import compare, copy_rate
from train import SHAPES, make, matmul_rate

from hgpo.config.schema import AgentConfig, Config, EnvConfig, ModelConfig
from hgpo.config.stage import open_stage
from hgpo.models.load import load_model
from hgpo.models.tiny import make_tokenizer
from hgpo.play import Job
from hgpo.play.policy import Reply, Request
from hgpo.policies.hf.engine import HFEngine


class Watched:
    """Any policy; counts requests per episode, and the tokens of distinct prompts that are asked for together."""

    def __init__(self, engine: HFEngine) -> None:
        self.inner, answer = engine.policy(1.0), engine.answer
        self.distinct_tokens = 0
        self.finished: set[str] = set()
        self.for_finished = 0
        self.asked: Counter[str] = Counter()

        def counted(requests: Sequence[Request]) -> list[Reply]:
            self.distinct_tokens += sum(map(len, {tuple(one.prompt_ids) for one in requests}))
            return answer(requests, 1.0)

        self.inner.answer = counted

    async def encode(self, prompt: str) -> Sequence[int]:
        return await self.inner.encode(prompt)

    async def generate(self, request: Request) -> Reply:
        self.for_finished += request.episode in self.finished
        self.asked[request.episode] += 1
        return await self.inner.generate(request)

    def finish(self, episode: str) -> None:
        self.finished.add(episode)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--model-shape", choices=SHAPES, default="tiny")
    parser.add_argument("--model", help="folder of a trained model, in place of --model-shape")
    parser.add_argument("--size", default="tiny", help="size of the houses")
    parser.add_argument("--prompt-style", default="compact")
    parser.add_argument("--tasks", type=int, default=64)
    parser.add_argument("--group", type=int, default=1, help="rollouts of every task")
    parser.add_argument("--max-steps", type=int, default=20)
    parser.add_argument("--max-new-tokens", type=int, default=8)
    parser.add_argument("--batch-tokens", type=int, default=0, help="default: 4096 on CPU, 524288 on a GPU")
    parser.add_argument("--threads", type=int, default=0)
    engines = parser.add_argument_group("engines side by side")
    engines.add_argument("--engine", help="hf, vllm or both: hf,vllm")
    engines.add_argument("--replies", default="16", help="lengths of the replies: 24,256,120:512")
    engines.add_argument("--rows", type=int, default=128, help="requests in a batch")
    engines.add_argument("--repeats", type=int, default=3, help="timed batches")
    engines.add_argument("--data", type=Path, help="rows whose prompts are asked (.npz)")
    engines.add_argument("--seedless", action="store_true", help="vLLM without a seed for every request")
    engines.add_argument("--profile", type=Path, help="write tables of the kernels' times into this folder")
    engines.add_argument("--out", type=Path, help="append the JSON lines to this file")
    args = parser.parse_args()
    if args.threads:
        torch.set_num_threads(args.threads)
    if args.engine:
        compare(args)
        return
    device = torch.device(args.device)
    half = device.type == "cuda"
    dtype = "bfloat16" if half else "float32"
    if args.model:
        model, tokenizer = load_model(args.model, ModelConfig(dtype=dtype), device)
    else:
        model = make(args.model_shape, device, getattr(torch, dtype))
    model.eval()
    config = Config(
        env=EnvConfig("household", {"size": args.size, "max_steps": args.max_steps}),
        agent=AgentConfig(
            prompt=args.prompt_style,
            reasoning=False,
            history_length=2,
            max_steps=args.max_steps,
            max_response_tokens=args.max_new_tokens,
        ),
    )
    stage = open_stage(config)
    tasks = stage.tasks("train", args.tasks)
    if not args.model:
        words = " ".join(stage.task_source.reset(task).text for task in tasks)
        tokenizer = make_tokenizer([words], "bpe", min(model.config.vocab_size, 2000 if half else 320))
    engine = HFEngine(
        model,
        tokenizer,
        max_new_tokens=args.max_new_tokens,
        batch_tokens=args.batch_tokens or (524288 if half else 4096),
    )
    # A few steps first: kernels are chosen and memory is taken on the first calls.
    warm = open_stage(replace(config, agent=replace(config.agent, max_steps=2)))
    jobs = [
        Job(task, task, index, number * args.group + index)
        for number, task in enumerate(tasks)
        for index in range(args.group)
    ]
    warm.play(engine.policy(1.0), jobs)
    policy, before = Watched(engine), engine.counters
    start = time.perf_counter()
    played = stage.play(policy, jobs)
    seconds = time.perf_counter() - start
    counters = engine.counters - before
    steps = sum(len(one.steps) for one in played.episodes)
    weights = sum(parameter.numel() * parameter.element_size() for parameter in model.parameters())
    decode_steps = counters.batches * args.max_new_tokens
    reading = decode_steps * weights / copy_rate(device)
    size = sum(parameter.numel() for parameter in model.parameters())
    arithmetic = 2 * size * policy.distinct_tokens / matmul_rate(device, model.dtype)
    generating = counters.seconds
    result = {
        "benchmark": "rollout",
        "device": torch.cuda.get_device_name() if half else "cpu",
        "threads": torch.get_num_threads(),
        "shape": args.model or args.model_shape,
        "episodes": len(played.episodes),
        "steps": steps,
        "seconds": seconds,
        "steps_per_second": steps / seconds,
        "seconds_generating": generating,
        "seconds_environment_and_prompts": seconds - generating,
        "seconds_over_generating": seconds / generating,
        "prompt_tokens": counters.prompt_tokens,
        "new_tokens": counters.new_tokens,
        "new_tokens_per_second": counters.new_tokens / generating,
        "prompt_padding_share": counters.padded_tokens / (counters.padded_tokens + counters.prompt_tokens),
        "requests_for_finished_episodes": policy.for_finished,
        "requests_per_step": sum(policy.asked.values()) / steps,
        "distinct_prompt_token_share": policy.distinct_tokens / counters.prompt_tokens,
        "limit_seconds_reading_weights": reading,
        "limit_seconds_prompt_arithmetic": arithmetic,
        "generating_over_limit": generating / (reading + arithmetic),
    }
    for name, value in result.items():
        print(f"{name:<34} {value:,.3f}" if isinstance(value, float) else f"{name:<34} {value}")
    print(json.dumps(result))


if __name__ == "__main__":
    main()
