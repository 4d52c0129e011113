"""LoRA under verl: adapters merged into the weights they belong to.

verl writes and sends a model with adapters under PEFT's names. No loader of plain models knows them, and transformers
would fill every weight that it misses with random numbers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..errors import BadFile
from ..files import atomic_path

PREFIX, BASE, DOWN, UP = "base_model.model.", ".base_layer", ".lora_A", ".lora_B"
META = "lora_train_meta.json"
"""What verl writes about the adapters of a checkpoint, beside the folder of the model."""
WEIGHTS = "model.safetensors"


def plain_name(name: str) -> str:
    """PEFT's name of a weight without what PEFT adds to it.

    >>> plain_name("base_model.model.model.layers.0.mlp.up_proj.base_layer.weight")
    'model.layers.0.mlp.up_proj.weight'
    >>> plain_name("base_model.model.model.layers.0.mlp.up_proj.lora_A.default.weight")
    'model.layers.0.mlp.up_proj.lora_A.weight'
    """
    return name.removeprefix(PREFIX).replace(BASE, "").replace(".default.", ".")


def merged(weights: Mapping[str, Any], adapters: Mapping[str, Any], alpha: float) -> dict[str, Any]:
    """W + alpha / rank B A for every weight W [out, in] that has adapters A [rank, in] and B [out, rank].

    Args:
        weights: tensors by their names; PEFT's or plain.
        adapters: the adapters' tensors by their names.
        alpha: scale of the adapters.

    Raises:
        BadFile: an adapter without its other half, or without its weight.
    """
    result = {plain_name(name): tensor for name, tensor in weights.items()}
    halves = {plain_name(name): tensor for name, tensor in adapters.items()}
    for name, down in halves.items():
        if DOWN not in name:
            continue
        target, other = name.replace(DOWN, ""), name.replace(DOWN, UP)
        if target not in result or other not in halves:
            missing = target if target not in result else other
            raise BadFile(
                f"The adapter {name} has no {missing}; expected both its halves and the weight they change."
            )
        weight = result[target]
        change = halves[other].float() @ down.float() * (alpha / len(down))
        result[target] = (weight.float() + change).to(weight.dtype)
    left = [
        name
        for name in halves
        if DOWN not in name and (UP not in name or name.replace(UP, DOWN) not in halves)
    ]
    if left:
        raise BadFile(f"{left[0]} is no half of an adapter; only LoRA on linear layers can be merged.")
    return result


def merge_folder(folder: Path, alpha: float) -> bool:
    """Merge the adapters in a model's folder, where there are any; whether there were.

    Args:
        folder: a model in Hugging Face format, as verl wrote it.
        alpha: scale of the adapters, where verl's own note beside the folder does not say otherwise.
    """
    from safetensors.torch import load_file, save_file

    files = sorted(folder.glob("*.safetensors"))
    stored = {name: tensor for file in files for name, tensor in load_file(file).items()}
    adapters = {name: tensor for name, tensor in stored.items() if "lora_" in name}
    if not adapters:
        return False
    base = {name: tensor for name, tensor in stored.items() if name not in adapters}
    whole = merged(base, adapters, _alpha(folder.parent / META, alpha))
    with atomic_path(folder / WEIGHTS) as temporary:
        save_file({name: tensor.contiguous() for name, tensor in whole.items()}, temporary, {"format": "pt"})
    for file in [*files, folder / f"{WEIGHTS}.index.json"]:
        if file.name != WEIGHTS:
            file.unlink(missing_ok=True)
    return True


def _alpha(meta: Path, given: float) -> float:
    """The scale in verl's note, which holds whole numbers only; the given one where they agree."""
    try:
        noted = json.loads(meta.read_text(encoding="utf-8"))["lora_alpha"]
    except (OSError, ValueError, KeyError, TypeError):
        return given
    return given if int(given) == noted else float(noted)
