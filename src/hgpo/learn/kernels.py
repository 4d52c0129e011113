"""Which kernels a GPU runs, where the usual ones are slow for rows of many lengths or sum in no fixed order."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from types import MethodType
from typing import Any

import torch
import torch.nn.functional as F

from ..errors import BadSetting

KINDS = ("LlamaRMSNorm", "Qwen2RMSNorm", "Qwen3RMSNorm")
"""Classes that compute weight * x / sqrt(mean(x^2) + variance_epsilon), and nothing else."""


def choose_kernels(model: Any, device: torch.device) -> None:
    """Choose the kernels for `model`, in place, if it is on a GPU; attention is chosen for the whole process."""
    if device.type == "cuda":
        fuse_norms(model)
        # cuDNN's attention plans anew for every shape, and passes over rows of many lengths hardly ever repeat one:
        # the same updates of SmolLM2-135M on an H200 ran at 108,000 tokens/s with it and 208,000 without.
        torch.backends.cuda.enable_cudnn_sdp(False)
        _allow_fixed_products(device)


WORKSPACE = "CUBLAS_WORKSPACE_CONFIG"


def _allow_fixed_products(device: torch.device) -> None:
    """Let torch make matrix products in a fixed order, for which some versions ask for a variable.

    They look for it at the first product and never again, but read it anew for the size of the workspace at every one,
    which takes longer than launching it: 168 against 46 microseconds. So it is set for the first product only.
    """
    if WORKSPACE in os.environ:
        return
    os.environ[WORKSPACE] = ":4096:8"
    if not torch.cuda.is_available():
        return
    one = torch.ones((16, 16), device=device)
    with fixed_order(device):
        one @ one
    del os.environ[WORKSPACE]
    try:
        with fixed_order(device):
            one @ one
    except RuntimeError:
        os.environ[WORKSPACE] = ":4096:8"


@contextlib.contextmanager
def fixed_order(device: torch.device, wanted: bool = True) -> Iterator[None]:
    """Kernels that sum in a fixed order while the block runs, so that seed and settings decide every bit of a weight.

    Only gradients need it: what the passes forward use has a fixed order of its own. A CPU's kernels have one, too.

    Raises:
        BadSetting: the model needs a kernel of which no such kind exists.
    """
    if not wanted or device.type != "cuda":
        yield
        return
    before = torch.get_deterministic_debug_mode()
    filling = torch.utils.deterministic.fill_uninitialized_memory
    # Not `use_deterministic_algorithms`, which changes settings of the compiler, too, and leaves them changed.
    torch.set_deterministic_debug_mode("error")
    # For finding code that reads what it never wrote; it writes all new memory once more.
    torch.utils.deterministic.fill_uninitialized_memory = False
    try:
        yield
    except RuntimeError as error:
        if "does not have a deterministic implementation" not in str(error):
            raise
        raise BadSetting(
            f"This model needs a GPU kernel that sums in no fixed order ({str(error).split(',')[0]}). Set "
            "deterministic=false; runs with the same seed then part from one another."
        ) from error
    finally:
        torch.utils.deterministic.fill_uninitialized_memory = filling
        torch.set_deterministic_debug_mode(before)


def fuse_norms(model: Any) -> int:
    """Let the RMS norms of `model` run as one kernel each, in place; returns how many there are.

    transformers writes them as seven, which in narrow models costs more than the matrix products.
    """
    norms = [module for module in model.modules() if type(module).__name__ in KINDS]
    for module in norms:
        module.forward = MethodType(_forward, module)
    return len(norms)


def _forward(self: Any, hidden: torch.Tensor) -> torch.Tensor:
    return F.rms_norm(hidden, tuple(self.weight.shape), self.weight.to(hidden.dtype), self.variance_epsilon)
