"""LoRA adapters on a pretrained model: made, left aside, loaded and merged."""

from __future__ import annotations

import contextlib
import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..config.schema import ModelConfig
from ..errors import BadFile, MissingExtra
from .folder import base_model

ADAPTERS = "adapter_config.json"
"""The file that makes a folder one of adapters (PEFT's format)."""


def add_adapters(model: Any, config: ModelConfig) -> Any:
    """The model with trainable adapters on all linear layers and everything else frozen."""
    peft = _peft()
    return peft.get_peft_model(
        model,
        peft.LoraConfig(
            r=config.lora_rank,
            lora_alpha=config.lora_alpha or 2 * config.lora_rank,
            target_modules="all-linear",
            task_type="CAUSAL_LM",
        ),
    )


@contextlib.contextmanager
def without_adapters(model: Any) -> Iterator[Any]:
    """The model as it was before its adapters: the reference policy of a LoRA run costs no memory."""
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    with model.disable_adapter():
        # peft freezes adapters that it leaves aside; FSDP2, which looks once at its first pass, must not see that.
        for parameter in trained:
            parameter.requires_grad_(True)
        yield model


def merged(model: Any) -> Any:
    """The model with its adapters merged into a copy of its weights; the model itself when it has none."""
    return _unloaded(copy.deepcopy(model)) if hasattr(model, "merge_and_unload") else model


def _unloaded(model: Any) -> Any:
    """The model without adapter layers, its weights those that a run samples from.

    peft by itself rounds what the adapters add before it adds it, and so gives other last bits.
    """
    import torch

    from .packed import played_weights

    weights = dict(played_weights(model))
    plain = model.merge_and_unload()
    with torch.no_grad():
        for name, parameter in plain.named_parameters():
            parameter.copy_(weights[name])
    return plain


def base_of(folder: Path) -> str:
    """The folder or hub id of the model that the adapters in `folder` belong to."""
    if not (folder / "adapter_model.safetensors").is_file():
        raise BadFile(f"{folder} describes adapters but holds no adapter_model.safetensors.")
    settings = _settings(folder / ADAPTERS)
    # PEFT imports the module that this names.
    if settings.get("megatron_config"):
        raise BadFile(
            f"{folder / ADAPTERS} asks for Megatron's layers; expected adapters of a transformers model."
        )
    base = settings.get("base_model_name_or_path") or ""
    # A run may have been moved, with the policy it started from inside it.
    beside = base_model(folder)
    return str(beside) if not Path(base).exists() and beside is not None else str(base)


def _settings(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BadFile(f"{path} cannot be read as the settings of adapters: {error}.") from error
    if not isinstance(content, dict):
        raise BadFile(
            f"{path} holds a JSON {type(content).__name__}; expected the settings of adapters, an object."
        )
    return content


def merge_into(model: Any, folder: Path) -> Any:
    """The base model `model` with the adapters of `folder` merged in."""
    from safetensors import SafetensorError, safe_open

    peft = _peft()
    try:
        adapted = peft.PeftModel.from_pretrained(model, str(folder))
        with safe_open(folder / "adapter_model.safetensors", "pt") as stored:
            given = set(stored.keys())
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        reason = " ".join(str(error).split())[:300].rstrip(".")
        raise BadFile(f"The adapters in {folder} cannot be loaded: {reason}.") from error
    # peft fills adapters that are missing with their first values, without an error.
    expected = set(peft.get_peft_model_state_dict(adapted))
    if given != expected:
        name = sorted(given ^ expected)[0]
        what = "missing" if name in expected else "not part of the model"
        raise BadFile(
            f"The adapters in {folder} do not belong to the model that they name: {name} is {what}."
        )
    return _unloaded(adapted)


def _peft() -> Any:
    try:
        import peft
    except ImportError as error:
        raise MissingExtra("peft", "train", "LoRA") from error
    return peft
