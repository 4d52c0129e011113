"""The objective, against literal arithmetic, and that nothing outside the replies is trained."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from hgpo.config.schema import ModelConfig, UpdateConfig
from hgpo.errors import UnknownName
from hgpo.learn.batching import MicroBatch, micro_batches, minibatches, row_lengths, share_out, tensors
from hgpo.learn.objective import LOSSES, find_loss, k3, loss_sum, ppo, token_logprobs, token_weights
from hgpo.models.tiny import make_tiny

from .tokens import Row, batch_of


@pytest.fixture(scope="module")
def model() -> torch.nn.Module:
    config = ModelConfig(hidden=16, layers=1, heads=2, intermediate=32)
    return make_tiny(config, vocabulary=20, end_id=0, seed=1, positions=64).eval()


def some_rows(count: int, seed: int = 0) -> list[Row]:
    random = np.random.default_rng(seed)
    rows = []
    for _ in range(count):
        prompt = random.integers(1, 20, random.integers(2, 12)).tolist()
        reply = random.integers(0, 20, random.integers(1, 6)).tolist()
        rows.append(Row(prompt, reply, (-random.random(len(reply)) * 3).tolist(), float(random.normal())))
    return rows


def padded(rows: list[Row]) -> MicroBatch:
    return tensors(batch_of(rows), np.arange(len(rows)), 0, "cpu")


def literal_logprobs(model: torch.nn.Module, row: Row, temperature: float) -> list[float]:
    """One row alone, without padding, one position at a time."""
    ids = torch.tensor([[*row.prompt_ids, *row.response_ids]])
    logits = model(input_ids=ids).logits[0].double() / temperature
    start = len(row.prompt_ids)
    return [
        float(torch.log_softmax(logits[start + place - 1], -1)[token])
        for place, token in enumerate(row.response_ids)
    ]


@pytest.mark.parametrize("temperature", [1.0, 0.4])
def test_logprobs_do_not_depend_on_padding(model: torch.nn.Module, temperature: float) -> None:
    rows = some_rows(7)
    batch = padded(rows)
    found, _ = token_logprobs(model, batch, temperature)
    for place, row in enumerate(rows):
        size = len(row.response_ids)
        assert found[place, :size].tolist() == pytest.approx(
            literal_logprobs(model, row, temperature), abs=1e-4
        )
        assert batch.response_mask[place].sum() == size


def literal_loss(model: torch.nn.Module, rows: list[Row], goal: UpdateConfig) -> float:
    total = weight = 0.0
    for row in rows:
        for new, old in zip(literal_logprobs(model, row, 1.0), row.logprobs):
            ratio = math.exp(new - old)
            low, high = 1 - goal.clip_low, 1 + goal.clip_high
            loss = max(-row.advantage * ratio, -row.advantage * min(max(ratio, low), high))
            if goal.dual_clip and row.advantage < 0:
                loss = min(loss, -row.advantage * goal.dual_clip)
            share = 1.0 if goal.aggregate == "token-mean" else 1.0 / len(row.response_ids)
            total, weight = total + share * loss, weight + share
    return total / weight


@pytest.mark.parametrize("aggregate", ["token-mean", "step-mean"])
@pytest.mark.parametrize("dual_clip", [0.0, 3.0])
def test_loss_equals_literal_arithmetic(model: torch.nn.Module, aggregate: str, dual_clip: float) -> None:
    rows = some_rows(9, seed=3)
    goal = UpdateConfig(clip_low=0.2, clip_high=0.3, dual_clip=dual_clip, aggregate=aggregate)
    whole = padded(rows)
    normaliser = float(token_weights(whole, aggregate).sum())
    logs, _ = token_logprobs(model, whole, 1.0)
    loss, _ = loss_sum(whole, logs, None, None, goal, normaliser)
    assert float(loss) == pytest.approx(literal_loss(model, rows, goal), abs=1e-4)


def gradient(
    model: torch.nn.Module,
    rows: list[Row],
    parts: list[np.ndarray],
    goal: UpdateConfig,
    plain: list[np.ndarray] | None = None,
) -> torch.Tensor:
    """Of passes over `parts`, and of those over `plain` without KL term and entropy bonus."""
    model.zero_grad()
    whole = padded(rows)
    normaliser = float(token_weights(whole, goal.aggregate).sum())
    for part, regularised in [(part, True) for part in parts] + [(part, False) for part in plain or []]:
        batch = tensors(batch_of(rows), part, 0, "cpu")
        logs, entropy = token_logprobs(model, batch, 1.0, entropy=True, entropy_gradient=True)
        reference = logs.detach() - 0.1 if regularised else None
        loss, _ = loss_sum(batch, logs, entropy, reference, goal, normaliser, regularised=regularised)
        loss.backward()
    return torch.cat([p.grad.flatten() for p in model.parameters()])


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("aggregate", ["token-mean", "step-mean"])
def test_micro_batches_and_padding_rows_change_nothing(
    model: torch.nn.Module, aggregate: str, loss: str
) -> None:
    rows = some_rows(11, seed=5)
    goal = UpdateConfig(loss=loss, kl_coef=0.05, entropy_coef=0.01, aggregate=aggregate)
    whole = gradient(model, rows, [np.arange(11)], goal)
    lengths = row_lengths(batch_of(rows))
    split = micro_batches(lengths, np.arange(11), 40)
    assert len(split) > 2
    assert torch.allclose(gradient(model, rows, split, goal), whole, atol=1e-6)
    shares = share_out(lengths, np.arange(11), 40, 3)
    assert len({len(share) for share in shares}) == 1, "every process runs as many passes"
    dealt = [part for share in shares for part in share]
    assert sorted(np.concatenate(dealt)) == list(range(11))
    nothing = np.arange(0)
    assert torch.allclose(gradient(model, rows, [*dealt, nothing], goal), whole, atol=1e-6)


@pytest.mark.parametrize("aggregate", ["token-mean", "step-mean"])
def test_regularised_steps_stand_for_the_others(model: torch.nn.Module, aggregate: str) -> None:
    """Over all choices of half of the steps the gradient is on average that of all."""
    rows = [
        row._replace(advantage=0.0) if place < 2 else row for place, row in enumerate(some_rows(6, seed=5))
    ]
    goal = UpdateConfig(kl_coef=0.05, entropy_coef=0.01, aggregate=aggregate)
    whole = gradient(model, rows, [np.arange(6)], goal)
    half = replace(goal, regulariser_share=0.5)
    found = []
    for chosen in itertools.combinations(range(6), 3):
        others = np.setdiff1d(np.arange(6), chosen)
        found.append(gradient(model, rows, [np.array(chosen)], half, plain=[others]))
    assert not torch.allclose(found[0], whole, atol=1e-4)
    torch.testing.assert_close(torch.stack(found).mean(0), whole, atol=1e-6, rtol=1e-4)


def test_large_batches_in_chunks_give_the_same(
    model: torch.nn.Module, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, goal = some_rows(11, seed=6), UpdateConfig(kl_coef=0.0, entropy_coef=0.01)
    whole = gradient(model, rows, [np.arange(11)], goal)
    monkeypatch.setattr("hgpo.learn.objective.LARGE", 250)
    assert torch.allclose(gradient(model, rows, [np.arange(11)], goal), whole, atol=1e-6)


def test_prompts_carry_no_gradient_of_their_own(model: torch.nn.Module) -> None:
    """Changing what the loss sees of the prompt positions (there is nothing) cannot change the loss."""
    rows = some_rows(4, seed=8)
    batch = padded(rows)
    assert batch.response_mask.shape[1] == max(len(row.response_ids) for row in rows)
    assert float(batch.response_mask.sum()) == sum(len(row.response_ids) for row in rows)


@pytest.mark.parametrize("name", LOSSES)
def test_sign_pushes_probability_the_right_way(name: str) -> None:
    logs = torch.zeros(2, 1, requires_grad=True)
    old, mask = torch.zeros(2, 1), torch.ones(2, 1)
    loss, _ = LOSSES[name](logs, old, torch.tensor([1.0, -1.0]), mask, UpdateConfig())
    loss.sum().backward()
    assert logs.grad is not None
    assert logs.grad[0].item() < 0 < logs.grad[1].item()


def by_hand(name: str, gap: list[float], advantage: float, **settings: float) -> list[float]:
    """Loss, with every step equal, then gradient, of one reply whose log-probabilities moved by `gap` from -1 each.

    A row with one token more stands beside it, so that padding is there to be counted wrongly.
    """
    size = len(gap)
    old = torch.full((2, size + 1), -1.0)
    logs = (old + torch.tensor([[*gap, 0.0], [0.0] * (size + 1)])).requires_grad_()
    mask = torch.tensor([[1.0] * size + [0.0], [1.0] * (size + 1)])
    update = UpdateConfig(**settings)  # type: ignore[arg-type]
    terms, _ = LOSSES[name](logs, old, torch.tensor([advantage, 0.0]), mask, update)
    loss = ((terms * mask)[0] / size).sum()
    loss.backward()
    assert logs.grad is not None
    assert logs.grad[0, size] == 0
    return [float(loss.detach()), *logs.grad[0, :size].tolist()]


def test_gspo_has_one_ratio_for_the_whole_reply() -> None:
    """s = exp(mean of 0.3 and -0.1) = exp(0.1) for both tokens, -A s / 2 as gradient of each."""
    ratio = math.exp(0.1)
    assert by_hand("gspo", [0.3, -0.1], 2.0) == pytest.approx([-2.0 * ratio, -ratio, -ratio])
    # Beyond 1 + 0.05 the clip holds the loss and stops the gradient; a negative advantage goes on pulling back.
    assert by_hand("gspo", [0.3, -0.1], 2.0, clip_high=0.05) == pytest.approx([-2.1, 0.0, 0.0])
    assert by_hand("gspo", [0.3, -0.1], -2.0, clip_high=0.05) == pytest.approx([2.0 * ratio, ratio, ratio])


def test_ppo_has_a_ratio_for_every_token() -> None:
    """Of exp(0.3) and exp(-0.1) the first is above 1 + 0.2: its loss is held there, without a gradient."""
    assert by_hand("ppo", [0.3, -0.1], 2.0) == pytest.approx([-(1.2 + math.exp(-0.1)), 0.0, -math.exp(-0.1)])
    # exp(1.5) is above the dual clip of 3: for A < 0 the loss is -A c and pulls no more.
    assert by_hand("ppo", [1.5], -2.0) == pytest.approx([6.0, 0.0])


def test_cispo_clips_the_weight_and_keeps_the_gradient() -> None:
    """Weights min(exp(0.3), 1.2) = 1.2 and exp(-0.1); log-probabilities -0.7 and -1.1."""
    low = math.exp(-0.1)
    assert by_hand("cispo", [0.3, -0.1], 2.0) == pytest.approx([-(1.2 * -0.7 + low * -1.1), -1.2, -low])


def test_reinforce_knows_no_ratio() -> None:
    assert by_hand("reinforce", [0.3, -0.1], 2.0) == pytest.approx([1.8, -1.0, -1.0])


@pytest.mark.parametrize("name", LOSSES)
def test_all_losses_agree_where_nothing_has_moved(name: str) -> None:
    """At the sampling policy every one of them has the policy gradient, -A grad(logprob)."""
    assert by_hand(name, [0.0, 0.0, 0.0], 1.5)[1:] == pytest.approx([-0.5] * 3)


def test_the_name_decides_the_loss() -> None:
    assert find_loss("ppo") is ppo
    assert UpdateConfig().loss == "ppo"
    with pytest.raises(UnknownName, match=r"Unknown loss 'gsppo'. Did you mean 'gspo'"):
        find_loss("gsppo")


def test_k3_is_zero_at_equality_and_positive_elsewhere() -> None:
    gap = torch.linspace(-3, 3, 13)
    values = k3(gap, torch.zeros(13))
    assert float(values[6]) == 0.0
    assert (values[torch.arange(13) != 6] > 0).all()


@pytest.mark.parametrize(("updates", "rows", "expected"), [(4, 10, 4), (0, 10, 3), (50, 10, 10), (0, 3, 1)])
def test_minibatches_use_every_row_once(updates: int, rows: int, expected: int) -> None:
    parts = minibatches(rows, updates=updates, minibatch_rows=4, seed=1, epoch=0)
    assert len(parts) == expected
    assert sorted(int(i) for part in parts for i in part) == list(range(rows))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_micro_batches_respect_the_budget() -> None:
    rows = some_rows(50)
    lengths = row_lengths(batch_of(rows))
    assert lengths.tolist() == [len(row.prompt_ids) + len(row.response_ids) for row in rows]
    parts = micro_batches(lengths, np.arange(50), 60)
    assert all(lengths[part].max() * len(part) <= 60 for part in parts)
    assert sorted(np.concatenate(parts)) == list(range(50))
    assert [len(part) for part in micro_batches(lengths, np.arange(5), 1)] == [1] * 5
    assert micro_batches(lengths, np.arange(0), 60) == []


def test_a_token_far_from_the_reference_adds_a_bounded_kl_and_no_gradient() -> None:
    """e^d - d - 1 within [-10, 10], as the published runs' trainer has it; beyond it the gradient is zero, not e^10."""
    gaps = torch.tensor([-30.0, -11.5, -10.0, -1.0, 0.0, 1.0, 2.5, 2.8, 10.0, 30.0])
    logprobs = (-gaps).requires_grad_()
    values = k3(logprobs, torch.zeros_like(gaps))
    values.sum().backward()
    expected = [min(math.exp(d) - d - 1.0, 10.0) for d in gaps.clamp(-20.0, 20.0).tolist()]
    assert values.tolist() == pytest.approx(expected, rel=1e-5, abs=1e-6)
    inside = [math.exp(d) - d - 1.0 <= 10.0 for d in gaps.tolist()]
    assert inside == [False, False, True, True, True, True, True, False, False, False]
    slopes = [1.0 - math.exp(d) if near else 0.0 for d, near in zip(gaps.tolist(), inside)]
    assert logprobs.grad is not None
    assert logprobs.grad.tolist() == pytest.approx(slopes, rel=1e-5, abs=1e-6)
