"""Checkpoints: a folder that is either complete or not there, safetensors and JSON only.

    checkpoints/000040/trainer.safetensors   weights and optimiser moments, in the type they are trained in
    checkpoints/000040/state.json            iteration, cursor, updates, best, config digest
    checkpoints/000040/model/                the policy in Hugging Face format; of a LoRA run the adapters alone

A folder is written under another name, flushed to disk and renamed, so a kill at any instant leaves the
last good one.
"""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from ..errors import BadFile
from ..models.load import save_model

PARTIAL = ".partial-"


@dataclass(frozen=True)
class TrainState:
    """Where a run stands, besides its weights."""

    iteration: int
    """Finished iterations."""
    cursor: int
    """Tasks handed out so far."""
    updates: int
    """Optimiser steps so far."""
    best_iteration: int = -1
    """The iteration with the best evaluation so far, -1 before the first."""
    best_success: float = -1.0
    """Its success."""
    seconds: float = 0.0
    """Time spent training so far."""


def list_checkpoints(run: Path) -> list[Path]:
    """All complete checkpoints, oldest first."""
    folder = run / "checkpoints"
    if not folder.is_dir():
        return []
    return sorted(one for one in folder.iterdir() if one.name.isdigit() and (one / "state.json").is_file())


def save(
    run: Path,
    state: TrainState,
    tensors: dict[str, torch.Tensor],
    actor: Any,
    tokenizer: Any,
    settings: dict[str, Any],
    keep: int,
) -> Path:
    """Write a checkpoint and remove those that are neither best nor among the last `keep`."""
    from safetensors.torch import save_file

    parent = run / "checkpoints"
    parent.mkdir(parents=True, exist_ok=True)
    for leftover in parent.glob(f"{PARTIAL}*"):
        shutil.rmtree(leftover, ignore_errors=True)
    target = parent / f"{state.iteration:06d}"
    partial = parent / f"{PARTIAL}{target.name}"
    partial.mkdir()
    save_file(
        {name: tensor.contiguous() for name, tensor in tensors.items()}, partial / "trainer.safetensors"
    )
    save_model(actor, tokenizer, partial / "model", settings, merge=False)
    (partial / "state.json").write_text(json.dumps(asdict(state), indent=1), encoding="utf-8")
    flush(partial)
    if target.exists():
        shutil.rmtree(target)
    os.rename(partial, target)
    _sync_folder(parent)
    known = list_checkpoints(run)
    for old in known[:-keep]:
        if int(old.name) != state.best_iteration:
            shutil.rmtree(old, ignore_errors=True)
    return target


def load(folder: Path) -> tuple[TrainState, dict[str, torch.Tensor]]:
    """Read a checkpoint back."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        state = TrainState(**json.loads((folder / "state.json").read_text(encoding="utf-8")))
        return state, load_file(folder / "trainer.safetensors")
    except (OSError, ValueError, TypeError, SafetensorError) as error:
        raise BadFile(
            f"The checkpoint {folder} is damaged: {error}. Delete it to go on from the one before."
        ) from error


def replace_folder(partial: Path, target: Path) -> None:
    """Put a freshly written folder in the place of `target`."""
    flush(partial)
    old = target.with_name(f"{PARTIAL}old-{target.name}")
    shutil.rmtree(old, ignore_errors=True)
    if target.exists():
        os.rename(target, old)
    os.rename(partial, target)
    shutil.rmtree(old, ignore_errors=True)
    _sync_folder(target.parent)


def export(run: Path, actor: Any, tokenizer: Any, settings: dict[str, Any]) -> Path:
    """Write `run/model`, the policy in Hugging Face format."""
    partial = run / f"{PARTIAL}model"
    shutil.rmtree(partial, ignore_errors=True)
    save_model(actor, tokenizer, partial, settings)
    replace_folder(partial, run / "model")
    return run / "model"


def flush(folder: Path) -> None:
    """Force all files under `folder` to disk."""
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            with open(path, "rb") as handle:
                os.fsync(handle.fileno())
        else:
            _sync_folder(path)
    _sync_folder(folder)


def _sync_folder(folder: Path) -> None:
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        # Folders cannot be opened on some systems; the rename is then as durable as the system makes it.
        return
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
