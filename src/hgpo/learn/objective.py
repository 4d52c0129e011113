"""The objective: a policy loss by name, k3 KL to a reference, entropy.

`loss_sum` returns sums with the normaliser passed in, so that micro-batches and processes add up to exactly the value
of the whole minibatch. A policy loss gives one value per token; a new one is a function here and a line in `LOSSES`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

from ..config.schema import UpdateConfig
from ..errors import UnknownName
from .batching import MicroBatch, Replies

# Above so many logits the arithmetic in float32 runs chunk by chunk and is repeated in the backward pass.
LARGE = 2**26


def token_logprobs(
    model: Any,
    batch: MicroBatch,
    temperature: float,
    *,
    entropy: bool = False,
    entropy_gradient: bool = False,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Log-probabilities [rows, reply width] of the replies, and the entropy at each position if asked for.

    Logits are made for the replies' own tokens only: over a large vocabulary they are what fills the memory.
    """
    logits = _logits(model, batch)
    scale = temperature if temperature > 0 else 1.0
    ids = batch.response_ids.flatten()[batch.cells]
    chosen = spread(_in_chunks(_log_likelihood, logits, ids, scale), batch)
    if not entropy:
        return chosen, None
    if entropy_gradient:
        return chosen, spread(_in_chunks(_entropy, logits, ids, scale), batch)
    with torch.no_grad():
        return chosen, spread(_in_chunks(_entropy, logits, ids, scale), batch)


def _logits(model: Any, batch: MicroBatch) -> torch.Tensor:
    """[reply tokens, vocabulary], in the order of `batch.cells`."""

    def pick(_: Any, given: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        return (given[0].flatten(0, 1)[batch.sources], *given[1:])

    # Before the output layer and inside the model's own pass, so that wrappers (adapters, shards) notice nothing.
    hook = model.get_output_embeddings().register_forward_pre_hook(pick)
    try:
        logits: torch.Tensor = model(input_ids=batch.input_ids, use_cache=False).logits
    finally:
        hook.remove()
    # A model that does not call its output layer as a module has made them all.
    return logits if logits.dim() == 2 else logits.flatten(0, 1)[batch.sources]


def spread(values: torch.Tensor, batch: Replies) -> torch.Tensor:
    """One value per reply token as [rows, reply width], zero elsewhere."""
    empty = values.new_zeros(batch.response_ids.numel())
    return empty.scatter(0, batch.cells, values).view_as(batch.response_ids)


def _log_likelihood(logits: torch.Tensor, ids: torch.Tensor, scale: float) -> torch.Tensor:
    return -F.cross_entropy(logits.float() / scale, ids, reduction="none")


def _entropy(logits: torch.Tensor, ids: torch.Tensor, scale: float) -> torch.Tensor:
    logs = torch.log_softmax(logits.float() / scale, dim=-1)
    return -(logs.exp() * logs).sum(-1)


def _in_chunks(
    score: Callable[[torch.Tensor, torch.Tensor, float], torch.Tensor],
    logits: torch.Tensor,
    ids: torch.Tensor,
    scale: float,
) -> torch.Tensor:
    """`score` of all tokens; those of a large batch a few at a time so that their float32 copies never coexist."""
    if logits.numel() <= LARGE:
        return score(logits, ids, scale)
    size = max(1, LARGE // logits.shape[-1])
    parts = [
        checkpoint(score, logits[at : at + size], ids[at : at + size], scale, use_reentrant=False)
        for at in range(0, len(logits), size)
    ]
    return torch.cat(parts)


def token_weights(batch: Replies, aggregate: str) -> torch.Tensor:
    """What each token counts, before division by the minibatch's total: [rows, reply width].

    `token-mean`: 1 for every sampled token. `step-mean`: 1 / (tokens of its step).
    """
    mask = batch.response_mask
    if aggregate == "step-mean":
        return mask / mask.sum(1, keepdim=True).clamp_min(1.0)
    return mask


PolicyLoss = Callable[
    [torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, UpdateConfig], tuple[torch.Tensor, torch.Tensor]
]
"""(log-probabilities, old ones, advantages [rows], mask, settings) -> (loss of each token, whether its clip is active).

All but the advantages are [rows, reply width]. The loss must be proportional to the advantage: rows whose advantage is
zero are left out of the passes.
"""


def ppo(
    logprobs: torch.Tensor,
    old: torch.Tensor,
    advantages: torch.Tensor,
    mask: torch.Tensor,
    settings: UpdateConfig,
) -> tuple[torch.Tensor, torch.Tensor]:
    """PPO's clipped surrogate with dual clip, token by token.

    ratio r = exp(logprob - old);  loss = max(-A r, -A clip(r, 1 - low, 1 + high)), and for A < 0 at most -A c
    with c = `dual_clip`.
    """
    weight = advantages[:, None]
    loss, active = _clipped(_ratio(logprobs - old), weight, settings)
    if settings.dual_clip > 0:
        loss = torch.where(weight < 0, torch.minimum(loss, -weight * settings.dual_clip), loss)
    return loss, active


def gspo(
    logprobs: torch.Tensor,
    old: torch.Tensor,
    advantages: torch.Tensor,
    mask: torch.Tensor,
    settings: UpdateConfig,
) -> tuple[torch.Tensor, torch.Tensor]:
    """GSPO (arXiv 2507.18071): the clipped surrogate with one ratio for the whole reply, the tokens' geometric mean.

    s = exp(mean over tokens of (logprob - old)). Every token carries s as its ratio and its own share of the gradient,
    A s grad(logprob); with `update.aggregate=step-mean` the sum is the published objective. It has no dual clip, and
    its clips are narrow: the authors use 3e-4 below and 4e-4 above.
    """
    gap = (logprobs - old) * mask
    mean = gap.sum(1, keepdim=True) / mask.sum(1, keepdim=True).clamp_min(1.0)
    return _clipped(_ratio(mean.detach() + logprobs - logprobs.detach()), advantages[:, None], settings)


def cispo(
    logprobs: torch.Tensor,
    old: torch.Tensor,
    advantages: torch.Tensor,
    mask: torch.Tensor,
    settings: UpdateConfig,
) -> tuple[torch.Tensor, torch.Tensor]:
    """CISPO (arXiv 2506.13585): the importance weight is clipped, not the gradient, so every token keeps a say.

    loss = -A sg(clip(r, 1 - low, 1 + high)) logprob, where sg lets no gradient through.
    """
    ratio = _ratio(logprobs - old).detach()
    weight = ratio.clamp(1.0 - settings.clip_low, 1.0 + settings.clip_high)
    return -advantages[:, None] * weight * logprobs, weight != ratio


def reinforce(
    logprobs: torch.Tensor,
    old: torch.Tensor,
    advantages: torch.Tensor,
    mask: torch.Tensor,
    settings: UpdateConfig,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The plain policy gradient (REINFORCE): loss = -A logprob. Right for one update per batch of rollouts."""
    return -advantages[:, None] * logprobs, torch.zeros_like(mask, dtype=torch.bool)


LOSSES: dict[str, PolicyLoss] = {"ppo": ppo, "gspo": gspo, "cispo": cispo, "reinforce": reinforce}
"""The policy losses by the name that `update.loss` gives them."""


def find_loss(name: str) -> PolicyLoss:
    """The policy loss called `name`."""
    if name not in LOSSES:
        raise UnknownName("loss", name, LOSSES)
    return LOSSES[name]


def _ratio(gap: torch.Tensor) -> torch.Tensor:
    # A ratio beyond e^20 means the policy is gone; the bound keeps the gradient finite until that is reported.
    return gap.clamp(-20.0, 20.0).exp()


def _clipped(
    ratio: torch.Tensor, weight: torch.Tensor, settings: UpdateConfig
) -> tuple[torch.Tensor, torch.Tensor]:
    """The clipped surrogate of each ratio, and whether the clip is active; `weight` is the advantage, [rows, 1]."""
    plain = -weight * ratio
    clipped = -weight * ratio.clamp(1.0 - settings.clip_low, 1.0 + settings.clip_high)
    return torch.maximum(plain, clipped), clipped > plain


def k3(logprobs: torch.Tensor, reference: torch.Tensor) -> torch.Tensor:
    """Low-variance estimate of KL(policy || reference) for each token: e^d - d - 1, d = reference - policy.

    Bounded at 10 as in the trainer of the published runs: a token further off adds a constant and no gradient. Without
    the bound one token with d = 10 would pull with e^10.
    """
    gap = (reference - logprobs).clamp(-20.0, 20.0)
    return (gap.exp() - gap - 1.0).clamp(-10.0, 10.0)


def loss_sum(
    batch: Replies,
    logprobs: torch.Tensor,
    entropy: torch.Tensor | None,
    reference: torch.Tensor | None,
    settings: UpdateConfig,
    normaliser: float,
    *,
    regularised: bool = True,
) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """The micro-batch's part of the minibatch's loss, and sums for the metrics (same normaliser).

    Args:
        batch: the micro-batch.
        logprobs: [rows, reply width] under the policy in training.
        entropy: the same shape, or None.
        reference: log-probabilities under the reference model, or None.
        settings: which policy loss, and the coefficients.
        normaliser: sum of `token_weights` over the WHOLE minibatch, all processes included.
        regularised: whether these rows have the KL term and the entropy bonus; where they do, they count for the
            rows that do not (`settings.regulariser_share`).
    """
    weights = token_weights(batch, settings.aggregate) / normaliser
    loss = find_loss(settings.loss)
    terms, active = loss(logprobs, batch.old_logprobs, batch.advantages, batch.response_mask, settings)
    policy = (terms * batch.corrections * weights).sum()
    total = policy
    gap = ((logprobs - batch.old_logprobs) * batch.response_mask).detach()
    sums = {
        "loss/policy": policy.detach(),
        "clip_share": (active.float() * weights).sum().detach(),
        # k3 against the sampling policy: how far this update has moved, and any engine mismatch.
        "kl_old": ((gap.exp() - gap - 1.0) * weights).sum(),
        "logprob_gap": (gap.abs() * weights).sum(),
    }
    standing = weights / settings.regulariser_share
    if reference is not None:
        kl = (k3(logprobs, reference) * standing).sum()
        total = total + settings.kl_coef * kl
        sums["loss/kl"] = kl.detach()
    elif settings.kl_coef > 0:
        sums["loss/kl"] = policy.new_zeros(())
    if entropy is not None:
        if regularised:
            total = total - settings.entropy_coef * (entropy * standing).sum()
        sums["entropy"] = (entropy * weights).sum().detach()
    sums["loss/total"] = total.detach()
    return total, sums
