"""The warm start: clone demonstrations, so that learning starts from a policy that acts."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from ..config.schema import Config
from ..models.device import autocast
from ..models.out_of_memory import TokenBudget
from ..policies.encoding import PromptEncoder
from ..seeds import generator
from ..steps.batch import StepBatch
from ..steps.columns import IntArray, Ragged
from .batching import MicroBatch, largest_pass, micro_batches, row_lengths, tensors
from .kernels import fixed_order
from .masters import Masters
from .objective import token_logprobs
from .passes import PackedPasses, can_pack


def tokenised(steps: StepBatch, tokenizer: Any) -> StepBatch:
    """The steps with the token ids of their prompts and replies; every reply ends with the end token."""
    prompts = PromptEncoder(tokenizer).many(steps["prompt"].tolist())
    replies = tokenizer(steps["response"].tolist(), add_special_tokens=False)["input_ids"]
    response_ids = Ragged.of([[*reply, tokenizer.eos_token_id] for reply in replies], np.int64)
    return steps.with_columns(
        prompt_ids=Ragged.of(prompts, np.int64),
        response_ids=response_ids,
        logprobs=Ragged(np.zeros(len(response_ids.values)), response_ids.offsets),
        advantage=np.ones(len(steps)),
    )


def clone(
    model: Any, batch: StepBatch, config: Config, pad_id: int, device: torch.device
) -> Iterator[tuple[int, int, float]]:
    """Maximise the likelihood of the replies; yields (update, updates in all, loss) after every update.

    A bfloat16 model is cloned into by way of float32 copies of its weights, packed; every other as it is.
    """
    settings = config.warm
    packed = packs_clone(model, config, device)
    masters = Masters(dict(model.named_parameters())) if packed else None
    plain = replace(config, rollout=replace(config.rollout, temperature=1.0))
    passes = PackedPasses(model, None, plain, device, pad_id) if packed else None
    if passes is not None:
        passes.begin(batch)
    trained = model.parameters() if masters is None else masters.copies.values()
    optimizer = torch.optim.AdamW(
        [parameter for parameter in trained if parameter.requires_grad],
        lr=settings.lr,
        weight_decay=0.01,
        betas=(0.9, 0.98),
        fused=True if device.type == "cuda" else None,
    )
    budget = TokenBudget(config.update.micro_tokens, "update.micro_tokens")
    lengths = row_lengths(batch)
    per_epoch = -(-len(batch) // settings.batch_rows)
    total, number = max(per_epoch * settings.epochs, settings.updates), 0
    model.train()
    for epoch in range(-(-total // per_epoch)):
        # Rows of similar length share a batch (little padding), batches come in random order.
        random = generator("clone", config.seed, epoch)
        jitter = random.random(len(batch)) * 8
        parts = np.array_split(np.argsort(lengths + jitter, kind="stable"), per_epoch)
        for place in random.permutation(per_epoch)[: total - number]:
            rise = min(1.0, (number + 1) / max(1, total // 20))
            for group in optimizer.param_groups:
                group["lr"] = settings.lr * rise * (1.0 - 0.9 * number / total)
            if passes is not None and masters is not None:
                work = functools.partial(_packed_gradients, passes, masters, batch, parts[place], budget)
            else:
                work = functools.partial(
                    _gradients, model, batch, parts[place], config, budget, pad_id, device
                )
            with fixed_order(device, config.deterministic):
                value = budget.spend(work, functools.partial(model.zero_grad, set_to_none=True))
                torch.nn.utils.clip_grad_norm_(optimizer.param_groups[0]["params"], 1.0)
                optimizer.step()
                if masters is not None:
                    masters.publish()
            number += 1
            # Reading the loss waits for the device, so not at every update.
            yield number, total, float(value) if number % 10 == 0 or number == total else float("nan")
    model.eval()


def packs_clone(model: Any, config: Config, device: torch.device) -> bool:
    """Whether cloning runs packed; prompts are only predicted by padded passes."""
    return can_pack(model, config, device) and config.warm.prompt_weight == 0


def _packed_gradients(
    passes: PackedPasses, masters: Masters, batch: StepBatch, part: IntArray, budget: TokenBudget
) -> torch.Tensor:
    """As `_gradients`, from packed passes into the float32 copies."""
    count = int(batch.lists("response_ids").lengths[part].sum())
    for copied in masters.copies.values():
        copied.grad = None
    value = torch.zeros((), device=passes.device)
    cut = passes.cut(part, budget.tokens)
    budget.used = cut.largest
    for rows in cut.mine:
        tensor = passes.tensors(rows)
        logs, _ = passes.scores(tensor)
        loss = -(logs * tensor.response_mask).sum() / count
        value = value + loss.detach()
        loss.backward()
        masters.collect()
    return value


def _gradients(
    model: Any,
    batch: StepBatch,
    part: IntArray,
    config: Config,
    budget: TokenBudget,
    pad_id: int,
    device: torch.device,
) -> torch.Tensor:
    """Leave the gradients of one update, over the rows numbered `part`, in the model; the loss of its replies."""
    lengths = row_lengths(batch)
    count = int(batch.lists("response_ids").lengths[part].sum())
    words = int((batch.lists("prompt_ids").lengths[part] - 1).sum())
    weight = config.warm.prompt_weight
    model.zero_grad(set_to_none=True)
    value = torch.zeros((), device=device)
    passes = micro_batches(lengths, part, budget.tokens)
    budget.used = largest_pass(lengths, passes)
    for rows in passes:
        tensor = tensors(batch, rows, pad_id, device)
        with autocast(config.model.dtype, device):
            replies, prompts = _likelihood(model, tensor, weight > 0)
        loss = -replies / count
        value = value + loss.detach()
        if prompts is not None:
            loss = loss - weight * prompts / max(1, words)
        loss.backward()
    return value


def _likelihood(model: Any, batch: MicroBatch, prompts: bool) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Summed log-likelihood of the replies and, if asked for, of the prompts' own words."""
    if not prompts:
        logs, _ = token_logprobs(model, batch, 1.0)
        return (logs * batch.response_mask).sum(), None
    output = model(input_ids=batch.input_ids, use_cache=False)
    logs = torch.log_softmax(output.logits[:, :-1].float(), dim=-1)
    chosen = logs.gather(-1, batch.input_ids[:, 1:, None]).squeeze(-1)
    replies = (chosen.gather(1, batch.places) * batch.response_mask).sum()
    return replies, (chosen * batch.prompt_mask[:, 1:]).sum()
