"""Where a model runs and in which type it computes."""

from __future__ import annotations

import contextlib
from typing import Any

import torch

from ..errors import BadSetting

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def pick_device(name: str) -> torch.device:
    """`auto` is the first GPU where there is one, else the CPU."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name.startswith("cuda") and not torch.cuda.is_available():
        raise BadSetting(
            f"device={name} was given, but torch {torch.__version__} sees no GPU. Install a CUDA build of torch, "
            "check the driver with nvidia-smi, or set device=cpu."
        )
    return torch.device(name)


def device_memory(device: torch.device) -> int:
    """Bytes of a GPU's memory, whoever uses them."""
    total: int = torch.cuda.get_device_properties(device).total_memory
    return total


def check_dtype(name: str, device: torch.device) -> None:
    """Complain about arithmetic that the device does not have."""
    if name == "bfloat16" and device.type == "cuda" and not torch.cuda.is_bf16_supported():
        raise BadSetting(
            f"model.dtype=bfloat16 was given, but {torch.cuda.get_device_name(device)} has no bfloat16 arithmetic. "
            "Set model.dtype=float32, and halve update.micro_tokens to make room for it."
        )


def autocast(dtype: str, device: torch.device) -> Any:
    """Compute in bfloat16 where the settings say so; weights keep their own type."""
    if dtype == "float32":
        return contextlib.nullcontext()
    return torch.autocast(device.type, dtype=DTYPES[dtype])
