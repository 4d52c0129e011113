"""Too little memory on the device: smaller passes, then a sentence, wherever it happens."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
import torch

from hgpo.cli import main
from hgpo.errors import OutOfMemory
from hgpo.models.out_of_memory import HALVINGS, TokenBudget, out_of_memory_explained

from ..worlds import FETCH

MESSAGE = "CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has 3 MiB free. Process 7 has 8 GiB in use."


def full(*_: Any, **__: Any) -> Any:
    raise torch.OutOfMemoryError(MESSAGE)


def test_other_errors_pass() -> None:
    with pytest.raises(RuntimeError, match=r"^other$"), out_of_memory_explained():
        raise RuntimeError("other")


def test_the_sentence_names_what_to_lower() -> None:
    with (
        pytest.raises(OutOfMemory, match=r"20\.00 MiB\. Lower rollout\.batch_tokens") as caught,
        out_of_memory_explained(),
    ):
        full()
    assert "Process 7" not in str(caught.value)


@pytest.mark.parametrize("command", ["train", "sft", "eval"])
def test_every_command_that_uses_a_device(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("hgpo.runs.start.clone", full)
    monkeypatch.setattr("hgpo.runs.evaluation.run_panel", full)
    words = {
        "train": ["train", FETCH, "--run", str(tmp_path / "run")],
        "sft": ["sft", FETCH, "--out", str(tmp_path / "model")],
        "eval": ["eval", "expert", "--preset", FETCH],
    }[command]
    assert main(words) == 2
    said = capsys.readouterr().err
    assert "ran out of memory" in said
    assert "rollout.batch_tokens" in said
    assert "Traceback" not in said


def test_half_and_half_again() -> None:
    budget, seen = TokenBudget(100, "some.setting"), []

    def attempt() -> int:
        seen.append(budget.tokens)
        budget.used = budget.tokens
        if budget.tokens > 30:
            raise torch.OutOfMemoryError("full")
        return budget.tokens

    with pytest.warns(RuntimeWarning, match=r"pass of 100 tokens; going on with 50\. Set some\.setting=50"):
        assert budget.spend(attempt, lambda: None) == 25
    assert seen == [100, 50, 25]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert budget.spend(attempt, lambda: None) == 25, "what fitted once is where the next one starts"


def test_half_of_what_was_used_not_of_what_was_allowed() -> None:
    """A budget is often far larger than any pass; halving it would try the same pass again."""
    budget, seen = TokenBudget(1_000_000, "some.setting"), []

    def attempt() -> None:
        budget.used = min(120, budget.tokens)
        seen.append(budget.used)
        if budget.used > 40:
            raise torch.OutOfMemoryError("full")

    with pytest.warns(RuntimeWarning, match=r"pass of 120 tokens; going on with 60"):
        budget.spend(attempt, lambda: None)
    assert seen == [120, 60, 30]


def test_it_gives_up_and_other_errors_pass() -> None:
    tries = []

    def full() -> None:
        tries.append(1)
        raise torch.OutOfMemoryError("full")

    def other() -> None:
        raise RuntimeError("other")

    with pytest.warns(RuntimeWarning), pytest.raises(torch.OutOfMemoryError):
        TokenBudget(64, "x").spend(full, lambda: None)
    assert len(tries) == HALVINGS + 1
    with pytest.raises(RuntimeError, match="other"):
        TokenBudget(64, "x").spend(other, lambda: None)
