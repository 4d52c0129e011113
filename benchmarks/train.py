"""Training speed: tokens per second of the update, its padding, and how far it is from the hardware's limit.

    python benchmarks/train.py                                         # the quick start's model on this CPU
    python benchmarks/train.py --device cuda --model-shape qwen2.5-1.5b --rows 256 --prompt 1024 --reply 64

The rows are synthetic (random tokens, lengths spread by +-30%), the update is the trainer's own. The limit is the
matrix-product rate measured in the same process; a training step needs about 6 floating-point operations per
parameter and token (8 with gradient checkpointing). Prints a table and one JSON line.
"""

from __future__ import annotations

import argparse
import json
import time

import numpy as np
import torch

from hgpo.config.load import load
from hgpo.config.schema import Config, ModelConfig, UpdateConfig
from hgpo.learn.distributed import Processes
from hgpo.learn.learner import Learner
from hgpo.steps.batch import StepBatch
from hgpo.steps.columns import Ragged

SHAPES = {
    "tiny": {},
    "smollm2-135m": {
        "hidden_size": 576, "intermediate_size": 1536, "num_hidden_layers": 30, "num_attention_heads": 9,
        "num_key_value_heads": 3, "vocab_size": 49152,
    },
    "qwen2.5-1.5b": {
        "hidden_size": 1536, "intermediate_size": 8960, "num_hidden_layers": 28, "num_attention_heads": 12,
        "num_key_value_heads": 2, "vocab_size": 151936,
    },
}  # fmt: skip


def make(shape: str, device: torch.device, dtype: torch.dtype) -> torch.nn.Module:
    """A randomly initialised model of a known shape."""
    from transformers import Qwen2Config, Qwen2ForCausalLM

    sizes = SHAPES[shape]
    if not sizes:
        small = load("quickstart").model
        sizes = {
            "hidden_size": small.hidden, "intermediate_size": small.intermediate, "num_hidden_layers": small.layers,
            "num_attention_heads": small.heads, "num_key_value_heads": small.heads, "vocab_size": 320,
        }  # fmt: skip
    config = Qwen2Config(
        **sizes, max_position_embeddings=8192, tie_word_embeddings=True, eos_token_id=0, pad_token_id=0,
        attn_implementation="sdpa",
    )  # fmt: skip
    with torch.device(device):
        torch.set_default_dtype(dtype)
        model = Qwen2ForCausalLM(config)
        torch.set_default_dtype(torch.float32)
    return model


def synthetic(count: int, prompt: int, reply: int, vocabulary: int) -> StepBatch:
    """Steps of random tokens with lengths within 30% of the given ones."""
    random = np.random.default_rng(0)
    prompts, replies, advantages = [], [], []
    for _ in range(count):
        sizes = [max(1, int(size * random.uniform(0.7, 1.3))) for size in (prompt, reply)]
        ids = [random.integers(1, vocabulary, size) for size in sizes]
        prompts.append(ids[0])
        replies.append(ids[1])
        advantages.append(float(random.normal()))
    response_ids = Ragged.of(replies, np.int64)
    return StepBatch.from_arrays(
        task=["synthetic"] * count,
        trajectory=list(range(count)),
        step=[0] * count,
        observation=["none"] * count,
        reward=[0.0] * count,
        prompt_ids=Ragged.of(prompts, np.int64),
        response_ids=response_ids,
        logprobs=Ragged(np.full(len(response_ids.values), -1.0), response_ids.offsets),
        advantage=np.array(advantages),
    )


def matmul_rate(device: torch.device, dtype: torch.dtype) -> float:
    """Measured floating-point operations per second of a large matrix product."""
    size = 8192 if device.type == "cuda" else 1536
    a, b = (torch.randn(size, size, device=device, dtype=dtype) for _ in range(2))
    a @ b
    best = float("inf")
    for _ in range(5):
        synchronise(device)
        start = time.perf_counter()
        a @ b
        synchronise(device)
        best = min(best, time.perf_counter() - start)
    return 2 * size**3 / best


def synchronise(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--model-shape", choices=SHAPES, default="tiny")
    parser.add_argument("--rows", type=int, default=512)
    parser.add_argument("--prompt", type=int, default=80)
    parser.add_argument("--reply", type=int, default=5)
    parser.add_argument("--micro-tokens", type=int, default=0, help="default: 8192 on CPU, 32768 on a GPU")
    parser.add_argument("--checkpointing", action="store_true")
    parser.add_argument(
        "--kl", type=float, default=0.0, help="KL coefficient (a reference model when above 0)"
    )
    parser.add_argument("--threads", type=int, default=0)
    args = parser.parse_args()
    if args.threads:
        torch.set_num_threads(args.threads)
    device = torch.device(args.device)
    half = device.type == "cuda"
    dtype = torch.bfloat16 if half else torch.float32
    model = make(args.model_shape, device, dtype)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    config = Config(
        model=ModelConfig(dtype="bfloat16" if half else "float32", gradient_checkpointing=args.checkpointing),
        update=UpdateConfig(
            updates=2,
            micro_tokens=args.micro_tokens or (32768 if half else 8192),
            kl_coef=args.kl,
        ),
    )
    learner = Learner(model, config, Processes(device), 0)
    batch = synthetic(args.rows, args.prompt, args.reply, model.config.vocab_size)
    learner.update(batch.take(np.arange(min(64, len(batch)))), 0)
    synchronise(device)
    if half:
        torch.cuda.reset_peak_memory_stats()
    start = time.perf_counter()
    metrics = learner.update(batch, 1)
    synchronise(device)
    seconds = time.perf_counter() - start
    tokens = metrics["train/tokens"]
    rate = matmul_rate(device, dtype)
    operations = (8 if args.checkpointing else 6) * parameters * tokens
    result = {
        "benchmark": "train",
        "device": torch.cuda.get_device_name() if half else "cpu",
        "threads": torch.get_num_threads(),
        "shape": args.model_shape,
        "parameters": parameters,
        "rows": args.rows,
        "tokens": tokens,
        "seconds": seconds,
        "tokens_per_second": tokens / seconds,
        "padding_share": metrics["train/padding_share"],
        "achieved_gflops": operations / seconds / 1e9,
        "matmul_gflops": rate / 1e9,
        "share_of_limit": operations / seconds / rate,
        "peak_memory_gib": torch.cuda.max_memory_allocated() / 2**30 if half else None,
    }
    for name, value in result.items():
        print(f"{name:<20} {value:,.3f}" if isinstance(value, float) else f"{name:<20} {value}")
    print(json.dumps(result))


if __name__ == "__main__":
    main()
