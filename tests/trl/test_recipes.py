"""The recipes of docs/trl.md for a plain torch loop, as they stand there; and what spreads advantages over tokens."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hgpo
from hgpo.config.schema import Config
from hgpo.config.stage import open_stage
from hgpo.errors import BadSteps

from .page import defined, program

torch = pytest.importorskip("torch")


def played(config: Config, start: Path) -> tuple[Any, Any, Any]:
    """Model, tokenizer and the steps that the model played."""
    from hgpo.learn.distributed import Processes
    from hgpo.models.load import load_model
    from hgpo.policies.hf.engine import HFEngine
    from hgpo.runs.rollout import roll_out

    device = torch.device("cpu")
    model, tokenizer = load_model(str(start), config.model, device)
    engine = HFEngine(model.eval(), tokenizer, max_new_tokens=config.agent.max_response_tokens)
    stage = open_stage(config)
    tasks = stage.tasks(config.env.split)
    batch = roll_out(stage, engine.policy(1.0), config, Processes(device), tasks, 0, 1).batch
    stage.close()
    return model, tokenizer, batch


@pytest.mark.slow
def test_the_recipe_for_torch_updates_by_the_steps_own_advantages(config: Config, start: Path) -> None:
    assert len([line for line in program("recipe: torch").splitlines() if line.strip()]) <= 30
    update: Any = defined("recipe: torch", "update")
    model, _, batch = played(config, start)
    settings = {"depth": 2, "invalid_penalty": 0.1}
    before = {name: one.detach().clone() for name, one in model.named_parameters()}
    optimiser = torch.optim.SGD(model.parameters(), lr=0.5)
    loss, ratio = update(model, optimiser, batch, **settings)
    # Nothing was updated between playing and training: the ratio is 1, and the loss the tokens' mean advantage.
    assert ratio == pytest.approx(1.0, abs=1e-5)
    weights = batch.lists("response_ids").lengths
    advantages = hgpo.estimate(batch, "hgpo", **settings).advantages
    assert loss == pytest.approx(-float(np.sum(advantages * weights) / weights.sum()), abs=1e-5)
    assert np.abs(advantages).max() > 0.1
    assert any((one.detach() - before[name]).abs().max() > 1e-4 for name, one in model.named_parameters())
    again, moved = update(model, optimiser, batch, **settings)
    assert again < loss
    assert moved != pytest.approx(1.0, abs=1e-6)


def test_advantages_are_spread_over_the_tokens_of_replies() -> None:
    mask = np.array([[0, 1, 1, 0], [0, 0, 0, 1], [0, 0, 0, 0]])
    expected = [[0, 0.5, 0.5, 0], [0, 0, 0, -2.0], [0, 0, 0, 0]]
    found = hgpo.spread_over_tokens([0.5, -2.0, 7.0], mask)
    assert isinstance(found, np.ndarray)
    assert found.tolist() == expected
    tensor = hgpo.spread_over_tokens(np.array([0.5, -2.0, 7.0]), torch.tensor(mask))
    assert tensor.dtype == torch.float32
    assert tensor.tolist() == expected
    for values in ([1.0, 2.0], [[1.0], [2.0], [3.0]]):
        with pytest.raises(BadSteps, match=r"expected \[steps\] and \[steps, tokens\]"):
            hgpo.spread_over_tokens(values, mask)


def test_settings_in_trls_names_and_those_it_cannot_have(config: Config) -> None:
    from dataclasses import replace

    from hgpo.errors import BadSetting
    from hgpo.trl import trainer_settings

    fitting = replace(config, update=replace(config.update, updates=0, minibatch_rows=256, micro_tokens=8192))
    found = trainer_settings(fitting, processes=2)
    longest = config.agent.max_prompt_tokens + config.agent.max_response_tokens
    rows, passes = found["per_device_train_batch_size"], found["gradient_accumulation_steps"]
    assert rows * longest <= 8192
    assert 256 <= rows * passes * 2 < 256 + 2 * passes
    assert found["learning_rate"] == config.update.lr
    # All rows of the longest possible batch are still young enough.
    assert found["max_staleness"] * 256 >= 2 * 4 * config.agent.max_steps
    for changes, sentence in (
        ({"kl_coef": 0.01}, "update.kl_coef is 0.01.*keeps no reference model. Set update.kl_coef=0"),
        ({"entropy_coef": 0.1}, "update.entropy_coef is 0.1"),
        ({"loss": "gspo"}, "update.loss=gspo"),
        ({"updates": 4}, "update.updates=4"),
        ({"epochs": 2}, "update.epochs=2"),
    ):
        with pytest.raises(BadSetting, match=sentence):
            trainer_settings(replace(fitting, update=replace(fitting.update, **changes)))
