"""Training speed: tokens per second of the update, against a plain loop and against the hardware's limits.

    python benchmarks/train.py                                         # the quick start's model on this CPU
    python benchmarks/train.py --device cuda --model-shape qwen2.5-1.5b --data rows.npz --lora 0,32 --ours packed,padded
    python benchmarks/train.py --device cuda --model-shape smollm2-135m --deterministic on,off

One line for every way and every rank of the adapters (0: all weights): `packed` and `padded` are the trainer's own
update (optimiser included), `plain` is a loop of a few lines over transformers' model (forward, backward and AdamW on
bfloat16 weights, logits for the replies only; with --lora through PEFT). All get the same rows: those of --data (token
ids end to end, as `--data` of `benchmarks/rows.py` writes them), or random ones with lengths spread by +-30%.

The limits are measured in the same process. Needed operations: per computed token 6 for each weight of the layers (4
when adapters are trained), 8 with --checkpointing, and 6 (4) per reply token for each weight of the output layer; that
at the measured rate of matrix products is the time that cannot be beaten. Every line is printed as it is measured.
"""

from __future__ import annotations

import argparse
import gc
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from hgpo.config.load import load
from hgpo.config.schema import Config, ModelConfig, RolloutConfig, UpdateConfig
from hgpo.learn import learner as learning
from hgpo.learn.batching import micro_batches, minibatches, row_lengths, tensors
from hgpo.learn.distributed import Processes
from hgpo.learn.learner import Learner
from hgpo.models.lora import add_adapters
from hgpo.models.packed import base_model
from hgpo.steps.batch import StepBatch
from hgpo.steps.columns import Ragged

SHAPES: dict[str, dict[str, Any]] = {
    "tiny": {},
    "smollm2-135m": {
        "kind": "Llama", "hidden_size": 576, "intermediate_size": 1536, "num_hidden_layers": 30,
        "num_attention_heads": 9, "num_key_value_heads": 3, "vocab_size": 49152,
    },
    "qwen2.5-1.5b": {
        "kind": "Qwen2", "hidden_size": 1536, "intermediate_size": 8960, "num_hidden_layers": 28,
        "num_attention_heads": 12, "num_key_value_heads": 2, "vocab_size": 151936,
    },
}  # fmt: skip


def make(shape: str, device: torch.device, dtype: torch.dtype) -> Any:
    """A randomly initialised model of a known shape."""
    import transformers

    sizes = dict(SHAPES[shape])
    if not sizes:
        small = load("quickstart").model
        sizes = {
            "kind": "Llama", "hidden_size": small.hidden, "intermediate_size": small.intermediate,
            "num_hidden_layers": small.layers, "num_attention_heads": small.heads,
            "num_key_value_heads": small.heads, "vocab_size": 320,
        }  # fmt: skip
    kind = sizes.pop("kind")
    config = getattr(transformers, f"{kind}Config")(
        **sizes, max_position_embeddings=8192, tie_word_embeddings=True, eos_token_id=0, pad_token_id=0,
        attn_implementation="sdpa",
    )  # fmt: skip
    torch.manual_seed(0)
    with torch.device(device):
        torch.set_default_dtype(dtype)
        model = getattr(transformers, f"{kind}ForCausalLM")(config)
        torch.set_default_dtype(torch.float32)
    return model


def rows_of(prompts: Ragged, replies: Ragged, advantages: Any) -> StepBatch:
    """A batch of steps, each a rollout of its own."""
    count = len(prompts)
    return StepBatch.from_arrays(
        task=["benchmark"] * count,
        trajectory=list(range(count)),
        step=[0] * count,
        observation=["none"] * count,
        reward=[0.0] * count,
        prompt_ids=prompts,
        response_ids=replies,
        logprobs=Ragged(np.full(len(replies.values), -1.0), replies.offsets),
        advantage=np.asarray(advantages, dtype=np.float64),
    )


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
    return rows_of(Ragged.of(prompts, np.int64), Ragged.of(replies, np.int64), advantages)


def stored(path: Path, count: int) -> StepBatch:
    """The first `count` rows of a file (0: all): arrays `prompts`, `prompt_lengths`, `replies`, .., `advantage`."""
    data = np.load(path)
    columns = []
    for name in ("prompt", "reply"):
        many = {"prompt": "prompts", "reply": "replies"}[name]
        offsets = np.concatenate([[0], np.cumsum(data[f"{name}_lengths"])])
        columns.append(Ragged(data[many].astype(np.int64), offsets))
    batch = rows_of(columns[0], columns[1], data["advantage"])
    batch = batch.take(batch["advantage"] != 0)
    return batch.take(np.arange(min(count, len(batch)))) if count else batch


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


class Plain:
    """The loop that a reader would write first: padded rows of similar length, transformers' model, AdamW."""

    def __init__(self, model: Any, config: Config, device: torch.device) -> None:
        if config.model.lora_rank:
            model = add_adapters(model, config.model)
        if config.model.gradient_checkpointing:
            model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
            if config.model.lora_rank:
                model.enable_input_require_grads()
        self.model, self.config, self.device = model.train(), config, device
        trained = [one for one in model.parameters() if one.requires_grad]
        self.optimizer = torch.optim.AdamW(trained, lr=1e-6, fused=True if device.type == "cuda" else None)

    def update(self, batch: StepBatch, seed: int) -> dict[str, float]:
        update, lengths = self.config.update, row_lengths(batch)
        for part in minibatches(len(batch), updates=update.updates, minibatch_rows=256, seed=seed, epoch=0):
            total = int(batch.lists("response_ids").lengths[part].sum())
            for rows in micro_batches(lengths, part, update.micro_tokens):
                made = tensors(batch, rows, 0, self.device)
                hidden = base_model(self.model).model(input_ids=made.input_ids, use_cache=False)[0]
                logits = base_model(self.model).lm_head(hidden.flatten(0, 1)[made.sources])
                ids = made.response_ids.flatten()[made.cells]
                loss = torch.nn.functional.cross_entropy(logits.float(), ids, reduction="none")
                weights = made.advantages[:, None].expand_as(made.response_ids).flatten()[made.cells]
                (loss * weights).sum().div(total).backward()
            self.optimizer.step()
            self.optimizer.zero_grad(set_to_none=True)
        return {"train/tokens": float(lengths.sum())}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--model-shape", choices=SHAPES, default="tiny")
    parser.add_argument("--data", type=Path, help="rows to train on (.npz), in place of random ones")
    parser.add_argument("--rows", type=int, default=0, help="default: all of --data, 512 random ones")
    parser.add_argument("--prompt", type=int, default=80)
    parser.add_argument("--reply", type=int, default=5)
    parser.add_argument("--micro-tokens", type=int, default=0, help="default: 8192 on CPU, 32768 on a GPU")
    parser.add_argument("--ways", default="", help="packed,padded,plain; default: all that run on the device")
    parser.add_argument("--lora", default="0", help="ranks of adapters, 0 trains all weights: 0,32")
    parser.add_argument("--deterministic", default="on", help="on, off or both: on,off")
    parser.add_argument("--kl", default="0", help="KL coefficients (a reference model when above 0): 0,0.01")
    parser.add_argument("--checkpointing", action="store_true")
    parser.add_argument("--repeats", type=int, default=1, help="timed updates; the fastest counts")
    parser.add_argument(
        "--profile", type=Path, help="also write tables of the kernels' times into this folder"
    )
    parser.add_argument("--out", type=Path, help="append the JSON lines to this file")
    parser.add_argument("--threads", type=int, default=0)
    args = parser.parse_args()
    if args.threads:
        torch.set_num_threads(args.threads)
    device = torch.device(args.device)
    half = device.type == "cuda"
    ways = (
        args.ways.split(",")
        if args.ways
        else (["packed", "padded", "plain"] if half else ["padded", "plain"])
    )
    vocabulary = SHAPES[args.model_shape].get("vocab_size", 320)
    batch = (
        stored(args.data, args.rows)
        if args.data
        else synthetic(args.rows or 512, args.prompt, args.reply, vocabulary)
    )
    rate = matmul_rate(device, torch.bfloat16 if half else torch.float32)
    for rank in map(int, args.lora.split(",")):
        for kl in map(float, args.kl.split(",")):
            for way in ways:
                for order in args.deterministic.split(","):
                    if way == "plain" and (kl or order != args.deterministic.split(",")[0]):
                        continue
                    try:
                        result = measure(args, device, batch, rate, way, rank, kl, order == "on")
                    except torch.OutOfMemoryError:
                        result = {"way": way, "lora": rank, "kl": kl, "failed": "out of memory"}
                    print(json.dumps(result), flush=True)
                    if args.out:
                        with args.out.open("a") as file:
                            file.write(json.dumps(result) + "\n")
                    gc.collect()
                    if half:
                        torch.cuda.empty_cache()


def measure(
    args: argparse.Namespace, device: torch.device, batch: StepBatch, rate: float, way: str, rank: int, kl: float,
    deterministic: bool,
) -> dict[str, Any]:  # fmt: skip
    """One line of the table."""
    half = device.type == "cuda"
    dtype = torch.bfloat16 if half else torch.float32
    model = make(args.model_shape, device, dtype)
    config = Config(
        model=ModelConfig(
            dtype="bfloat16" if half else "float32", gradient_checkpointing=args.checkpointing, lora_rank=rank
        ),
        rollout=RolloutConfig(),
        update=UpdateConfig(
            updates=4 if args.data else 2,
            micro_tokens=args.micro_tokens or (32768 if half else 8192),
            kl_coef=kl,
        ),
        deterministic=deterministic,
    )
    before = learning.can_pack
    learning.can_pack = lambda *_: way == "packed"
    try:
        one: Any = (
            Plain(model, config, device) if way == "plain" else Learner(model, config, Processes(device), 0)
        )
    finally:
        learning.can_pack = before
    one.update(batch.take(np.arange(min(256, len(batch)))), 0)
    synchronise(device)
    if half:
        torch.cuda.reset_peak_memory_stats()
    seconds, metrics = float("inf"), {}
    for repeat in range(args.repeats):
        start = time.perf_counter()
        metrics = one.update(batch, 1 + repeat)
        synchronise(device)
        seconds = min(seconds, time.perf_counter() - start)
    if args.profile:
        profile(one, batch, args.profile / f"{args.model_shape}-{way}-lora{rank}-kl{kl:g}.txt")
    tokens = metrics["train/tokens"]
    computed = tokens * (1 - metrics.get("train/shared_share", 0.0))
    base = base_model(one.model)
    layers = sum(
        parameter.numel() for name, parameter in base.model.layers.named_parameters() if "lora" not in name
    )
    head = base.lm_head.weight.numel()
    each = (4 if rank else 6) + (2 if args.checkpointing else 0) + (2 if kl else 0)
    replies = int(batch.lists("response_ids").lengths.sum())
    operations = each * (layers * computed + head * replies)
    return {
        "benchmark": "train",
        "device": torch.cuda.get_device_name() if half else "cpu",
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "shape": args.model_shape,
        "rows_are": args.data.name if args.data else "random",
        "way": way,
        "lora": rank,
        "kl": kl,
        "deterministic": deterministic,
        "checkpointing": args.checkpointing,
        "micro_tokens": config.update.micro_tokens,
        "rows": len(batch),
        "tokens": tokens,
        "computed_tokens": computed,
        "padding_share": metrics.get("train/padding_share"),
        "seconds": seconds,
        "tokens_per_second": tokens / seconds,
        "computed_tokens_per_second": computed / seconds,
        "achieved_tflops": operations / seconds / 1e12,
        "matmul_tflops": rate / 1e12,
        "share_of_limit": operations / seconds / rate,
        "peak_memory_gib": torch.cuda.max_memory_allocated() / 2**30 if half else None,
    }


def profile(one: Any, batch: StepBatch, path: Path) -> None:
    """Where the time of a small update goes, by kernel."""
    from torch.profiler import ProfilerActivity
    from torch.profiler import profile as record

    path.parent.mkdir(parents=True, exist_ok=True)
    some = batch.take(np.arange(min(400, len(batch))))
    with record(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as found:
        one.update(some, 0)
        torch.cuda.synchronize()
    averages = found.key_averages()
    path.write_text(
        averages.table(sort_by="self_cuda_time_total", row_limit=40, max_name_column_width=90)
        + averages.table(sort_by="self_cpu_time_total", row_limit=15)
    )


if __name__ == "__main__":
    main()
