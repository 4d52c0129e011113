"""Seconds of whole iterations on a GPU: play in ALFWorld, estimate, update, with random weights of a real shape.

    python benchmarks/iteration.py --data data/alfworld/games.jsonl.xz --tokenizer FOLDER --model-shape qwen2.5-1.5b \\
        --lora 32
    python benchmarks/iteration.py --data data/alfworld/games.jsonl.xz --tokenizer FOLDER --model-shape smollm2-135m \\
        --max-steps 50

A model of random weights would play every episode to its limit. So every reply is sampled from the model, with its
tokens, lengths and cost, and what is done is what the expert would do, but for a share of mistakes (--noise): episodes
end when such episodes end. So large a share of the vocabulary ends a reply that replies have as many tokens as commands
have. Prompts, groups, estimator and update are the trainer's. One JSON line for each iteration.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from train import SHAPES, make

from hgpo.config import estimator_settings, load
from hgpo.config.stage import open_stage
from hgpo.envs.actors import expert
from hgpo.estimators.estimate import arrange, compute
from hgpo.learn.distributed import Processes
from hgpo.learn.learner import Learner
from hgpo.learn.selection import select
from hgpo.models.load import load_tokenizer
from hgpo.play.policy import Reply, Request
from hgpo.policies.hf.engine import HFEngine
from hgpo.policies.scripted import ScriptedPolicy
from hgpo.runs.rollout import roll_out


class Dubbed:
    """Samples from the model and says what a script says."""

    batched = True

    def __init__(self, engine: HFEngine, script: ScriptedPolicy) -> None:
        self.policy, self.script = engine.policy(1.0), script

    async def encode(self, prompt: str) -> Sequence[int]:
        return await self.policy.encode(prompt)

    async def generate(self, request: Request) -> Reply:
        sampled = await self.policy.generate(request)
        said = await self.script.generate(request)
        return Reply(said.text, sampled.response_ids, sampled.logprobs)

    def finish(self, episode: str) -> None:
        self.policy.finish(episode)
        self.script.finish(episode)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="ALFWorld's games")
    parser.add_argument("--tokenizer", required=True, help="folder of a tokenizer")
    parser.add_argument("--model-shape", choices=SHAPES, default="qwen2.5-1.5b")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--lora", type=int, default=0)
    parser.add_argument("--kl", type=float, default=0.0)
    parser.add_argument("--max-steps", type=int, default=30)
    parser.add_argument("--reply", type=int, default=7, help="mean tokens of a reply; 24 at most")
    parser.add_argument("--noise", type=float, default=0.4, help="share of the steps that are mistakes")
    parser.add_argument("--iterations", type=int, default=4)
    parser.add_argument("--tasks", type=int, default=16)
    parser.add_argument("--micro-tokens", type=int, default=32768)
    parser.add_argument("--deterministic", choices=["on", "off"], default="on")
    parser.add_argument("--out", type=Path, help="append the JSON lines to this file")
    args = parser.parse_args()
    device = torch.device(args.device)
    half = device.type == "cuda"
    words = [
        f"env.data={args.data}", "history_length=4", "estimator=hgpo_lambda", f"max_steps={args.max_steps}",
        "agent.max_response_tokens=24", "agent.max_prompt_tokens=1536", f"model.lora_rank={args.lora}",
        f"update.kl_coef={args.kl}", f"update.micro_tokens={args.micro_tokens}", f"rollout.tasks={args.tasks}",
        f"deterministic={'true' if args.deterministic == 'on' else 'false'}", "lr=1e-6",
        f"model.dtype={'bfloat16' if half else 'float32'}",
    ]  # fmt: skip
    config = load("alfworld-smollm2", words)
    stage = open_stage(config)
    tasks = stage.tasks(config.env.split)
    model = make(args.model_shape, device, torch.bfloat16 if half else torch.float32)
    vocabulary = model.config.vocab_size
    ends = np.random.default_rng(1).choice(np.arange(4, vocabulary), vocabulary // args.reply, replace=False)
    model.generation_config.eos_token_id = ends.tolist()
    processes = Processes(device)
    learner = Learner(model, config, processes, 0)
    engine = HFEngine(
        learner.actor,
        load_tokenizer(args.tokenizer),
        max_new_tokens=24,
        batch_tokens=config.rollout.batch_tokens,
    )
    for number in range(args.iterations + 1):
        script = ScriptedPolicy(lambda: expert(stage.expert_source), stage.style, args.noise)
        start, before = time.perf_counter(), engine.counters
        policy: Any = Dubbed(engine, script)
        rollout = roll_out(stage, policy, config, processes, tasks, number * args.tasks, number)
        played = time.perf_counter()
        result = arrange(
            rollout.batch, compute(rollout.batch, config.estimator.name, estimator_settings(config))
        )
        trained, _ = select(rollout.batch.with_columns(advantage=result.advantages), config.update)
        estimated = time.perf_counter()
        metrics = learner.update(trained, number)
        updated = time.perf_counter()
        engine.load(learner.actor)
        if half:
            torch.cuda.synchronize()
        end = time.perf_counter()
        counters = engine.counters - before
        line = {
            "benchmark": "iteration",
            "device": torch.cuda.get_device_name() if half else "cpu",
            "shape": args.model_shape,
            "lora": args.lora,
            "kl": args.kl,
            "deterministic": args.deterministic == "on",
            "max_steps": args.max_steps,
            "iteration": number,
            "warm_up": number == 0,
            "steps": len(rollout.batch),
            "success": rollout.metrics["success"],
            "seconds": end - start,
            "play": played - start,
            "generating": counters.seconds,
            "estimate": estimated - played,
            "update": updated - estimated,
            "weights_to_sampler": end - updated,
            "prompt_tokens": counters.prompt_tokens,
            "new_tokens": counters.new_tokens,
            "rows": metrics["train/rows"],
            "tokens": metrics["train/tokens"],
            "shared_share": metrics["train/shared_share"],
            "update_tokens_per_second": metrics["train/tokens"] / (updated - estimated),
            "logprob_gap": metrics["engine/logprob_gap"],
            "peak_memory_gib": torch.cuda.max_memory_allocated() / 2**30 if half else None,
        }
        print(json.dumps(line), flush=True)
        if args.out:
            with args.out.open("a") as file:
                file.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
