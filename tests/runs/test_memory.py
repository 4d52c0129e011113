"""Too little memory on the device: a sentence, wherever it happens."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from hgpo.cli import main
from hgpo.errors import OutOfMemory
from hgpo.policies.hf.memory import memory_explained

from ..worlds import FETCH

MESSAGE = "CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has 3 MiB free. Process 7 has 8 GiB in use."


def full(*_: Any, **__: Any) -> Any:
    raise torch.OutOfMemoryError(MESSAGE)


def test_other_errors_pass() -> None:
    with pytest.raises(RuntimeError, match=r"^other$"), memory_explained():
        raise RuntimeError("other")


def test_the_sentence_names_what_to_lower() -> None:
    with (
        pytest.raises(OutOfMemory, match=r"20\.00 MiB\. Lower rollout\.batch_tokens") as caught,
        memory_explained(),
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
